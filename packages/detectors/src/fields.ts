/**
 * Reads the fields of a value that may be a model.
 *
 * Anyone can write a model file, so each field is checked before use: type, length, finite numbers. A fault is an
 * ArgumentError whose `field` is its path. Arrays are not copied. Found values are described without conversion,
 * because an object from a hostile file may define its own `toString`.
 */
import { ArgumentError, FormatError, type Matrix } from '@oddflow/core'

/** Fields of an object, not checked yet. */
export type Fields = Readonly<Record<string, unknown>>

/** The fields of an object. Throws ArgumentError as all checks here do. */
export function fieldsAt(value: unknown, field: string): Fields {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
    ? (value as Fields)
    : failField(field, 'an object', value)
}

/** Throws for a field of `value` that is not in `known`. */
export function refuseOtherFields(value: Fields, field: string, known: readonly string[]): void {
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) failField(`${field}.${shownKey(key)}`, 'no such field', value[key])
  }
}

/** A key from a file for a message: as it is if it is a word. */
export function shownKey(key: string): string {
  return /^\w{1,60}$/.test(key) ? key : JSON.stringify(key.slice(0, 60))
}

/** Finite numbers; perhaps none. */
export function matrixAt(value: unknown, field: string): Matrix {
  const { rows, cols, data: raw } = fieldsAt(value, field)
  const data = numbersAt(raw, field)
  if (!Number.isSafeInteger(rows) || !Number.isSafeInteger(cols))
    failField(field, 'whole rows and cols', rows)
  if (data.length !== (rows as number) * (cols as number)) {
    failField(field, `${String(rows)} × ${String(cols)} numbers`, data.length)
  }
  return { rows: rows as number, cols: cols as number, data }
}

/** A Float64Array of finite numbers, of `length` if given. */
export function numbersAt(value: unknown, field: string, length?: number): Float64Array {
  if (!(value instanceof Float64Array)) return failField(field, 'a Float64Array', value)
  if (length !== undefined && value.length !== length) failField(field, `${length} numbers`, value.length)
  for (let i = 0; i < value.length; i++) {
    if (!Number.isFinite(value[i]!)) failField(field, 'finite numbers', `${value[i]} at index ${i}`)
  }
  return value
}

/** An Int32Array, of `length` if given. */
export function int32At(value: unknown, field: string, length?: number): Int32Array {
  if (!(value instanceof Int32Array)) return failField(field, 'an Int32Array', value)
  if (length !== undefined && value.length !== length) failField(field, `${length} numbers`, value.length)
  return value
}

/** A finite number. */
export function finiteAt(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isFinite(value)
    ? value
    : failField(field, 'a finite number', value)
}

/** Of 0 or more, unless `low` and `high` say otherwise. */
export function wholeAt(value: unknown, field: string, low = 0, high = Number.MAX_SAFE_INTEGER): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= low && value <= high) return value
  const range =
    high < Number.MAX_SAFE_INTEGER ? ` from ${low} to ${high}` : low > 0 ? ` of ${low} or more` : ''
  return failField(field, `a whole number${range}`, value)
}

/** A bandwidth whose kernel has numbers. */
export function bandwidthAt(value: unknown, field: string): number {
  const h = finiteAt(value, field)
  const inverse = 1 / (h * h)
  return h > 0 && inverse > 0 && Number.isFinite(inverse)
    ? h
    : failField(field, 'a positive number whose square has an inverse', h)
}

export function literalAt<const T extends string>(value: unknown, field: string, expected: T): T {
  return value === expected ? expected : failField(field, expected, value)
}

export function sizeUpTo(value: number, high: number, field: string): void {
  if (!(value >= 1 && value <= high)) failField(field, `from 1 to ${high}`, value)
}

/** Throws ArgumentError with the field, and what was expected and found. */
export function failField(field: string, expected: string, found: unknown): never {
  throw new ArgumentError(`${field}: expected ${expected}, found ${shownValue(found)}`, field)
}

/** What `read` returns. Its errors name the path that `pathOf` makes of their field. */
export function namingPaths<T>(pathOf: (field: string) => string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ArgumentError || error instanceof FormatError)) throw error
    const field = pathOf(error.field ?? 'parameters')
    throw new ArgumentError(`${field}: ${error.detail}`, field, error.hint)
  }
}

/** The field inside a part, unless the field says the part already. */
export const pathIn = (part: string) => (field: string) =>
  field.startsWith(part) ? field : `${part}${field}`

/** As `describeValue`; text is not quoted, because it often holds the checks' own words. */
export function shownValue(found: unknown): string {
  return typeof found === 'string' ? JSON.stringify(found.slice(0, 60)).slice(1, -1) : describeValue(found)
}

/** A found value for a message: never converted, at most one line. */
export function describeValue(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.slice(0, 60))
    case 'number':
    case 'boolean':
      return String(value)
    case 'undefined':
      return 'nothing'
    default:
      if (value === null) return 'null'
      if (typeof value !== 'object') return `a value of type ${typeof value}`
      return Array.isArray(value) ? 'a list' : 'an object'
  }
}

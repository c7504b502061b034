/**
 * Reads the fields of a value that may be a model.
 *
 * Anyone can write a model file, so each field is checked before use: type, length, finite numbers. A fault is a
 * FormatError whose `field` is its path. Found values are described without conversion, because an object from a
 * hostile file may define its own `toString`.
 */
import { ArgumentError, FormatError, type Matrix } from '@oddflow/core'

export type Fields = Readonly<Record<string, unknown>>

export function fieldsOf(value: unknown, field: string): Fields {
  return value !== null && typeof value === 'object'
    ? (value as Fields)
    : refuseField(field, 'an object', value)
}

/** A Float64Array of finite numbers, of `length` if given; not copied. */
export function float64Field(value: unknown, field: string, length?: number): Float64Array {
  if (!(value instanceof Float64Array)) return refuseField(field, 'a Float64Array', value)
  if (length !== undefined && value.length !== length) refuseField(field, `${length} numbers`, value.length)
  for (let i = 0; i < value.length; i++) {
    if (!Number.isFinite(value[i]!)) refuseField(`${field}[${i}]`, 'a finite number', value[i])
  }
  return value
}

/** An Int32Array, of `length` if given; not copied. */
export function int32Field(value: unknown, field: string, length?: number): Int32Array {
  if (!(value instanceof Int32Array)) return refuseField(field, 'an Int32Array', value)
  if (length !== undefined && value.length !== length) refuseField(field, `${length} numbers`, value.length)
  return value
}

/** A matrix of finite numbers with at least one row and one column; its data are not copied. */
export function matrixField(value: unknown, field: string): Matrix {
  const { rows, cols, data } = fieldsOf(value, field)
  const height = wholeField(rows, `${field}.rows`, 1, Number.MAX_SAFE_INTEGER)
  const width = wholeField(cols, `${field}.cols`, 1, Number.MAX_SAFE_INTEGER)
  return { rows: height, cols: width, data: float64Field(data, `${field}.data`, height * width) }
}

export function finiteField(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isFinite(value)
    ? value
    : refuseField(field, 'a finite number', value)
}

export function wholeField(value: unknown, field: string, low: number, high: number): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= low && value <= high
    ? value
    : refuseField(field, `a whole number from ${low} to ${high}`, value)
}

export function literalField<T extends string>(value: unknown, field: string, expected: T): T {
  return value === expected ? expected : refuseField(field, JSON.stringify(expected), value)
}

/** Throws FormatError. */
export function refuseField(field: string, expected: string, found: unknown): never {
  throw new FormatError('model', `${field}: expected ${expected}, found ${describeValue(found)}`, { field })
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

export function numbersAt(value: unknown, field: string): Float64Array {
  if (!(value instanceof Float64Array)) return failField(field, 'a Float64Array', value)
  for (let i = 0; i < value.length; i++) {
    if (!Number.isFinite(value[i]!)) failField(field, 'finite numbers', `${value[i]} at index ${i}`)
  }
  return value
}

export function finiteAt(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isFinite(value)
    ? value
    : failField(field, 'a finite number', value)
}

export function wholeAt(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    ? value
    : failField(field, 'a whole number', value)
}

export function sizeUpTo(value: number, high: number, field: string): void {
  if (!(value >= 1 && value <= high)) failField(field, `from 1 to ${high}`, value)
}

export function fieldsAt(value: unknown, field: string): Fields {
  return value !== null && typeof value === 'object'
    ? (value as Fields)
    : failField(field, 'an object', value)
}

export function failField(field: string, expected: string, found: unknown): never {
  // text is not quoted, because it often holds the checks' own words
  const shown =
    typeof found === 'string' ? JSON.stringify(found.slice(0, 60)).slice(1, -1) : describeValue(found)
  throw new ArgumentError(`${field}: expected ${expected}, found ${shown}`, field)
}

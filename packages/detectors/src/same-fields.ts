/**
 * checkSameFields: has a value from a file exactly the fields that would be written for what was read from it?
 *
 * Checks read the fields that they know. What they make of a value is complete, so the two are compared, object by
 * object: a field too many is something that this version does not understand, a field too few one that somebody
 * took out. It holds for every family of detectors alike, whatever its objects have in them.
 */
import { ArgumentError } from '@oddflow/core'
import { describeValue } from './model-fields.js'

/**
 * `known` is what was made of `found`; lists and numbers are not looked into. Throws ArgumentError with the path of
 * the first field that only one of them has, unless it is among `mayLack` and only `known` has it.
 */
export function checkSameFields(
  found: unknown,
  known: unknown,
  path: string,
  mayLack: readonly string[] = [],
): void {
  if (!isRecord(known)) return
  if (!isRecord(found)) {
    throw new ArgumentError(`${path}: expected an object, found ${describeValue(found)}`, path)
  }
  for (const key of Object.keys(found)) {
    if (Object.hasOwn(known, key)) continue
    const field = `${path}.${/^\w{1,60}$/.test(key) ? key : JSON.stringify(key.slice(0, 60))}`
    throw new ArgumentError(`${field}: no such field is known here`, field)
  }
  for (const [key, value] of Object.entries(known)) {
    const field = `${path}.${key}`
    if (Object.hasOwn(found, key)) checkSameFields(found[key], value, field, mayLack)
    else if (!mayLack.includes(field)) throw new ArgumentError(`${field}: this field is missing`, field)
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}

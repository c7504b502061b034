/** Shapes of what files and other machines say, and JSON by them: bounded in length, with the field in each error. */
import { FormatError, parseStrictJson } from '@oddflow/core'
import { z } from 'zod'

export const digest = z.string().regex(/^[0-9a-f]{64}$/)
/** Printable text on one line. */
export const text = z
  .string()
  .max(500)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u)
export const amount = z.number().min(0)
export const share = z.number().min(0).max(1)
/** From 0 on. */
export const count = z.number().int().min(0)
/** From 1 on. */
export const positive = z.number().int().min(1)
/** Objects of one shape. */
export const list = <Shape extends z.core.$ZodLooseShape>(shape: Shape) =>
  z.array(z.strictObject(shape)).max(100_000)

/** Throws FormatError of that format that names the field. */
export function checkShape<T>(shape: z.ZodType<T>, value: unknown, format: string): T {
  const { success, data, error } = shape.safeParse(value)
  if (success) return data
  const [first] = error.issues
  const field = first?.path.join('.') ?? ''
  throw new FormatError(format, `${field === '' ? format : field}: ${first?.message ?? 'is invalid'}`, {
    field,
  })
}

/** UTF-16 units in a line. */
const MAXIMUM_LINE_LENGTH = 65_536

/** Throws FormatError of that format. */
export function parseShape<T>(
  shape: z.ZodType<T>,
  json: string,
  format: string,
  maximumLength: number = MAXIMUM_LINE_LENGTH,
): T {
  if (json.length > maximumLength) {
    throw new FormatError(format, `expected at most ${maximumLength} characters, found ${json.length}`)
  }
  const { value } = parseStrictJson(json, (message, position) => {
    throw new FormatError(format, message, { offsetBytes: position })
  })
  return checkShape(shape, value, format)
}

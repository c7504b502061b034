/**
 * Files: errors that begin with the path, JSON checked by its shape, files written whole or not at all.
 */

import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FormatError, OddFlowError, parseStrictJson } from '@oddflow/core'
import { FileError, fileError, writeFileWhole as writeWhole } from '@oddflow/program'
import { z } from 'zod'

/**
 * The absolute path of a file of this package. Its folder is one above the compiled modules and one above the bundle,
 * so this module must stay at the top of src/.
 */
export const packagePath = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url))

// ---- shapes of values, which files and other machines give

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

// ---- files of JSON, whole or by line

const MAXIMUM_FILE_LENGTH = 16 * 2 ** 20

/** Throws an error that begins with the path. */
export function readShape<T>(shape: z.ZodType<T>, path: string, format: string): T {
  return inFile(path, () => parseShape(shape, readFileSync(path, 'utf8'), format, MAXIMUM_FILE_LENGTH))
}

/** Throws FormatError that names the line. */
export function decodeLines<T>(
  lines: readonly string[],
  format: string,
  decode: (line: string, index: number) => T,
): T[] {
  return lines.map((line, i) => {
    try {
      return decode(line, i)
    } catch (error) {
      if (error instanceof FormatError) throw new FormatError(format, `line ${i + 1}: ${error.message}`)
      throw error
    }
  })
}

const MAXIMUM_LINES_BYTES = 100_000_000

/** Lines of a file that a run keeps; none where there is no file. Throws an error that begins with the path and names the line. */
export function readLines<T>(path: string, format: string, decode: (line: string) => T): T[] {
  if (!existsSync(path)) return []
  return inFile(path, () => {
    requireSize(path, format, MAXIMUM_LINES_BYTES)
    const lines = readFileSync(path, 'utf8').split('\n')
    if (lines.pop() !== '') throw new FormatError(format, 'the last line is cut off')
    return decodeLines(lines, format, decode)
  })
}

/** One value a line. */
export const jsonLines = (values: readonly unknown[]): string =>
  values.map((value) => `${JSON.stringify(value)}\n`).join('')

/** In the order of their keys; of several of one key, the last. */
export function newestOfEach<T>(values: readonly T[], keyOf: (value: T) => string): T[] {
  const byKey = new Map(values.map((value) => [keyOf(value), value]))
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, value]) => value)
}

/** Groups by key, in the order in which the keys first come. */
export function groupBy<T>(values: Iterable<T>, keyOf: (value: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const value of values) {
    const key = keyOf(value)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [value])
    else group.push(value)
  }
  return groups
}

/** Throws FormatError. */
export function requireSize(path: string, format: string, maximumBytes: number): void {
  const { size } = statSync(path)
  if (size > maximumBytes) throw new FormatError(format, `${size} bytes; at most ${maximumBytes}`)
}

// ---- files and folders

/** Runs `work`; what it throws begins with the path. */
export function inFile<T>(path: string, work: () => T, action: 'read' | 'write' = 'read'): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof OddFlowError && !error.message.startsWith(path)) {
      throw new FileError(error.code, `${path}: ${error.message}`, { field: path })
    }
    throw fileError(action, path, error)
  }
}

/**
 * Makes a folder and its parents one by one, so that the FileError names the part that could not be made: with
 * `recursive` Node reports "no such file or folder" where a file system accepts nothing new.
 */
export function makeFolder(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isDirectory()) return
  const parent = dirname(path)
  if (found === undefined && parent !== path) makeFolder(parent)
  try {
    mkdirSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // another run was faster
    if (code === 'EEXIST' && statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
    throw fileError(
      'write',
      path,
      code === 'EEXIST' ? Object.assign(new Error(), { code: 'ENOTDIR' }) : error,
    )
  }
}

/** Makes the folder where there is none. Throws FileError that names `path`. */
export function writeFileWhole(path: string, content: Uint8Array | string): void {
  inFile(path, () => makeFolder(dirname(path)), 'write')
  writeWhole(path, content)
}

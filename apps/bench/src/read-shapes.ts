/** Files of JSON, whole or by line, read by their shapes. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { FormatError } from '@oddflow/core'
import type { z } from 'zod'
import { inFile } from './errors.js'
import { parseShape } from './shapes.js'

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

/** Throws FormatError. */
export function requireSize(path: string, format: string, maximumBytes: number): void {
  const { size } = statSync(path)
  if (size > maximumBytes) throw new FormatError(format, `${size} bytes; at most ${maximumBytes}`)
}

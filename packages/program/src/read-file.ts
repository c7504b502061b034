/**
 * Whole files into memory, bounded. A model or a table of rows is read at once; a device that never ends or
 * a file that cannot be one is refused before it costs anything. A pipe is read up to the bound.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { FileError, fileError } from './file-error.js'

/** Most that a pipe may hold; its length is not known before. */
const MAXIMUM_PIPE_BYTES = 256 * 1024 * 1024
const PIECE_BYTES = 1024 * 1024

export interface ReadFileOptions {
  /** Most bytes that a regular file may have. */
  readonly maximumBytes: number
  /** Refuses a pipe too, without waiting for who writes to it: for a program that must not wait. */
  readonly onlyRegular?: boolean
  /** Looks at the file's first bytes (at most 64) and its length before the rest is read; throws to refuse it. */
  readonly checkHead?: (head: Uint8Array, sizeBytes: number) => void
}

/** Throws FileError that names the file. */
export function readFileBounded(
  path: string,
  { maximumBytes, onlyRegular = false, checkHead }: ReadFileOptions,
): Uint8Array {
  let fd: number | null = null
  try {
    fd = openSync(path, constants.O_RDONLY | (onlyRegular ? constants.O_NONBLOCK : 0))
    const stat = fstatSync(fd)
    if (stat.isDirectory()) throw Object.assign(new Error('is a directory'), { code: 'EISDIR' })
    if (onlyRegular && !stat.isFile()) throw notRegular(path)
    if (!stat.isFile() && !stat.isFIFO()) {
      throw new FileError('file.special', `${path}: is a device or socket; give a regular file`)
    }
    const bound = stat.isFile() ? maximumBytes : MAXIMUM_PIPE_BYTES
    if (stat.isFile() && stat.size > bound) throw tooLong(path, bound)
    const pieces: Uint8Array[] = []
    let total = 0
    for (;;) {
      const piece = new Uint8Array(pieces.length === 0 ? 64 : PIECE_BYTES)
      const bytes = readSync(fd, piece, 0, piece.length, null)
      if (bytes === 0) break
      if (pieces.length === 0) checkHead?.(piece.subarray(0, bytes), stat.isFile() ? stat.size : bound)
      pieces.push(piece.subarray(0, bytes))
      total += bytes
      if (total > bound) throw tooLong(path, bound)
    }
    return Buffer.concat(pieces, total)
  } catch (error) {
    // what the system says of a socket that is opened
    if ((error as NodeJS.ErrnoException).code === 'ENXIO') throw notRegular(path)
    throw fileError('read', path, error)
  } finally {
    if (fd !== null) closeSync(fd)
  }
}

function notRegular(path: string): FileError {
  return new FileError('file.special', `${path}: is no regular file; give one`)
}

function tooLong(path: string, bound: number): FileError {
  return new FileError(
    'file.too-long',
    `${path}: is longer than ${bound} bytes, the most that is read; give a smaller file`,
  )
}

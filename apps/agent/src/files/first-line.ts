/** A secret of one line in a file: a regular file of at most 64 KiB, so that no wrong name costs memory or waits for ever. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { FileError, fileError } from '@oddflow/program'

const MAXIMUM_BYTES = 65_536

/** The file's first line, without its end. Throws FileError; what the file holds is not told. */
export function readFirstLine(path: string): string {
  let fd: number | null = null
  try {
    // a pipe that nobody writes to would hold the opening up
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const found = fstatSync(fd)
    if (found.isDirectory()) throw Object.assign(new Error('is a directory'), { code: 'EISDIR' })
    if (!found.isFile()) throw new FileError('file.special', `${path}: is no regular file; give one`)
    if (found.size > MAXIMUM_BYTES) {
      throw new FileError(
        'file.too-long',
        `${path}: is longer than ${MAXIMUM_BYTES} bytes; give a smaller file`,
      )
    }
    const buffer = Buffer.alloc(found.size)
    const bytes = readSync(fd, buffer, 0, found.size, 0)
    return buffer.toString('utf8', 0, bytes).split('\n', 1)[0].replace(/\r$/, '')
  } catch (error) {
    throw fileError('read', path, error)
  } finally {
    if (fd !== null) closeSync(fd)
  }
}

/** A webhook's token: the first line of a file. */
import { FileError } from '@oddflow/program'
import { readFirstLine } from '../files/first-line.js'

const MAXIMUM_TOKEN_BYTES = 8192

/** Throws FileError where it cannot be read or is no token; what it holds is not told. */
export function readToken(path: string): string {
  const token = readFirstLine(path).trim()
  if (token.length === 0 || token.length > MAXIMUM_TOKEN_BYTES || !/^[\x21-\x7e]+$/.test(token)) {
    throw new FileError(
      'file.token',
      `${path}: expected a token of visible ASCII characters in its first line`,
    )
  }
  return token
}

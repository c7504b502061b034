/** The folder of the data sets must be one: a slip in its name would otherwise say that every file is missing. */
import { statSync } from 'node:fs'
import { FileError, inFile } from '../errors.js'

/** Throws FileError that begins with the path. */
export function requireFolder(path: string): void {
  if (!inFile(path, () => statSync(path)).isDirectory()) {
    throw new FileError('file.ENOTDIR', `${path}: expected a folder`, { field: path })
  }
}

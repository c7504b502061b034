/** Files that are whole or not there, in folders that are made where there are none. */
import { dirname } from 'node:path'
import { writeFileWhole as writeWhole } from '@oddflow/program'
import { inFile } from '../errors.js'
import { makeFolder } from './make-folder.js'

/** Throws FileError that names `path`. */
export function writeFileWhole(path: string, content: Uint8Array | string): void {
  inFile(path, () => makeFolder(dirname(path)), 'write')
  writeWhole(path, content)
}

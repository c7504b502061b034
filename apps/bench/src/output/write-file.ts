/**
 * Files that are whole or not there: written beside the target under another name, flushed, then renamed.
 */
import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { inFile } from '../errors.js'

/** Makes the folder where there is none. Throws FileError that names `path`. */
export function writeFileWhole(path: string, content: Uint8Array | string): void {
  inFile(path, () => {
    mkdirSync(dirname(path), { recursive: true })
    const temporary = join(dirname(path), `.oddflow-bench-${randomBytes(8).toString('hex')}.tmp`)
    try {
      const file = openSync(temporary, 'wx')
      try {
        writeFileSync(file, content)
        fsyncSync(file)
      } finally {
        closeSync(file)
      }
      renameSync(temporary, path)
    } catch (error) {
      rmSync(temporary, { force: true })
      throw error
    }
  })
}

/**
 * Writing a file in one go, and asking beforehand whether it can be written. How it comes to be whole or not there
 * stands in whole-file.ts.
 */
import { accessSync, constants, realpathSync, type Stats } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileError } from './file-error.js'
import { UsageError } from './usage-error.js'
import { isSpecial, openWholeFile, statOf } from './whole-file.js'

/** Writes all of `content`, atomically for ordinary files. Throws FileError that names `path`. */
export function writeFileWhole(path: string, content: Uint8Array | string): void {
  const file = openWholeFile(path)
  try {
    file.write(typeof content === 'string' ? Buffer.from(content) : content)
    file.commit()
  } finally {
    file.abandon()
  }
}

/**
 * Throws FileError when `path` could not be written: asked before long work, so that an hour of training is
 * not lost to a misspelt folder. Throws UsageError when it is one of `taken` (inputs, or another output),
 * which writing would destroy. Leaves nothing behind.
 */
export function checkWritable(path: string, taken: readonly string[] = []): void {
  try {
    const found = statOf(path)
    if (isSpecial(found)) return
    if (found?.isDirectory()) throw Object.assign(new Error('is a directory'), { code: 'EISDIR' })
    for (const other of taken) {
      if (other !== '-' && isSameFile(path, found, other)) {
        throw new UsageError(`${path}: is named twice and would be overwritten; give another output`)
      }
    }
    if (found !== undefined) accessSync(path, constants.W_OK)
    // a new file is made beside the target, so it is the folder that must take it
    accessSync(dirname(found === undefined ? path : realpathSync(path)), constants.W_OK | constants.X_OK)
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw fileError('write', path, error)
  }
}

function isSameFile(path: string, found: Stats | undefined, other: string): boolean {
  if (resolve(path) === resolve(other)) return true
  if (found === undefined) return false
  let stat: Stats | undefined
  try {
    stat = statOf(other)
  } catch {
    return false // who reads it says what is wrong with it
  }
  return stat !== undefined && stat.dev === found.dev && stat.ino === found.ino
}

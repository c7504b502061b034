/**
 * Files that are whole or not there.
 *
 * What a command writes goes to a temporary name beside the target, is flushed, and only then takes the
 * target's name; a fault, a full disk or Ctrl-C leaves the old file (or none) and no half of a new one. A
 * symbolic link keeps its place: the file that it names is replaced. Special files such as /dev/stdout or a
 * named pipe cannot be renamed onto, so they are written to directly.
 *
 * Left out: a kill that cannot be caught (SIGKILL, power) may leave the temporary file, never half a target.
 */
import { randomBytes } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  fchmodSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileError, UsageError } from '@oddflow/program'
import { holdSignals } from './signals.js'

/** Writes all of `content`, atomically for ordinary files. Throws FileError that names `path`. */
export function writeFileWhole(path: string, content: Uint8Array | string): void {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content
  try {
    const found = statOf(path)
    if (isSpecial(found)) writeAll(path, bytes, 'w')
    else replaceFile(found === undefined ? path : realpathSync(path), bytes, found?.mode)
  } catch (error) {
    throw fileError('write', path, error)
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

/** `mode` is that of the file replaced, which the new one keeps: a private model stays private. */
function replaceFile(target: string, bytes: Uint8Array, mode: number | undefined): void {
  const temporary = temporaryBeside(target)
  holdSignals()
  try {
    writeAll(temporary, bytes, 'wx', mode)
    renameSync(temporary, target)
  } catch (error) {
    try {
      unlinkSync(temporary)
    } catch {
      // it was never made: nothing is left to take away
    }
    throw error
  }
}

/** A name that no other process takes, and short, since the target's own may be as long as names can be. */
function temporaryBeside(target: string): string {
  return join(dirname(target), `.oddflow-${randomBytes(8).toString('hex')}.tmp`)
}

function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false })
}

function isSpecial(found: Stats | undefined): boolean {
  return found !== undefined && !found.isFile() && !found.isDirectory()
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

function writeAll(path: string, bytes: Uint8Array, flags: 'w' | 'wx', mode?: number): void {
  const fd = openSync(path, flags, mode === undefined ? 0o666 : 0o600)
  try {
    if (mode !== undefined) fchmodSync(fd, mode & 0o7777)
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
    if (flags === 'wx') fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

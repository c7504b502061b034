/**
 * Files that are whole or not there.
 *
 * What a command writes goes to a temporary name beside the target, is flushed, and only then takes the
 * target's name; a crash, a full disk or Ctrl-C leaves the old file (or none) and no half of a new one.
 * Special files such as /dev/stdout or a named pipe cannot be renamed onto, so they are written to directly.
 */
import { closeSync, fsyncSync, openSync, renameSync, statSync, unlinkSync, writeSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileError } from './file-error.js'

/** Temporary files that an interrupted run has to take away. */
const unfinished = new Set<string>()

/** Removes what an interrupted write left. Safe in a signal handler. */
export function removeUnfinishedFiles(): void {
  for (const path of unfinished) {
    try {
      unlinkSync(path)
    } catch {
      // already renamed or removed: nothing is left to take away
    }
  }
  unfinished.clear()
}

/** Writes all of `content`, atomically for ordinary files. Throws FileError that names `path`. */
export function writeFileWhole(path: string, content: Uint8Array | string): void {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content
  if (isSpecialFile(path)) {
    writeAll(path, path, bytes, 'w')
    return
  }
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`)
  unfinished.add(temporary)
  try {
    writeAll(path, temporary, bytes, 'wx')
    renameSync(temporary, path)
    unfinished.delete(temporary)
  } catch (error) {
    removeUnfinishedFiles()
    throw fileError('write', path, error)
  }
}

/**
 * Throws FileError when `path` could not be written: asked before long work, so that an hour of training is
 * not lost to a misspelt folder. Leaves nothing behind.
 */
export function checkWritable(path: string): void {
  if (isSpecialFile(path)) return
  const probe = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`)
  try {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
      throw Object.assign(new Error('is a directory'), { code: 'EISDIR' })
    }
    closeSync(openSync(probe, 'wx'))
    unlinkSync(probe)
  } catch (error) {
    throw fileError('write', path, error)
  }
}

function isSpecialFile(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat !== undefined && !stat.isFile() && !stat.isDirectory()
}

function writeAll(named: string, path: string, bytes: Uint8Array, flags: 'w' | 'wx'): void {
  let fd: number
  try {
    fd = openSync(path, flags)
  } catch (error) {
    throw fileError('write', named, error)
  }
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
    if (flags === 'wx') fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/**
 * Writes files whole or not at all: to a temporary name next to the target, which is flushed and renamed. A symbolic link
 * stays. Special files such as a named pipe are written directly; "-" is standard output. SIGKILL may leave the temporary
 * file, which the next write to the target removes.
 */

import { createHash, randomBytes } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { FileError, fileError, UsageError } from './messages.js'
import { atEnd, holdSignals, isRunning, writeFully } from './process.js'

/**
 * Temporary files: `.oddflow-TARGET-PROCESS-RANDOM.tmp`, TARGET a hash of machine and name. The next write removes
 * leftovers whose last write is over an hour old and whose process is gone; both, because a writer may wait for hours
 * and a container's processes are not visible.
 */

const STALE_AFTER_MILLIS = 3600 * 1000

/** A path next to `target` that no other process uses; short, because the target's name may have the maximum length. */
export function temporaryName(target: string): string {
  const random = randomBytes(8).toString('hex')
  return join(dirname(target), `${prefixOf(target)}${process.pid}-${random}.tmp`)
}

/** @param nowMillis by the clock of the file system, which may be another machine's. */
function removeStaleFiles(target: string, nowMillis: number): void {
  const pattern = new RegExp(`^\\${prefixOf(target)}(\\d{1,10})-[0-9a-f]{16}\\.tmp$`)
  removeLeftovers(
    dirname(target),
    pattern,
    (stat) => stat.isFile() && stat.mtimeMs < nowMillis - STALE_AFTER_MILLIS,
  )
}

const prefixOf = (target: string): string => `.oddflow-${hashHere(basename(target), 16)}-`

/** So many digits that stand for a text on this machine. */
const hashHere = (text: string, digits: number): string =>
  createHash('sha256').update(`${hostname()}\0${text}`).digest('hex').slice(0, digits)

/** Removes what programs that are gone left in a folder: names that match, with the process as their first group. */
function removeLeftovers(folder: string, pattern: RegExp, isOurs: (stat: Stats) => boolean): void {
  for (const name of namesIn(folder)) {
    const found = pattern.exec(name)
    if (found === null || isRunning(Number(found[1]))) continue
    try {
      const path = join(folder, name)
      if (isOurs(lstatSync(path))) rmSync(path, { recursive: true })
    } catch {
      // another program was faster, or it is not ours to remove
    }
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // a folder may take files and not show them
  }
}

/** Whole files in memory. Endless devices and unsuitable files are refused first; a pipe is read up to a limit. */

/** Most that a pipe may hold; its length is not known before. */
const MAXIMUM_PIPE_BYTES = 256 * 1024 * 1024
const PIECE_BYTES = 1024 * 1024

/** Options of `readFileBounded`. */
export interface ReadFileOptions {
  /** Most bytes that a regular file may have. */
  readonly maximumBytes: number
  /** Refuses a pipe too, for a program that must not wait for its writer. */
  readonly onlyRegular?: boolean
  /** Checks the file's first bytes (at most 64) and its length before the rest is read; throws to refuse it. */
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
  return new FileError('file.special', `${path}: is not a regular file; give one`)
}

function tooLong(path: string, bound: number): FileError {
  return new FileError(
    'file.too-long',
    `${path}: is longer than ${bound} bytes, the limit; give a smaller file`,
  )
}

/**
 * A temporary folder, removed when the program ends: `PREFIX-SPACE-PROCESS-RANDOM`, SPACE for this machine and process
 * namespace. Those that SIGKILL leaves are removed when a program next opens such a folder.
 */

export interface ScratchFolder {
  readonly path: string
  /** With all that is in it. */
  remove(): void
}

/** `prefix` says whose it is. */
export function openScratchFolder(prefix: string): ScratchFolder {
  const folder = tmpdir()
  const space = hashHere(processSpace(), 12)
  const own = process.getuid?.()
  removeLeftovers(
    folder,
    new RegExp(`^[a-z-]+-${space}-(\\d{1,10})-[A-Za-z0-9]{6}$`),
    (stat) => stat.isDirectory() && (own === undefined || stat.uid === own),
  )
  const path = mkdtempSync(join(folder, `${prefix}-${space}-${process.pid}-`))
  return { path, remove: atEnd(() => rmSync(path, { recursive: true, force: true })) }
}

/** Of process numbers; empty where the system does not show it. */
function processSpace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return ''
  }
}

/** A file being written piece by piece. The methods throw FileError that names it. */
export interface WholeFile {
  readonly path: string
  /** Whether bytes that were written may be written over. */
  readonly canPatch: boolean
  write(bytes: Uint8Array): void
  /** Overwrites the bytes at `offset`, for a header that is known last. */
  patch(bytes: Uint8Array, offset: number): void
  /** Makes it the target. */
  commit(): void
  /** Takes away what was not committed; does nothing after. */
  abandon(): void
}

/** Throws FileError that names `path`. */
export function openWholeFile(path: string): WholeFile {
  if (path === '-') return standardOutput()
  const naming = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw fileError('write', path, error)
    }
  }
  return naming(() => {
    const found = statOf(path)
    return isSpecial(found)
      ? openSpecial(path, naming)
      : openBeside(path, found === undefined ? path : realpathSync(path), found?.mode, naming)
  })
}

type Naming = <T>(work: () => T) => T

/** @param mode that of the replaced file, which the new one keeps: a private model stays private. */
function openBeside(path: string, target: string, mode: number | undefined, naming: Naming): WholeFile {
  const temporary = temporaryName(target)
  holdSignals()
  const fd = openSync(temporary, 'wx', mode === undefined ? 0o666 : 0o600)
  let isOpen = true
  const close = (): void => {
    isOpen = false
    process.off('exit', abandon)
    closeSync(fd)
  }
  const abandon = (): void => {
    if (!isOpen) return
    close()
    unlinkSync(temporary)
  }
  // a signal ends the program between two writes
  process.once('exit', abandon)
  removeStaleFiles(target, fstatSync(fd).mtimeMs)
  return {
    path,
    canPatch: true,
    write: (bytes) => naming(() => writeAll(fd, bytes, null)),
    patch: (bytes, offset) => naming(() => writeAll(fd, bytes, offset)),
    commit: () =>
      naming(() => {
        if (mode !== undefined) fchmodSync(fd, mode & 0o7777)
        fsyncSync(fd)
        renameSync(temporary, target)
        close()
      }),
    abandon,
  }
}

function openSpecial(path: string, naming: Naming): WholeFile {
  const fd = openSync(path, 'w')
  let isOpen = true
  const close = (): void => {
    if (isOpen) closeSync(fd)
    isOpen = false
  }
  return {
    path,
    canPatch: false,
    write: (bytes) => naming(() => writeAll(fd, bytes, null)),
    patch() {},
    commit: () => naming(close),
    abandon: close,
  }
}

function standardOutput(): WholeFile {
  return {
    path: 'standard output',
    canPatch: false,
    write: (bytes) => writeFully(1, bytes),
    patch() {},
    commit() {},
    abandon() {},
  }
}

function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false })
}

function isSpecial(found: Stats | undefined): boolean {
  return found !== undefined && !found.isFile() && !found.isDirectory()
}

function writeAll(fd: number, bytes: Uint8Array, offset: number | null): void {
  for (let at = 0; at < bytes.length; ) {
    at += writeSync(fd, bytes, at, bytes.length - at, offset === null ? null : offset + at)
  }
}

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
 * Throws FileError if `path` could not be written; called before long work, so that an hour of training is not lost to
 * a misspelt folder. Throws UsageError if it is one of `taken` (inputs, or another output), which writing would
 * destroy. Leaves nothing behind.
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
    // a new file is created next to the target, so the folder must be writable
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

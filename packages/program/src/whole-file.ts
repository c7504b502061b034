/**
 * Files that are whole or not there.
 *
 * What a command writes goes to a temporary name beside the target, is flushed, and only then takes the
 * target's name; a fault, a full disk or Ctrl-C leaves the old file (or none) and no half of a new one. A
 * symbolic link keeps its place: the file that it names is replaced. Special files such as /dev/stdout or a
 * named pipe cannot be renamed onto, so they are written to directly; "-" is standard output.
 *
 * A kill that cannot be caught (SIGKILL, power) may leave the temporary file, never half a target. The next write to
 * the same target takes it away (stale-files.ts).
 */
import {
  closeSync,
  fchmodSync,
  fstatSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { fileError } from './file-error.js'
import { holdSignals } from './signals.js'
import { removeStaleFiles, temporaryName } from './stale-files.js'
import { writeFully } from './stdout.js'

/** A file that is being written, piece by piece. The methods throw FileError that names it. */
export interface WholeFile {
  readonly path: string
  /** Whether bytes that were written may be written over. */
  readonly canPatch: boolean
  write(bytes: Uint8Array): void
  /** Writes over what is at `offset`, for a header that is known last. */
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

/** @param mode that of the file replaced, which the new one keeps: a private model stays private. */
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
    patch: () => {},
    commit: () => naming(close),
    abandon: close,
  }
}

function standardOutput(): WholeFile {
  return {
    path: 'standard output',
    canPatch: false,
    write: (bytes) => writeFully(1, bytes),
    patch: () => {},
    commit: () => {},
    abandon: () => {},
  }
}

export function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false })
}

export function isSpecial(found: Stats | undefined): boolean {
  return found !== undefined && !found.isFile() && !found.isDirectory()
}

function writeAll(fd: number, bytes: Uint8Array, offset: number | null): void {
  for (let at = 0; at < bytes.length; ) {
    at += writeSync(fd, bytes, at, bytes.length - at, offset === null ? null : offset + at)
  }
}

/** ScratchRuns: runs of bytes of one length in a file that is gone when the program is, for what memory is not to hold. */
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileError, openScratchFolder } from '@oddflow/program'

export interface ScratchRuns {
  /** Runs in the file. */
  readonly count: number
  readonly bytes: number
  /** Writes a run. Throws FileError. */
  add(run: Uint8Array): void
  /** Fills `into` from byte `at` of a run on. Throws FileError. */
  read(run: number, at: number, into: Uint8Array): void
  remove(): void
}

/** Throws FileError where there can be no such file. */
export function createScratchRuns(runBytes: number): ScratchRuns {
  let path = tmpdir()
  const doing = <T>(verb: 'read' | 'write', work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw fileError(verb, path, error)
    }
  }
  const folder = doing('write', () => openScratchFolder('oddflow-verdicts'))
  path = join(folder.path, 'runs')
  const fd = doing('write', () => openSync(path, 'wx+', 0o600))
  let count = 0
  return {
    get count() {
      return count
    },
    get bytes() {
      return count * runBytes
    },
    add(run) {
      doing('write', () => {
        for (let at = 0; at < runBytes; ) {
          at += writeSync(fd, run, at, runBytes - at, count * runBytes + at)
        }
      })
      count++
    },
    read(run, start, into) {
      doing('read', () => {
        for (let at = 0; at < into.length; ) {
          const got = readSync(fd, into, at, into.length - at, run * runBytes + start + at)
          if (got === 0) throw new Error('the scratch file is shorter than what was written to it')
          at += got
        }
      })
    },
    remove() {
      closeSync(fd)
      folder.remove()
    },
  }
}

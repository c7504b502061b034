/** The file of `update --journal`. */
import { closeSync, fsyncSync, openSync, statSync, writeSync } from 'node:fs'
import { fileError, UsageError } from '@oddflow/program'

/**
 * A journal is written as learning goes on: what is in it when something breaks is what happened, though no model came of
 * it. One that is there already is what an earlier update can be undone by, or another's that runs now: it is not touched.
 */
export function openJournal(path: string): {
  readonly write: (line: string) => void
  readonly close: () => void
} {
  let fd: number | null = null
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isFile() === true) {
    throw new UsageError(`--journal ${path}: is there already, for undoing another update; name a new file`)
  }
  try {
    fd = openSync(path, found === undefined ? 'wx' : 'w')
  } catch (error) {
    throw fileError('write', path, error)
  }
  return {
    write(line) {
      const bytes = Buffer.from(`${line}\n`)
      try {
        for (let at = 0; at < bytes.length; ) at += writeSync(fd!, bytes, at)
      } catch (error) {
        throw fileError('write', path, error)
      }
    },
    close() {
      if (fd === null) return
      const open = fd
      fd = null
      try {
        fsyncSync(open)
      } catch {
        // a pipe has nothing to flush
      }
      closeSync(open)
    },
  }
}

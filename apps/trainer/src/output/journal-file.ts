/** The file of `update --journal`. */
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { fileError } from '@oddflow/program'

/** A journal is written as learning goes on: what is in it when something breaks is what happened. */
export function openJournal(path: string): {
  readonly write: (line: string) => void
  readonly close: () => void
} {
  let fd: number | null = null
  try {
    fd = openSync(path, 'w')
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

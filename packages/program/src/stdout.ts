/**
 * Standard output for programs: lines are gathered into large writes, written whole, and a reader that goes
 * away early (`oddflow score … | head`) ends the program quietly instead of with a stack trace.
 */
import { writeSync } from 'node:fs'
import { fileError } from './file-error.js'

export class OutputClosed extends Error {}

const FLUSH_AT = 64 * 1024

export interface LineWriter {
  line(text: string): void
  flush(): void
}

/** Writes lines to a file descriptor, standard output by default. Throws OutputClosed on a closed pipe, else FileError. */
export function createLineWriter(fd = 1): LineWriter {
  let pending: string[] = []
  let size = 0
  const flush = (): void => {
    if (size === 0) return
    const bytes = Buffer.from(pending.join(''))
    pending = []
    size = 0
    writeFully(fd, bytes)
  }
  return {
    line(text) {
      pending.push(text, '\n')
      size += text.length + 1
      if (size >= FLUSH_AT) flush()
    },
    flush,
  }
}

/** All of it, also where the other end is slow. Throws OutputClosed on a closed pipe, else FileError. */
export function writeFully(fd: number, bytes: Uint8Array): void {
  const pause = new Int32Array(new SharedArrayBuffer(4))
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      // a full pipe whose other end is slow: wait a little and go on
      if (code === 'EAGAIN') Atomics.wait(pause, 0, 0, 5)
      else if (code === 'EPIPE') throw new OutputClosed()
      else throw fileError('write', 'standard output', error)
    }
  }
}

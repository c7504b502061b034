/**
 * Standard output for programs: lines are gathered into large writes, written whole, and a reader that goes
 * away early (`oddflow score … | head`) ends the program quietly instead of with a stack trace.
 */
import { writeSync } from 'node:fs'
import { constants } from 'node:os'
import { fileError } from './messages.js'

/**
 * Ctrl-C and its like, while a file is being written, and while an input is read that has no end of its own.
 *
 * Reading files and fitting leave signals to the system, which ends the program at once: nothing is on disk yet,
 * and a handler in JavaScript would have to wait until the fit is done. From the first write on a handler
 * takes them instead. It runs between turns of the event loop, and a write is one turn, so a signal that
 * comes within a write ends the program when the file is whole.
 *
 * A pipe that a recorder writes to ends when somebody stops it, and Ctrl-C reaches both ends. So there the first
 * SIGINT or SIGTERM only ends the reading (`stopOnSignals`), and the second ends the program.
 */

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
type StopSignal = 'SIGINT' | 'SIGTERM'

let held = false
let listeningForSignals = false
let stopping: AbortController | null = null

/** From now on SIGINT, SIGTERM and SIGHUP end the program after the present turn, with 128 + their number. */
export function holdSignals(): void {
  held = true
  listen()
}

/** Aborted, with the signal's name as its reason, by the first SIGINT or SIGTERM. */
export function stopOnSignals(): AbortSignal {
  stopping ??= new AbortController()
  listen()
  return stopping.signal
}

/** The exit code that tells of the signal, where one has ended the reading; else null. */
export function stoppedExitCode(): number | null {
  return stopping?.signal.aborted === true ? exitCodeOf(stopping.signal.reason as StopSignal) : null
}

function listen(): void {
  if (listeningForSignals) return
  listeningForSignals = true
  for (const signal of SIGNALS) process.on(signal, take)
}

function take(signal: (typeof SIGNALS)[number]): void {
  if (stopping === null || stopping.signal.aborted || signal === 'SIGHUP') process.exit(exitCodeOf(signal))
  stopping.abort(signal)
  // where nothing has to be undone, the next one is the system's, which does not wait for a turn to end
  if (!held) for (const each of SIGNALS) process.off(each, take)
  listeningForSignals = held
}

function exitCodeOf(signal: (typeof SIGNALS)[number]): number {
  return 128 + constants.signals[signal]
}

/**
 * What must not outlive the program: folders of its own, children, groups. Each is undone when its work is done, and
 * otherwise when the program ends, also by Ctrl-C, SIGTERM or a closed terminal. SIGKILL leaves them; nothing can help.
 */

const undone = new Set<() => void>()
let listening = false

/** `undo` runs once: when the function that comes back is called, or when the program ends. It is synchronous. */
export function atEnd(undo: () => void): () => void {
  if (!listening) {
    listening = true
    holdSignals()
    process.once('exit', () => {
      // the youngest first: a child before the folder that it writes to
      for (const each of [...undone].reverse()) each()
    })
  }
  const once = (): void => {
    if (undone.delete(once)) undo()
  }
  undone.add(once)
  return once
}

/** Whether a process of this number is there; also where it is somebody else's, which may not be signalled. */
export function isRunning(id: number): boolean {
  // 0 and below are groups, which are always there
  if (!Number.isSafeInteger(id) || id < 1) return false
  try {
    process.kill(id, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

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

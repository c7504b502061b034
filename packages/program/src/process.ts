/**
 * Standard output of programs: lines are gathered into large writes and written whole. A reader that closes early
 * (`oddflow score … | head`) ends the program quietly, without a stack trace.
 */
import { writeSync } from 'node:fs'
import { constants } from 'node:os'
import { OddFlowError } from '@oddflow/core'
import { createMessages, fileError, UsageError } from './messages.js'

/**
 * Signals. During reading and fitting the system ends the program at once. From the first write on a handler does,
 * between turns of the event loop, so that files are whole. While an endless input is read, the first SIGINT or
 * SIGTERM only ends the reading.
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

/** The exit code of the signal that ended the reading, otherwise null. */
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
  // with nothing to undo, the system handles the next signal at once
  if (!held) for (const each of SIGNALS) process.off(each, take)
  listeningForSignals = held
}

function exitCodeOf(signal: (typeof SIGNALS)[number]): number {
  return 128 + constants.signals[signal]
}

/**
 * Resources that must not outlive the program: temporary folders, children, groups. Each is undone when its work is
 * done, otherwise when the program ends, including Ctrl-C, SIGTERM or a closed terminal. SIGKILL leaves them.
 */

const undone = new Set<() => void>()
let listening = false

/** `undo` runs once, synchronously: when the returned function is called, or when the program ends. */
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

/** Whether a process with this number exists, including other users' processes, which cannot be signaled. */
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

/**
 * Reports the error that ended a program and returns its exit code: 1 for unusable data, 2 for a wrong command line, 0 if
 * the reader of its output has gone away or commander printed its help. An error of another kind is a bug.
 *
 * @param complain - writes the message to the log of a program that has one.
 */
export function reportFailure(
  program: string,
  error: unknown,
  complain = createMessages(program).complain,
): number {
  const { code, exitCode } = (error ?? {}) as { code?: unknown; exitCode?: unknown }
  // commander has printed its own message
  if (String(code).startsWith('commander.')) return exitCode === 0 ? 0 : 2
  if (error instanceof OutputClosed) return 0
  if (error instanceof UsageError || error instanceof OddFlowError) {
    complain(error.message)
    return error instanceof UsageError ? 2 : 1
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(
    `${program}: a bug in OddFlow; please report it with the command and this text:\n${text}\n`,
  )
  return 1
}

/** The reader of standard output has gone away. */
export class OutputClosed extends Error {}

const FLUSH_AT = 64 * 1024

/** Writes lines through a buffer. */
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

/** Writes everything, even to a slow reader. Throws OutputClosed on a closed pipe, otherwise FileError. */
export function writeFully(fd: number, bytes: Uint8Array): void {
  const pause = new Int32Array(new SharedArrayBuffer(4))
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      // a full pipe whose other end is slow: wait briefly and continue
      if (code === 'EAGAIN') Atomics.wait(pause, 0, 0, 5)
      else if (code === 'EPIPE') throw new OutputClosed()
      else throw fileError('write', 'standard output', error)
    }
  }
}

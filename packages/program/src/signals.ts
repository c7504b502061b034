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
import { constants } from 'node:os'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
type StopSignal = 'SIGINT' | 'SIGTERM'

let held = false
let listening = false
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
  if (listening) return
  listening = true
  for (const signal of SIGNALS) process.on(signal, take)
}

function take(signal: (typeof SIGNALS)[number]): void {
  if (stopping === null || stopping.signal.aborted || signal === 'SIGHUP') process.exit(exitCodeOf(signal))
  stopping.abort(signal)
  // where nothing has to be undone, the next one is the system's, which does not wait for a turn to end
  if (!held) for (const each of SIGNALS) process.off(each, take)
  listening = held
}

function exitCodeOf(signal: (typeof SIGNALS)[number]): number {
  return 128 + constants.signals[signal]
}

/**
 * Ctrl-C and its like, while a file is being written.
 *
 * Reading and fitting leave signals to the system, which ends the program at once: nothing is on disk yet,
 * and a handler in JavaScript would have to wait until the fit is done. From the first write on a handler
 * takes them instead. It runs between turns of the event loop, and a write is one turn, so a signal that
 * comes within a write ends the program when the file is whole.
 */
import { constants } from 'node:os'

let held = false

/** From now on SIGINT, SIGTERM and SIGHUP end the program after the present turn, with 128 + their number. */
export function holdSignals(): void {
  if (held) return
  held = true
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]))
  }
}

/** Waiting that a signal can end. Listeners are taken away again: a loop may wait a million times on one signal. */
import type { Clock } from '../clock.js'

export const ABORTED = Symbol('aborted')

/** What `work` resolves to, or ABORTED; what it does later is nobody's concern any more. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | typeof ABORTED> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => resolve(ABORTED)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** Runs `work` with a signal that is aborted after so long, or with `stop`. */
export async function withinMillis<T>(
  clock: Clock,
  millis: number,
  stop: AbortSignal | null,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new AbortController()
  const done = new AbortController()
  const onStop = (): void => limit.abort()
  if (stop?.aborted) onStop()
  else stop?.addEventListener('abort', onStop, { once: true })
  void clock.sleep(millis, done.signal).then(() => limit.abort())
  try {
    return await work(limit.signal)
  } finally {
    done.abort()
    stop?.removeEventListener('abort', onStop)
  }
}

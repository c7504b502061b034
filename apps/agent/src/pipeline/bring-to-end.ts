/** The end of a run: flows are ended and judged, and what was raised goes out, as far as there is time. */

import type { Clock } from '../input/clocks.js'
import type { Delivery } from '../outputs/delivery.js'
import { type AlertLog, acknowledgedAll } from '../spool/alert-log.js'
import type { AgentEnvironment } from './environment.js'
import type { Watcher } from './watcher.js'

/** Waiting that a signal can end. Listeners are taken away again: a loop may wait a million times on one signal. */

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

/** Flows ended at a time when the input has ended. */
const FLOWS_AT_A_TIME = 256
/** An output that fails for so long is given up when the input has ended. */
const GIVE_UP_MILLIS = 10_000
/** From the signal to the end of the process. */
const STOP_MILLIS = 700
const END_FLOWS_MILLIS = 250

/** Ends all flows; when the agent is to stop, as many as there is time for, and says how many are left. */
export async function endFlows(
  watcher: Watcher,
  room: () => Promise<void>,
  { clock, log, stop }: AgentEnvironment,
): Promise<void> {
  let deadline = Number.POSITIVE_INFINITY
  while (watcher.finish(FLOWS_AT_A_TIME)) {
    await room()
    if (!stop.aborted) continue
    const now = clock.monotonicMillis()
    deadline = Math.min(deadline, now + END_FLOWS_MILLIS)
    if (now >= deadline) {
      log.warn(`${watcher.openFlows} open flows were not judged: there was no time left`)
      return
    }
    // outputs are given their turn
    await clock.sleep(0)
  }
}

/** Ends one after the other; one that fails (a disk that is read-only by now) is told of and keeps no other from its end. */
export async function endEach(
  log: Pick<AgentEnvironment['log'], 'warn'>,
  steps: readonly (() => Promise<unknown>)[],
): Promise<void> {
  for (const step of steps) {
    await step().catch((error: unknown) => log.warn(error instanceof Error ? error.message : String(error)))
  }
}

/** Waits until all alerts are delivered, or no more can be within the time that there is. */
export async function bringOut(
  alertLog: AlertLog,
  deliveries: readonly Delivery[],
  { clock, stop }: AgentEnvironment,
): Promise<void> {
  const delivered = (): number =>
    deliveries.reduce((sum, each) => sum + each.delivered, alertLog.acknowledged)
  for (;;) {
    const before = delivered()
    const isStopping = stop.aborted
    const millis = isStopping ? STOP_MILLIS : GIVE_UP_MILLIS
    const isOut = await withinMillis(clock, millis, isStopping ? null : stop, async (limit) => {
      await acknowledgedAll(alertLog, limit)
      for (const each of deliveries) await each.drained(limit)
      return !limit.aborted
    })
    if (isOut || isStopping) return
    if (!stop.aborted && delivered() === before) return
  }
}

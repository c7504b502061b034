/** The end of a run: flows are ended and judged, and what was raised goes out, as far as there is time. */

import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../input/clocks.js'
import type { Delivery } from '../outputs/delivery.js'
import { type AlertLog, acknowledgedAll } from '../spool/alert-log.js'
import type { AgentEnvironment } from './environment.js'
import type { Watcher } from './watcher.js'

export const ABORTED = Symbol('aborted')

/** What `work` resolves to, or ABORTED. Removes its listener: a loop may wait a million times on one signal. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | typeof ABORTED> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => resolve(ABORTED)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** Time of work before timers, requests and outputs get their turn. */
const TURN_MILLIS = 50

/** To be awaited between pieces of work that nothing else waits in, as where a file is read. */
export function createTurns({ monotonicMillis }: Pick<Clock, 'monotonicMillis'>): () => Promise<void> {
  let lastMillis = monotonicMillis()
  return async () => {
    if (monotonicMillis() - lastMillis < TURN_MILLIS) return
    await setImmediate()
    lastMillis = monotonicMillis()
  }
}

/** Runs `work` with a signal that is aborted after so long, or with `stop`. */
export async function withinMillis<T>(
  clock: Pick<Clock, 'sleep'>,
  millis: number,
  stop: AbortSignal | null,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new AbortController()
  const done = new AbortController()
  const onStop = (): void => limit.abort()
  if (stop?.aborted) onStop()
  else stop?.addEventListener('abort', onStop, { once: true })
  void clock.sleep(millis, done.signal).then(() => {
    // a sleep that is ended early resolves a little later, when other work may listen
    if (!done.signal.aborted) limit.abort()
  })
  try {
    return await work(limit.signal)
  } finally {
    done.abort()
    stop?.removeEventListener('abort', onStop)
  }
}

/** What `work` resolves to. Rejects with `why` after so long, and with "stopped" if `stop` is aborted. */
export function answeredWithin<T>(
  clock: Pick<Clock, 'sleep'>,
  millis: number,
  stop: AbortSignal,
  why: string,
  work: (limit: AbortSignal) => Promise<T>,
): Promise<T> {
  return withinMillis(clock, millis, stop, async (limit) => {
    const answer = await orAborted(work(limit), limit)
    if (answer === ABORTED) throw new Error(stop.aborted ? 'stopped' : why)
    return answer
  })
}

/** Flows ended at a time when the input has ended. */
const FLOWS_AT_A_TIME = 256
/** Between two looks at what outputs have taken: when the input has ended, and at a stop. */
const LOOK_MILLIS = 10_000
const STOP_LOOK_MILLIS = 700
/** An output that takes nothing and reports no failure is given up after this many looks, one that fails after one. */
const HANGING_LOOKS = 3
/** From the stop on: when the last open flows, then the last alerts are left. What remains of three seconds closes outputs. */
const END_FLOWS_MILLIS = 1500
const STOP_AT_MOST_MILLIS = 2500

/** When the agent was told to stop; infinity before. */
export function createStopTime({ clock, stop }: Pick<AgentEnvironment, 'clock' | 'stop'>): () => number {
  let stoppedMillis = Number.POSITIVE_INFINITY
  const note = (): void => {
    stoppedMillis = clock.monotonicMillis()
  }
  if (stop.aborted) note()
  else stop.addEventListener('abort', note, { once: true })
  return () => stoppedMillis
}

/** Ends all flows; when the agent is to stop, as many as there is time for, and says how many are left. */
export async function endFlows(
  watcher: Pick<Watcher, 'finish' | 'openFlows'>,
  room: () => Promise<void>,
  {
    clock,
    log,
    stop,
  }: Pick<AgentEnvironment, 'clock' | 'stop'> & { readonly log: Pick<AgentEnvironment['log'], 'warn'> },
  stoppedMillis: () => number,
): Promise<void> {
  const giveTurns = createTurns(clock)
  while (watcher.finish(FLOWS_AT_A_TIME)) {
    await room()
    if (!stop.aborted) {
      await giveTurns()
      continue
    }
    if (clock.monotonicMillis() >= stoppedMillis() + END_FLOWS_MILLIS) {
      log.warn(`${watcher.openFlows} open flows were not judged: there was no time left`)
      return
    }
    // outputs are given their turn
    await clock.sleep(0)
  }
}

/** Runs one step after the other. One that fails (a disk that is read-only by now) is a warning, and the next still runs. */
export async function closeAll(
  log: Pick<AgentEnvironment['log'], 'warn'>,
  steps: readonly (() => Promise<unknown>)[],
): Promise<void> {
  for (const step of steps) {
    await step().catch((error: unknown) => log.warn(error instanceof Error ? error.message : String(error)))
  }
}

/**
 * Waits until all alerts are delivered, for as long as outputs take some: an output that waits for a disk or a processor gets
 * time, one that fails or hangs is given up.
 */
export async function bringOut(
  alertLog: AlertLog,
  deliveries: readonly Delivery[],
  { clock, stop }: Pick<AgentEnvironment, 'clock' | 'stop'>,
  stoppedMillis: () => number,
): Promise<void> {
  const delivered = (): number =>
    deliveries.reduce((sum, each) => sum + each.delivered, alertLog.acknowledged)
  const hasFailed = (): boolean =>
    alertLog.lastError !== null ||
    (alertLog.pending === 0 &&
      deliveries.every(({ backlog, lastError }) => backlog === 0 || lastError !== null))
  let idleLooks = 0
  for (;;) {
    const before = delivered()
    const isStopping = stop.aborted
    const stopAtMillis = stoppedMillis() + STOP_AT_MOST_MILLIS
    const millis = Math.min(
      isStopping ? STOP_LOOK_MILLIS : LOOK_MILLIS,
      stopAtMillis - clock.monotonicMillis(),
    )
    const isOut = await withinMillis(clock, millis, isStopping ? null : stop, async (limit) => {
      await acknowledgedAll(alertLog, limit)
      for (const each of deliveries) await each.drained(limit)
      return !limit.aborted
    })
    if (isOut || clock.monotonicMillis() >= stopAtMillis) return
    // the stop has cut this look short
    if (stop.aborted && !isStopping) continue
    idleLooks = delivered() === before ? idleLooks + 1 : 0
    if (idleLooks > 0 && (hasFailed() || idleLooks >= HANGING_LOOKS)) return
  }
}

/**
 * Delivery: carries alerts from the log to one output, in order, each at least once.
 *
 * An output that fails is tried again, after half a second, then after twice as long each time, up to a minute. Each
 * failure halves the number of alerts that are sent together, each success doubles it up to the output's own. Each output has
 * a delivery of its own, so none waits for another. How far it has got is kept by the log; where that fails the
 * output goes on, and the cursor is written again with the next alerts, or each second.
 *
 * An alert that the receiver refuses by itself (RefusedError) is set aside and counted, so that it does not hold up those behind
 * it. A receiver may also refuse everything, by a fault that somebody mends. So an alert is set aside at once only
 * where the receiver has taken another one since the last that was set aside; otherwise after the pauses have grown to a
 * minute, one alert a minute.
 */
import type { Clock } from '../input/clocks.js'
import { orAborted } from '../pipeline/shutdown.js'
import type { AlertBatch, AlertLog, AlertReader } from '../spool/alert-log.js'
import { Notifier } from '../spool/spool-reader.js'
import { type Output, RefusedError } from './output.js'

export interface DeliveryOptions {
  readonly log: AlertLog
  readonly output: Output
  readonly clock: Clock
  /** Called when the output begins to fail and when it works again (null). */
  readonly onError?: (error: Error | null) => void
  /** Called when alerts were refused and are set aside. */
  readonly onSetAside?: (lines: readonly Uint8Array[], refusal: RefusedError) => void
  /** Called when how far it has got cannot be kept any more, and when it can again (null). */
  readonly onCommitError?: (error: Error | null) => void
}

export interface Delivery {
  readonly name: string
  /** Where to. */
  readonly target: string
  readonly delivered: number
  /** Alerts that the receiver refused, and that are not sent again. */
  readonly setAside: number
  readonly dropped: number
  readonly backlog: number
  /** Bytes of alerts that are held in memory for it. */
  readonly memoryBytes: number
  /** Why how far it has got could not be kept; null while it is. */
  readonly commitError: Error | null
  /** Why the last attempt failed; null while all is well. */
  readonly lastError: Error | null
  /** Resolves when nothing is left to deliver, or the signal is aborted. */
  drained(signal: AbortSignal): Promise<void>
  /** Ends after the attempt that is being made, if that ends soon, and closes the output. */
  stop(): Promise<void>
}

const BATCH = 512
/** A receiver that refuses so many alerts in a row, each alone, is not sent more of them for now. */
const REFUSALS_IN_A_ROW = 8
const FIRST_PAUSE_MILLIS = 500
const LONGEST_PAUSE_MILLIS = 60_000
const KEEP_AGAIN_MILLIS = 1000
const STOP_MILLIS = 500

export async function startDelivery(options: DeliveryOptions): Promise<Delivery> {
  const { log, output, clock } = options
  const reader: AlertReader = await log.reader(output.name)
  const stopping = new AbortController()
  const progress = new Notifier()
  const limit = output.batch ?? BATCH
  let delivered = 0
  let setAside = 0
  /** Of the batch in hand, in order: whether the receiver took the alert or refused it. Kept when an attempt fails midway. */
  let said: boolean[] = []
  let refusal: RefusedError | null = null
  /** It took an alert since the last one that was set aside. */
  let takesOthers = false
  /** Alerts that are sent together. */
  let size = limit
  let lastError: Error | null = null
  let commitError: Error | null = null
  let next = 0
  let pause = FIRST_PAUSE_MILLIS

  const setError = (error: unknown): void => {
    const now = error === null ? null : asError(error)
    const isNews = (now === null) !== (lastError === null)
    lastError = now
    if (isNews) options.onError?.(now)
    progress.notify()
  }
  const commit = async (): Promise<void> => {
    const error = await reader.commit(next).then(() => null, asError)
    const isNews = (error === null) !== (commitError === null)
    commitError = error
    if (isNews) options.onCommitError?.(error)
  }
  /** Settles the first alerts of a batch: true is taken, false refused. */
  const settle = async ({ first, lines }: AlertBatch, outcomes: readonly boolean[]): Promise<void> => {
    const refused = lines.filter((_, i) => outcomes[i] === false)
    delivered += outcomes.length - refused.length
    setAside += refused.length
    if (refused.length > 0 && refusal !== null) options.onSetAside?.(refused, refusal)
    next = first + outcomes.length
    said = []
    await commit()
  }
  /** Sends the batch in parts, and notes in `said` what became of each alert. */
  const send = async ({ first, lines }: AlertBatch): Promise<void> => {
    let inARow = 0
    while (said.length < lines.length && inARow < REFUSALS_IN_A_ROW) {
      const part = lines.slice(said.length, said.length + size)
      try {
        await output.deliver({ first: first + said.length, lines: part }, stopping.signal)
        size = Math.min(2 * size, limit)
        said.push(...part.map(() => true))
        inARow = 0
      } catch (error) {
        size = Math.max(1, Math.ceil(part.length / 2))
        if (!(error instanceof RefusedError)) throw error
        if (part.length > 1) continue
        refusal = error
        said.push(false)
        inARow++
      }
    }
  }
  /** True if there was something to deliver. */
  const deliverSome = async (): Promise<boolean> => {
    const batch = await reader.read(limit)
    if (batch.lines.length === 0) return false
    try {
      await send(batch)
    } catch (error) {
      // what was taken before the failure does not come again after a restart
      if (said.length > 0 && !said.includes(false)) {
        takesOthers = true
        await settle(batch, said)
      }
      throw error
    }
    const isTaking = said.includes(true)
    const endsWell = said.at(-1) === true
    if (isTaking) await settle(batch, said)
    else if (takesOthers) await settle(batch, [false])
    else {
      const isPatienceOver = pause >= LONGEST_PAUSE_MILLIS
      said = []
      if (isPatienceOver) await settle(batch, [false])
      throw refusal
    }
    takesOthers = endsWell
    return true
  }
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const { count } = log.acknowledgement
      try {
        const some = await deliverSome()
        pause = FIRST_PAUSE_MILLIS
        setError(null)
        if (some) continue
        if (commitError === null) await log.acknowledgement.wait(count, stopping.signal)
        else {
          await clock.sleep(KEEP_AGAIN_MILLIS, stopping.signal)
          await commit()
        }
      } catch (error) {
        setError(error)
        await clock.sleep(pause, stopping.signal)
        pause = Math.min(2 * pause, LONGEST_PAUSE_MILLIS)
      }
    }
  }
  const running = run()

  return {
    name: output.name,
    target: output.target,
    get delivered() {
      return delivered
    },
    get setAside() {
      return setAside
    },
    get dropped() {
      return reader.dropped
    },
    get backlog() {
      return reader.backlog
    },
    get memoryBytes() {
      return reader.memoryBytes
    },
    get commitError() {
      return commitError
    },
    get lastError() {
      return lastError
    },
    async drained(signal) {
      for (let count = progress.count; reader.backlog > 0 && !signal.aborted; count = progress.count) {
        await progress.wait(count, signal)
      }
    },
    async stop() {
      stopping.abort()
      // an output that does not come to an end must not keep the agent from its own
      const limit = AbortSignal.timeout(STOP_MILLIS)
      await orAborted(running, limit)
      await orAborted(output.close(), limit)
    },
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

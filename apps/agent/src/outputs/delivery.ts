/**
 * Delivery: carries alerts from the log to one output, in order, each at least once.
 *
 * An output that fails is tried again with the same alerts, after half a second, then after twice as long each
 * time, up to a minute. Each output has a delivery of its own, so none waits for another. How far it has got is kept
 * by the log; where that fails the output goes on, and the place is written again with the next alerts, or each second.
 */
import type { Clock } from '../clock.js'
import { orAborted } from '../pipeline/abortable.js'
import type { AlertLog, AlertReader } from '../spool/alert-log.js'
import { Bell } from '../spool/bell.js'
import type { Output } from './output.js'

export interface DeliveryOptions {
  readonly log: AlertLog
  readonly output: Output
  readonly clock: Clock
  /** Called when the output begins to fail and when it works again (null). */
  readonly onTrouble?: (trouble: Error | null) => void
  /** Called when how far it has got cannot be kept any more, and when it can again (null). */
  readonly onUnkept?: (trouble: Error | null) => void
}

export interface Delivery {
  readonly name: string
  /** Where to. */
  readonly target: string
  readonly delivered: number
  readonly dropped: number
  readonly backlog: number
  /** Bytes of alerts that are held in memory for it. */
  readonly memoryBytes: number
  /** Why how far it has got could not be kept; null while it is. */
  readonly unkept: Error | null
  /** Why the last attempt failed; null while all is well. */
  readonly trouble: Error | null
  /** Resolves when nothing is left to deliver, or the signal is aborted. */
  drained(signal: AbortSignal): Promise<void>
  /** Ends after the attempt that is being made, if that ends soon, and closes the output. */
  stop(): Promise<void>
}

const BATCH = 512
const FIRST_PAUSE_MILLIS = 500
const LONGEST_PAUSE_MILLIS = 60_000
const KEEP_AGAIN_MILLIS = 1000
const STOP_MILLIS = 500

export async function startDelivery(options: DeliveryOptions): Promise<Delivery> {
  const { log, output, clock } = options
  const reader: AlertReader = await log.reader(output.name)
  const stopping = new AbortController()
  const progress = new Bell()
  let delivered = 0
  let trouble: Error | null = null
  let unkept: Error | null = null
  let next = 0
  let pause = FIRST_PAUSE_MILLIS

  const setTrouble = (error: unknown): void => {
    const now = error === null ? null : asError(error)
    const isNews = (now === null) !== (trouble === null)
    trouble = now
    if (isNews) options.onTrouble?.(now)
    progress.ring()
  }
  const keepPlace = async (): Promise<void> => {
    const error = await reader.commit(next).then(() => null, asError)
    const isNews = (error === null) !== (unkept === null)
    unkept = error
    if (isNews) options.onUnkept?.(error)
  }
  /** True if there was something to deliver. */
  const deliverSome = async (): Promise<boolean> => {
    const batch = await reader.read(output.batch ?? BATCH)
    if (batch.lines.length === 0) return false
    await output.deliver(batch, stopping.signal)
    delivered += batch.lines.length
    next = batch.first + batch.lines.length
    await keepPlace()
    return true
  }
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const { rings } = log.acknowledgement
      try {
        const some = await deliverSome()
        pause = FIRST_PAUSE_MILLIS
        setTrouble(null)
        if (some) continue
        if (unkept === null) await log.acknowledgement.wait(rings, stopping.signal)
        else {
          await clock.sleep(KEEP_AGAIN_MILLIS, stopping.signal)
          await keepPlace()
        }
      } catch (error) {
        setTrouble(error)
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
    get dropped() {
      return reader.dropped
    },
    get backlog() {
      return reader.backlog
    },
    get memoryBytes() {
      return reader.memoryBytes
    },
    get unkept() {
      return unkept
    },
    get trouble() {
      return trouble
    },
    async drained(signal) {
      for (let rings = progress.rings; reader.backlog > 0 && !signal.aborted; rings = progress.rings) {
        await progress.wait(rings, signal)
      }
    },
    async stop() {
      stopping.abort()
      // an output that does not come to an end must not keep the agent from its own
      await orAborted(running, AbortSignal.timeout(STOP_MILLIS))
      await orAborted(output.close(), AbortSignal.timeout(STOP_MILLIS))
    },
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

/**
 * Delivery: sends alerts from the log to one output, in order, each at least once.
 *
 * After a failure it retries after half a second, then doubles the delay up to a minute. Each failure halves the batch, each success
 * doubles it. If the cursor cannot be saved, it is saved with the next alerts, or each second.
 *
 * A single alert that the receiver refuses (RefusedError) is set aside and counted. A receiver may also refuse everything until it is
 * repaired, so a second alert is set aside at once only if the receiver accepted one in between; otherwise one a minute.
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
  /** Called when the output begins to fail, and with null when it works again. */
  readonly onError?: (error: Error | null) => void
  /** Called when refused alerts are set aside. */
  readonly onSetAside?: (lines: readonly Uint8Array[], refusal: RefusedError) => void
  /** Called when the cursor cannot be saved, and with null when it can again. */
  readonly onCommitError?: (error: Error | null) => void
}

const BATCH = 512
/** After this many refusals of single alerts in a row, sending pauses. */
const REFUSALS_IN_A_ROW = 8
const FIRST_PAUSE_MILLIS = 500
const LONGEST_PAUSE_MILLIS = 60_000
const KEEP_AGAIN_MILLIS = 1000
const STOP_MILLIS = 500

export async function startDelivery(options: DeliveryOptions): Promise<Delivery> {
  return new Delivery(options, await options.log.reader(options.output.name))
}

export class Delivery {
  delivered = 0
  /** Refused alerts that are not sent again. */
  setAside = 0
  /** Why the cursor could not be saved; null if it was. */
  commitError: Error | null = null
  /** Why the last attempt failed; null if it did not. */
  lastError: Error | null = null
  readonly #options: DeliveryOptions
  readonly #reader: AlertReader
  readonly #stopping = new AbortController()
  readonly #progress = new Notifier()
  readonly #limit: number
  /** For each alert of the current batch: whether the receiver accepted it. Kept if an attempt fails midway. */
  #said: boolean[] = []
  #refusal: RefusedError | null = null
  /** The receiver accepted an alert since the last one that was set aside. */
  #takesOthers = false
  /** Alerts sent together. */
  #size: number
  #next = 0
  #pauseMillis = FIRST_PAUSE_MILLIS
  readonly #running: Promise<void>

  constructor(options: DeliveryOptions, reader: AlertReader) {
    this.#options = options
    this.#reader = reader
    this.#limit = options.output.batch ?? BATCH
    this.#size = this.#limit
    this.#running = this.#run()
  }

  get name(): string {
    return this.#options.output.name
  }

  get target(): string {
    return this.#options.output.target
  }

  get dropped(): number {
    return this.#reader.dropped
  }

  get backlog(): number {
    return this.#reader.backlog
  }

  get memoryBytes(): number {
    return this.#reader.memoryBytes
  }

  /** Resolves when all is delivered, or the signal is aborted. */
  async drained(signal: AbortSignal): Promise<void> {
    const progress = this.#progress
    for (let count = progress.count; this.backlog > 0 && !signal.aborted; count = progress.count) {
      await progress.wait(count, signal)
    }
  }

  /** Ends after the current attempt, if that ends soon, and closes the output. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    // an output that hangs must not delay the end of the agent
    const limit = AbortSignal.timeout(STOP_MILLIS)
    await orAborted(this.#running, limit)
    await orAborted(this.#options.output.close(), limit)
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const { count } = log.acknowledgement
      try {
        const some = await this.#deliverSome()
        this.#pauseMillis = FIRST_PAUSE_MILLIS
        this.#setError(null)
        if (some) continue
        if (this.commitError === null) await log.acknowledgement.wait(count, signal)
        else {
          await clock.sleep(KEEP_AGAIN_MILLIS, signal)
          await this.#commit()
        }
      } catch (error) {
        this.#setError(asError(error))
        await clock.sleep(this.#pauseMillis, signal)
        this.#pauseMillis = Math.min(2 * this.#pauseMillis, LONGEST_PAUSE_MILLIS)
      }
    }
  }

  /** True if there was something to deliver. */
  async #deliverSome(): Promise<boolean> {
    const batch = await this.#reader.read(this.#limit)
    if (batch.lines.length === 0) return false
    try {
      await this.#send(batch)
    } catch (error) {
      // alerts accepted before the failure are not sent again after a restart
      if (this.#said.length > 0 && !this.#said.includes(false)) {
        this.#takesOthers = true
        await this.#settle(batch, this.#said)
      }
      throw error
    }
    const isTaking = this.#said.includes(true)
    const endsWell = this.#said.at(-1) === true
    if (isTaking) await this.#settle(batch, this.#said)
    else if (this.#takesOthers) await this.#settle(batch, [false])
    else {
      this.#said = []
      if (this.#pauseMillis >= LONGEST_PAUSE_MILLIS) await this.#settle(batch, [false])
      throw this.#refusal
    }
    this.#takesOthers = endsWell
    return true
  }

  /** Sends the batch in parts, and notes in `said` whether each alert was accepted. */
  async #send({ first, lines }: AlertBatch): Promise<void> {
    const said = this.#said
    let inARow = 0
    while (said.length < lines.length && inARow < REFUSALS_IN_A_ROW) {
      const part = lines.slice(said.length, said.length + this.#size)
      const batch = { first: first + said.length, lines: part }
      try {
        await this.#options.output.deliver(batch, this.#stopping.signal)
        this.#size = Math.min(2 * this.#size, this.#limit)
        said.push(...part.map(() => true))
        inARow = 0
      } catch (error) {
        this.#size = Math.max(1, Math.ceil(part.length / 2))
        if (!(error instanceof RefusedError)) throw error
        if (part.length > 1) continue
        this.#refusal = error
        said.push(false)
        inARow++
      }
    }
  }

  /** Settles the first alerts of a batch: true is accepted, false refused. */
  async #settle({ first, lines }: AlertBatch, outcomes: readonly boolean[]): Promise<void> {
    const refused = lines.filter((_, i) => outcomes[i] === false)
    this.delivered += outcomes.length - refused.length
    this.setAside += refused.length
    if (refused.length > 0 && this.#refusal !== null) this.#options.onSetAside?.(refused, this.#refusal)
    this.#next = first + outcomes.length
    this.#said = []
    await this.#commit()
  }

  async #commit(): Promise<void> {
    const error = await this.#reader.commit(this.#next).then(() => null, asError)
    const isNews = (error === null) !== (this.commitError === null)
    this.commitError = error
    if (isNews) this.#options.onCommitError?.(error)
  }

  #setError(error: Error | null): void {
    const isNews = (error === null) !== (this.lastError === null)
    this.lastError = error
    if (isNews) this.#options.onError?.(error)
    this.#progress.notify()
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

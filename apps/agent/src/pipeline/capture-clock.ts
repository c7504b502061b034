/**
 * CaptureClock: what time it is in the traffic, when no packet says so.
 *
 * Flows end and windows close by the packets' own time. Live traffic may fall silent, and a verdict must not
 * wait for the next packet: then the time is the latest packet's plus what has passed since it came. Of a
 * recording nothing follows from how long it takes to read. An interface is live; a file is not; a pipe is
 * live if its packets are stamped with about the present time when they come.
 *
 * Recorders deliver packets a little out of order, so the clock is kept a moment behind.
 */
import type { Clock } from '../clock.js'

export type Liveness = 'live' | 'recorded' | 'by-time'

const SLACK_MICROS = 250_000
/** A pipe whose packets are older than this is a recording. */
const PRESENT_MICROS = 60_000_000

export class CaptureClock {
  readonly #clock: Clock
  readonly #liveness: Liveness
  #latestMicros = Number.NEGATIVE_INFINITY
  #cameMillis = 0
  #isLive = false

  constructor(clock: Clock, liveness: Liveness) {
    this.#clock = clock
    this.#liveness = liveness
  }

  /** Packets up to this time have come. */
  note(latestMicros: number): void {
    if (latestMicros === this.#latestMicros || !Number.isFinite(latestMicros)) return
    this.#latestMicros = latestMicros
    this.#cameMillis = this.#clock.monotonicMillis()
    this.#isLive =
      this.#liveness === 'live' ||
      (this.#liveness === 'by-time' && Math.abs(this.#clock.wallMicros() - latestMicros) < PRESENT_MICROS)
  }

  /**
   * The process did not run for a while. What came meanwhile is still to be read, so time goes on from the latest packet
   * that was.
   */
  resume(): void {
    this.#cameMillis = this.#clock.monotonicMillis()
  }

  /** No packet older than this is to come; null where nobody knows. */
  nowMicros(): number | null {
    if (!this.#isLive) return null
    const passedMicros = Math.round(1000 * (this.#clock.monotonicMillis() - this.#cameMillis))
    return this.#latestMicros + Math.max(0, passedMicros) - SLACK_MICROS
  }

  /** How far the latest packet lies behind the present, 0 at least; null where the input is not live. */
  lagSeconds(): number | null {
    if (!this.#isLive) return null
    return Math.max(0, (this.#clock.wallMicros() - this.#latestMicros) / 1e6)
  }
}

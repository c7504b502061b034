/**
 * replayFrames: a capture at the pace at which it was recorded, or at a multiple of it.
 *
 * The first packet with a time is due at once, every other one after the time between the two in the capture, divided by
 * `speed`. A packet without a time, or with an earlier one than a packet before it, is due with its predecessor. All due
 * packets go out in one batch, so a slow consumer gets larger batches; nothing is dropped. Times in the batches stay those
 * of the capture, so the same packets make the same flows at any pace. Only differences of the caller's clock count.
 */
import { ArgumentError } from '@oddflow/core'
import { copyFrame, createFrameBatch, type FrameBatch } from './packet-batch.js'

/** The clock that sets the pace of a replay. */
export interface ReplayClock {
  /** Microseconds since any moment, never backwards. */
  nowMicros(): number
  /** Resolves after about that time, or as soon as `signal` is aborted; it never rejects. */
  sleep(micros: number, signal?: AbortSignal): Promise<void>
}

/** Options of `replayFrames`. */
export interface ReplayOptions {
  /** 1 is the pace of the capture, 10 ten times that. Default Infinity: without pauses. */
  readonly speed?: number
  /** Ends the replay; packets not due yet are not delivered. */
  readonly signal?: AbortSignal
}

/** No sleep for less than this. */
const SLACK_MICROS = 500

/** Returns at the end of `batches` what it returns. Throws ArgumentError. */
export function replayFrames(
  batches: AsyncIterable<FrameBatch>,
  clock: ReplayClock,
  options: ReplayOptions = {},
): AsyncGenerator<FrameBatch, void> {
  const speed = options.speed ?? Number.POSITIVE_INFINITY
  if (!(speed > 0)) {
    throw new ArgumentError(`speed: expected a number above 0, found ${speed}`, 'speed')
  }
  return replay(batches, clock, speed, options.signal)
}

async function* replay(
  batches: AsyncIterable<FrameBatch>,
  clock: ReplayClock,
  speed: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<FrameBatch, void> {
  /** Capture time that is due when the clock says `startMicros`; NaN before the first packet with a time. */
  let originMicros = Number.NaN
  let startMicros = 0
  /** Latest capture time so far. */
  let latestMicros = Number.NEGATIVE_INFINITY
  let out = createFrameBatch(1)
  const isOver = (): boolean => signal?.aborted === true
  for await (const batch of batches) {
    if (isOver()) return
    if (speed === Number.POSITIVE_INFINITY) {
      yield batch
      continue
    }
    const { timestampMicros } = batch
    if (out.offset.length < batch.count) out = createFrameBatch(batch.offset.length)
    for (let next = 0; next < batch.count; ) {
      const first = timestampMicros[next]!
      if (Number.isNaN(originMicros) && !Number.isNaN(first)) {
        originMicros = first
        startMicros = clock.nowMicros()
      }
      if (first > latestMicros) latestMicros = first
      const dueMicros = startMicros + (latestMicros - originMicros) / speed
      for (
        let wait = dueMicros - clock.nowMicros();
        wait > SLACK_MICROS;
        wait = dueMicros - clock.nowMicros()
      ) {
        await clock.sleep(wait, signal)
        if (isOver()) return
      }
      const reachedMicros = originMicros + (clock.nowMicros() + SLACK_MICROS - startMicros) * speed
      const from = next++
      while (next < batch.count && !(timestampMicros[next]! > reachedMicros)) {
        const time = timestampMicros[next++]!
        if (time > latestMicros) latestMicros = time
      }
      copyFrames(batch, from, next, out)
      yield out
      if (isOver()) return
    }
  }
}

function copyFrames(from: FrameBatch, start: number, end: number, to: FrameBatch): void {
  to.count = end - start
  to.firstFrame = from.firstFrame + start
  to.data = from.data
  for (let i = start; i < end; i++) copyFrame(from, i, to, i - start)
}

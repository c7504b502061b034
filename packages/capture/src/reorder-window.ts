/**
 * createReorderWindow: frames in, the same frames out in the order of their times, in bounded memory.
 *
 * Two windows of frames are copied and sorted by time (frames of the same time keep their order), and the earlier half is
 * delivered. So a frame at most `windowFrames` places late is put in order. A later one is delivered late and counted. A
 * frame without a time, or with a wrong one, has its turn right after the frame before it.
 *
 * Memory: twice 2 × windowFrames frames with at most MAXIMUM_WINDOW_BYTES of their bytes (or a single longer frame). If the
 * bytes run out first, the window is shorter.
 */
import { ArgumentError } from '@oddflow/core'
import { copyFrame, createFrameBatch, type FrameBatch } from './packet-batch.js'

/** Frames that a reorder window holds unless the caller says otherwise. */
export const DEFAULT_WINDOW_FRAMES = 1024
/** Most frames that a reorder window can be asked to hold. */
export const MAXIMUM_WINDOW_FRAMES = 65_536
/** Most captured bytes that a reorder window holds. */
export const MAXIMUM_WINDOW_BYTES = 16_777_216

/** Holds copies of the latest frames and gives them out in the order of time. */
export interface ReorderWindow {
  /** Whether something must be taken before a frame of this many captured bytes is added. */
  isFull(capturedBytes: number): boolean
  /**
   * Copies frame i of a batch.
   * @param source by which `onLate` names the frame; 0 where it is left out
   * @param isTimed whether the frame's time, if it has one, is to be believed
   */
  add(frames: FrameBatch, i: number, source?: number, isTimed?: boolean): void
  /** The earlier half in order, valid until the next take; null where the window is empty. */
  take(): FrameBatch | null
  /** Everything in order, for the end of the input; valid until the next take. */
  takeAll(): FrameBatch | null
  /** Frames given out after one with a later time. */
  readonly lateFrames: number
}

interface Store {
  readonly frames: FrameBatch
  /** The time by which a frame is sorted. */
  readonly micros: Float64Array
  readonly subNanos: Uint16Array
  readonly source: Uint32Array
  bytes: number
}

/**
 * @param windowFrames 1 … MAXIMUM_WINDOW_FRAMES
 * @param onLate called with the source of each frame that is given out late
 */
export function createReorderWindow(
  windowFrames: number = DEFAULT_WINDOW_FRAMES,
  onLate: ((source: number) => void) | null = null,
): ReorderWindow {
  if (!Number.isInteger(windowFrames) || windowFrames < 1 || windowFrames > MAXIMUM_WINDOW_FRAMES) {
    throw new ArgumentError(
      `windowFrames: expected a whole number from 1 to ${MAXIMUM_WINDOW_FRAMES}, found ${windowFrames}`,
      'windowFrames',
    )
  }
  const capacity = 2 * windowFrames
  let held = createStore(capacity)
  let spare = createStore(capacity)
  const out = createFrameBatch(capacity)
  const order = new Uint32Array(capacity)
  let lastMicros = Number.NEGATIVE_INFINITY
  let lastSubNanos = 0
  let outMicros = Number.NEGATIVE_INFINITY
  let outSubNanos = 0
  let givenOut = 0
  let lateFrames = 0

  const byTurn = (a: number, b: number): number =>
    held.micros[a]! === held.micros[b]!
      ? held.subNanos[a]! - held.subNanos[b]! || a - b
      : held.micros[a]! - held.micros[b]!

  const sort = (count: number): Uint32Array => {
    let isSorted = true
    for (let n = 0; n < count; n++) {
      order[n] = n
      if (n > 0 && byTurn(n - 1, n) > 0) isSorted = false
    }
    return isSorted ? order : order.subarray(0, count).sort(byTurn)
  }

  const giveOut = (total: number, count: number): FrameBatch | null => {
    if (total === 0) return null
    const turns = sort(total)
    for (let r = 0; r < count; r++) {
      const n = turns[r]!
      copyFrame(held.frames, n, out, r)
      const micros = held.micros[n]!
      const sub = held.subNanos[n]!
      if (micros < outMicros || (micros === outMicros && sub < outSubNanos)) {
        lateFrames++
        onLate?.(held.source[n]!)
      } else {
        outMicros = micros
        outSubNanos = sub
      }
    }
    out.data = held.frames.data
    out.count = count
    out.firstFrame = givenOut
    givenOut += count
    spare.frames.count = 0
    spare.bytes = 0
    // a reordered rest keeps its new order, so that frames of one time never change places again
    for (let r = count; r < total; r++) {
      const n = turns[r]!
      append(spare, held.frames, n, held.micros[n]!, held.subNanos[n]!, held.source[n]!)
    }
    const given = held
    held = spare
    spare = given
    return out
  }

  return {
    get lateFrames() {
      return lateFrames
    },
    isFull(capturedBytes) {
      const { count } = held.frames
      return count === capacity || (count > 0 && held.bytes + capturedBytes > MAXIMUM_WINDOW_BYTES)
    },
    add(frames, i, source = 0, isTimed = true) {
      const micros = frames.timestampMicros[i]!
      if (isTimed && !Number.isNaN(micros)) {
        lastMicros = micros
        lastSubNanos = frames.timestampSubNanos[i]!
      }
      append(held, frames, i, lastMicros, lastSubNanos, source)
    },
    take() {
      const { count } = held.frames
      return giveOut(count, Math.ceil(count / 2))
    },
    takeAll() {
      const { count } = held.frames
      return giveOut(count, count)
    },
  }
}

function createStore(capacity: number): Store {
  const frames = createFrameBatch(capacity)
  frames.data = new Uint8Array(65_536)
  return {
    frames,
    micros: new Float64Array(capacity),
    subNanos: new Uint16Array(capacity),
    source: new Uint32Array(capacity),
    bytes: 0,
  }
}

function append(
  store: Store,
  from: FrameBatch,
  i: number,
  micros: number,
  subNanos: number,
  source: number,
): void {
  const { frames } = store
  const length = from.capturedBytes[i]!
  if (store.bytes + length > frames.data.length) {
    const larger = new Uint8Array(Math.max(2 * frames.data.length, store.bytes + length))
    larger.set(frames.data.subarray(0, store.bytes))
    frames.data = larger
  }
  const at = from.offset[i]!
  frames.data.set(from.data.subarray(at, at + length), store.bytes)
  const n = frames.count++
  copyFrame(from, i, frames, n)
  frames.offset[n] = store.bytes
  store.bytes += length
  store.micros[n] = micros
  store.subNanos[n] = subNanos
  store.source[n] = source
}

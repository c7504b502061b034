/**
 * Several captures as one sequence in the order of time. The open capture with the earliest head goes on until another
 * head is earlier; at most MAXIMUM_OPEN_CAPTURES are open, so packets of further ones may come late. A single wrong
 * time (capture-notes.ts) must not hold a capture up or send it ahead: it is counted and keeps its place.
 */

import { ArgumentError } from '@oddflow/core'
import { areNear } from './capture-notes.js'
import { copyFrame, createFrameBatch, type FrameBatch } from './packet-batch.js'

/** Most captures open at a time; further ones wait, and their packets may then be late. */
export const MAXIMUM_OPEN_CAPTURES = 64

/** One of the captures that `mergeCaptures` merges. */
export interface MergeInput {
  /** Time of its first frame, or of the second if that is wrong (`firstTimeOf`); −Infinity if unknown. */
  readonly firstTimestampMicros: number
  open(): AsyncIterable<FrameBatch>
}

/** Of one input. */
export interface MergeInputCounters {
  /** Frames delivered after one with a later time. */
  lateFrames: number
  /** Frames with a wrong time, which keep their place. */
  wrongTimes: number
  /** Whether it was opened after its first time, because too many others were open. */
  openedLate: boolean
}

/** What a merge of captures could not put in the order of time. */
export interface MergeCounters {
  /** Frames given out after one with a later time. */
  lateFrames: number
  /** The same by input, in the order of the inputs; filled in by the merge. */
  inputs?: MergeInputCounters[]
}

interface Head {
  readonly iterator: AsyncIterator<FrameBatch>
  /** Which of the inputs. */
  readonly source: number
  batch: FrameBatch
  next: number
  /** The batch after `batch`, if it had to be read already. */
  following: FrameBatch | null
  /** The turn of frame `next`: its time, or that of the frame before it without a right one. */
  micros: number
  /** Whether the time of frame `next`, if it has one, is right. */
  isTimed: boolean
  /** Whether the last two turns were of times near each other. */
  isSteady: boolean
}

/**
 * @param inputs in any order; those of the same first time are taken in the order given
 * @param counters kept up to date during the merge
 */
export async function* mergeCaptures(
  inputs: readonly MergeInput[],
  counters: MergeCounters,
  windowFrames: number = DEFAULT_WINDOW_FRAMES,
): AsyncGenerator<FrameBatch, void> {
  const counts = inputs.map((): MergeInputCounters => ({ lateFrames: 0, wrongTimes: 0, openedLate: false }))
  counters.inputs = counts
  const window = createReorderWindow(windowFrames, (source) => {
    counts[source]!.lateFrames++
  })
  const waiting = inputs
    .map((input, source) => ({ input, source, first: input.firstTimestampMicros }))
    .sort((a, b) => (a.first === b.first ? 0 : a.first < b.first ? -1 : 1))
  const heads: Head[] = []
  let nextInput = 0
  /** The latest turn that any frame has had. */
  let reached = Number.NEGATIVE_INFINITY
  try {
    for (;;) {
      let earliest = earliestOf(heads)
      while (
        nextInput < waiting.length &&
        heads.length < MAXIMUM_OPEN_CAPTURES &&
        (earliest === null || waiting[nextInput]!.first <= earliest.micros)
      ) {
        const { input, source, first } = waiting[nextInput++]!
        // in its turn it would have been opened before that time went by
        if (first < reached) counts[source]!.openedLate = true
        const head = await openHead(input, source, counts[source]!)
        if (head !== null) heads.push(head)
        earliest = earliestOf(heads)
      }
      if (earliest === null) break
      // It continues until another head, or a capture that is still closed, has its turn.
      let limit = Number.POSITIVE_INFINITY
      for (const head of heads) if (head !== earliest) limit = Math.min(limit, head.micros)
      if (nextInput < waiting.length && heads.length < MAXIMUM_OPEN_CAPTURES) {
        limit = Math.min(limit, waiting[nextInput]!.first)
      }
      do {
        const { batch, next } = earliest
        if (window.isFull(batch.capturedBytes[next]!)) {
          const frames = window.take()
          counters.lateFrames = window.lateFrames
          if (frames !== null) yield frames
        } else {
          window.add(batch, next, earliest.source, earliest.isTimed)
          if (earliest.micros > reached) reached = earliest.micros
          earliest.next++
          if (earliest.next >= batch.count && !(await fill(earliest))) {
            heads.splice(heads.indexOf(earliest), 1)
            break
          }
          const micros = earliest.batch.timestampMicros[earliest.next]!
          if (areNear(micros, earliest.micros)) {
            earliest.micros = micros
            earliest.isTimed = true
            earliest.isSteady = true
          } else await judgeTime(earliest, counts[earliest.source]!)
        }
      } while (earliest.micros <= limit)
    }
    const rest = window.takeAll()
    counters.lateFrames = window.lateFrames
    if (rest !== null) yield rest
  } finally {
    for (const head of heads) await head.iterator.return?.()
  }
}

function earliestOf(heads: readonly Head[]): Head | null {
  let earliest: Head | null = null
  for (const head of heads) if (earliest === null || head.micros < earliest.micros) earliest = head
  return earliest
}

async function openHead(input: MergeInput, source: number, counts: MergeInputCounters): Promise<Head | null> {
  const iterator = input.open()[Symbol.asyncIterator]()
  const first = await iterator.next()
  if (first.done === true) return null
  const micros = input.firstTimestampMicros
  const head: Head = {
    iterator,
    source,
    batch: first.value,
    next: 0,
    following: null,
    micros,
    isTimed: true,
    isSteady: false,
  }
  if (!(await fill(head))) return null
  await judgeTime(head, counts)
  return head
}

/** Makes `next` a frame that is there; false at the end of the capture. */
async function fill(head: Head): Promise<boolean> {
  while (head.next >= head.batch.count) {
    const more = head.following ?? (await nextBatch(head))
    if (more === null) return false
    head.following = null
    head.batch = more
    head.next = 0
  }
  return true
}

/** Sets the turn of frame `next`, looking at the frame after it if necessary. */
async function judgeTime(head: Head, counts: MergeInputCounters): Promise<void> {
  const micros = head.batch.timestampMicros[head.next]!
  head.isTimed = true
  if (Number.isNaN(micros)) return
  if (areNear(micros, head.micros) || head.micros === Number.NEGATIVE_INFINITY) {
    head.micros = micros
    return
  }
  const behind = await timeBehind(head)
  if (behind === null ? head.isSteady : areNear(behind, head.micros)) {
    head.isTimed = false
    counts.wrongTimes++
  } else {
    head.micros = micros
    head.isSteady = false
  }
}

/** Time of the frame after frame `next`, NaN without one; null if there is no such frame. */
async function timeBehind(head: Head): Promise<number | null> {
  const { batch, next } = head
  if (next + 1 < batch.count) return batch.timestampMicros[next + 1]!
  if (head.following === null) {
    // the batch is gone when the next one is asked for
    head.batch = copyOfFrame(batch, next)
    head.next = 0
    head.following = await nextBatch(head)
  }
  return head.following === null ? null : head.following.timestampMicros[0]!
}

/** A batch that holds something; null at the end of the capture. */
async function nextBatch({ iterator }: Head): Promise<FrameBatch | null> {
  for (;;) {
    const more = await iterator.next()
    if (more.done === true) return null
    if (more.value.count > 0) return more.value
  }
}

function copyOfFrame(from: FrameBatch, i: number): FrameBatch {
  const copy = createFrameBatch(1)
  const at = from.offset[i]!
  copyFrame(from, i, copy, 0)
  copy.data = from.data.slice(at, at + from.capturedBytes[i]!)
  copy.offset[0] = 0
  copy.count = 1
  return copy
}

/**
 * Frames in the order of their times, in bounded memory: two windows are copied and sorted (frames of one time keep
 * their order), and the earlier half is delivered. A later frame is delivered late and counted. A frame without a
 * right time follows the frame before it. If MAXIMUM_WINDOW_BYTES run out first, the window is shorter.
 */

/** Frames that a reorder window holds unless the caller says otherwise. */
const DEFAULT_WINDOW_FRAMES = 1024
/** Most frames that a reorder window can be asked to hold. */
const MAXIMUM_WINDOW_FRAMES = 65_536
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

/**
 * mergeCaptures: several captures as one sequence of batches, in the order of time.
 *
 * Rotated files follow one another, files of several interfaces overlap: both are one merge. Of the captures
 * that are open the one with the earliest head goes on, until another one's head is earlier; a capture is opened
 * when its first time is reached, so a thousand rotated files do not have a thousand open. Each file may be out
 * of order within itself, and its end may overlap the next one's start: everything goes through a reorder window
 * (reorder-window.ts). What is later than the window is counted and given out where it came.
 *
 * At most MAXIMUM_OPEN_CAPTURES are open. Where more overlap, the rest wait until one of those ends, and what they
 * hold of the time that is over by then comes late: such captures are marked, so that this can be told.
 *
 * One wrong time must not hold a capture up or send it ahead, which would make its own packets late, or those of
 * all others. A single packet more than WRONG_TIME_MICROS away from both its neighbours in its capture, while these
 * are that near to each other, has a wrong time, and so has a last packet behind two that are near: it is counted
 * and taken where it stands (capture-notes.ts). After a lasting step either side may be right, and each side
 * has its turn at the time that it tells.
 */

import { areNear } from './capture-notes.js'
import { copyFrame, createFrameBatch, type FrameBatch } from './packet-batch.js'
import { createReorderWindow, DEFAULT_WINDOW_FRAMES } from './reorder-window.js'

/** Most captures open at a time; further ones wait, and their packets may then be late. */
export const MAXIMUM_OPEN_CAPTURES = 64

/** One of the captures that `mergeCaptures` merges. */
export interface MergeInput {
  /**
   * Time at which the capture is opened, in microseconds: of its first frame, or where that one is wrong of its
   * second (`firstTimeOf`); −Infinity where it is not known.
   */
  readonly firstTimestampMicros: number
  open(): AsyncIterable<FrameBatch>
}

/** Of one input. */
export interface MergeInputCounters {
  /** Frames given out after one with a later time. */
  lateFrames: number
  /** Frames whose time is wrong, taken where they stand. */
  wrongTimes: number
  /** Whether its first time was over when it was opened, since too many others were open. */
  openedLate: boolean
}

/** What a merge of captures could not put in the order of time. */
export interface MergeCounters {
  /** Frames given out after one with a later time. */
  lateFrames: number
  /** The same by input, in the order in which the inputs were given; filled in by the merge. */
  inputs?: MergeInputCounters[]
}

interface Head {
  readonly iterator: AsyncIterator<FrameBatch>
  /** Which of the inputs. */
  readonly source: number
  batch: FrameBatch
  next: number
  /** The batch behind `batch`, where it had to be looked into. */
  following: FrameBatch | null
  /** The turn of frame `next`: its time; that of the frame before it where it has none, or a wrong one. */
  micros: number
  /** Whether the time of frame `next`, if it has one, is right. */
  isTimed: boolean
  /** Whether the last two turns were of times near each other. */
  isSteady: boolean
}

/**
 * @param inputs in any order; those of the same first time are taken in the order given
 * @param counters kept up to date while the merge goes on
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
      // this one goes on until another head, or a capture that is still closed, has its turn
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

/** Sets the turn of frame `next`, where need be with a look at the frame behind it. */
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

/** Time of the frame behind frame `next`, NaN where it has none; null where there is no such frame. */
async function timeBehind(head: Head): Promise<number | null> {
  const { batch, next } = head
  if (next + 1 < batch.count) return batch.timestampMicros[next + 1]!
  if (head.following === null) {
    // the batch is gone when the one behind it is asked for
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

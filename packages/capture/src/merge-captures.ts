/**
 * mergeCaptures: several captures as one sequence of batches, in the order of time.
 *
 * Rotated files follow one another, files of several interfaces overlap: both are one merge. Of the captures
 * that are open the one with the earliest head goes on, until another one's head is earlier; a capture is opened
 * when its first time is reached, so a thousand rotated files do not have a thousand open. Each file may be out
 * of order within itself, and its end may overlap the next one's start: everything goes through a reorder window
 * (reorder-window.ts). What is later than the window is counted and given out where it came.
 */
import type { FrameBatch } from './frame-batch.js'
import { createReorderWindow, DEFAULT_WINDOW_FRAMES } from './reorder-window.js'

/** Most captures open at a time; further ones wait, and their packets may then be late. */
export const MAXIMUM_OPEN_CAPTURES = 64

export interface MergeInput {
  /** Time of the capture's first frame in microseconds; −Infinity where it is not known. */
  readonly firstTimestampMicros: number
  open(): AsyncIterable<FrameBatch>
}

export interface MergeCounters {
  /** Frames given out after one with a later time. */
  lateFrames: number
}

interface Head {
  readonly iterator: AsyncIterator<FrameBatch>
  batch: FrameBatch
  next: number
  /** Time of frame `next`; of the frame before it where that has none. */
  micros: number
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
  const window = createReorderWindow(windowFrames)
  const waiting = [...inputs].sort((a, b) =>
    a.firstTimestampMicros === b.firstTimestampMicros
      ? 0
      : a.firstTimestampMicros < b.firstTimestampMicros
        ? -1
        : 1,
  )
  const heads: Head[] = []
  let nextInput = 0
  try {
    for (;;) {
      let earliest = earliestOf(heads)
      while (
        nextInput < waiting.length &&
        heads.length < MAXIMUM_OPEN_CAPTURES &&
        (earliest === null || waiting[nextInput]!.firstTimestampMicros <= earliest.micros)
      ) {
        const head = await openHead(waiting[nextInput++]!)
        if (head !== null) heads.push(head)
        earliest = earliestOf(heads)
      }
      if (earliest === null) break
      // this one goes on until another head, or a capture that is still closed, has its turn
      let limit = Number.POSITIVE_INFINITY
      for (const head of heads) if (head !== earliest) limit = Math.min(limit, head.micros)
      if (nextInput < waiting.length && heads.length < MAXIMUM_OPEN_CAPTURES) {
        limit = Math.min(limit, waiting[nextInput]!.firstTimestampMicros)
      }
      do {
        const { batch, next } = earliest
        if (window.isFull(batch.capturedBytes[next]!)) {
          const frames = window.take()
          counters.lateFrames = window.lateFrames
          if (frames !== null) yield frames
        } else {
          window.add(batch, next)
          const time = ++earliest.next < batch.count ? batch.timestampMicros[earliest.next]! : undefined
          if (time !== undefined) {
            if (!Number.isNaN(time)) earliest.micros = time
          } else if (!(await advance(earliest))) {
            heads.splice(heads.indexOf(earliest), 1)
            break
          }
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

async function openHead(input: MergeInput): Promise<Head | null> {
  const iterator = input.open()[Symbol.asyncIterator]()
  const first = await iterator.next()
  if (first.done === true) return null
  const head = { iterator, batch: first.value, next: 0, micros: input.firstTimestampMicros }
  return (await advance(head)) ? head : null
}

/** Makes `next` a frame that is there and `micros` its time; false at the end of the capture. */
async function advance(head: Head): Promise<boolean> {
  while (head.next >= head.batch.count) {
    const more = await head.iterator.next()
    if (more.done === true) return false
    head.batch = more.value
    head.next = 0
  }
  const micros = head.batch.timestampMicros[head.next]!
  if (!Number.isNaN(micros)) head.micros = micros
  return true
}

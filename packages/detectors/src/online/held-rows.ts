/**
 * Rows on hold: novel rows that wait for others like them, and what confirms them.
 *
 * What has become normal keeps coming; a scan or a flood comes, goes, and comes back another month. So a row is confirmed
 * by enough rows near it that came in enough periods, and in at least every second period of the stretch in which they
 * came, up to now. Without that bursts that have nothing to do with one another add up, however rare they are. The rows
 * near it go with it when each has enough near itself: like is not like's like, and what lies at the edge of something new
 * is not new in the same way.
 *
 * Near is a kernel of ½ or more, or for gmm a tenth of the mean squared distance between held rows. The buffer is
 * bounded: the oldest give way. How many did is what was held less what was confirmed and what is still there.
 */
import { log } from '@oddflow/core'
import { squaredDistance } from '@oddflow/linalg'
import type { LearningWork } from './learning-work.js'

/** Periods without a row near, for each with one, that a stretch may have. */
const GAPS = 1

const LOG_2 = log(2)

/** The squared distance at which a kernel of this bandwidth is ½: up to there rows are alike. */
export function likeReach(bandwidth: number): number {
  return LOG_2 * bandwidth * bandwidth
}

/**
 * Whether the held row equal to the one at `start`, which has just come, is confirmed; if so it and the rows near
 * it that are too go to be learnt. Returns how many went.
 */
export function confirmHeld(work: LearningWork, rows: Float64Array, start: number): number {
  const { held, space } = work
  const { width } = space
  const h = 'embedding' in work.model ? work.model.embedding.bandwidth : null
  const reach = h === null ? heldReach(work) : likeReach(h)
  const near = rowsNear(work, rows, start, reach)
  const first = firstPeriodOf(work, near)
  if (first === null) return 0
  const going = new Uint8Array(held.count)
  for (const i of near) {
    if (held.numbers[i]! < first || work.pending.next >= 0) continue
    if (firstPeriodOf(work, rowsNear(work, held.data, i * width, reach)) === null) continue
    work.pending.push(held.data, i * width, 0)
    going[i] = 1
  }
  let gone = 0
  for (const value of going) gone += value
  keepInOrder(work, going)
  return gone
}

/** Places of the held rows near the row at `start`. */
function rowsNear({ held, space }: LearningWork, rows: Float64Array, start: number, reach: number): number[] {
  const { width } = space
  const near: number[] = []
  for (let i = 0; i < held.count; i++) {
    if (squaredDistance(held.data, i * width, rows, start, width) <= reach) near.push(i)
  }
  return near
}

/** The period in which the stretch begins that confirms the rows at those places; null where none does. */
function firstPeriodOf({ held, options }: LearningWork, near: readonly number[]): number | null {
  const latestFirst = near.map((i) => held.numbers[i]!).sort((a, b) => b - a)
  let periods = 0
  for (const [i, period] of latestFirst.entries()) {
    if (i === 0 || period !== latestFirst[i - 1]) periods++
    // all rows of a period count, so the stretch ends with the last of them
    if (latestFirst[i + 1] === period) continue
    const length = latestFirst[0]! - period + 1
    const isEnough = i + 1 >= options.confirmRows && periods >= (options.confirmPeriods ?? 0)
    if (isEnough && length <= (1 + GAPS) * periods) return period
  }
  return null
}

/** Takes the rows marked by place off hold. */
function keepInOrder(work: LearningWork, going: Uint8Array): void {
  const { held } = work
  // places count from the oldest once the buffer is in order, so the marks move with them
  const first = Math.max(0, held.next)
  held.filter((place) => going[(place + first) % going.length] === 0)
}

function heldReach({ held, space }: LearningWork): number {
  const { width } = space
  let sum = 0
  for (let i = 1; i < held.count; i++) {
    sum += squaredDistance(held.data, i * width, held.data, (i - 1) * width, width)
  }
  return held.count > 1 ? (0.1 * sum) / (held.count - 1) : 0
}

/**
 * Processes a batch of rows on arrival: verdicts, and the update step of the mixture (Method 1).
 *
 *     too large to learn       discarded (learned-state.ts)
 *     one in N, before scoring kept from learning, for the threshold
 *     found normal             learned: E-step, M-step, perhaps a place in the reservoir
 *     found novel              discarded, quarantined until similar rows come in other periods (guard-update.ts), or learned
 *     stated to be normal      learned; if found novel, in the round, as components
 *
 * The reservoir is a uniform sample of all learned rows (Vitter 1985, algorithm R), or with forgetting of recent ones.
 */
import { exp, log, type Matrix, matrixOf, type Rng } from '@oddflow/core'
import { isNovel } from '@oddflow/detectors'
import { confirmHeld } from './guard-update.js'
import { areUpTo, LARGEST_LEARNABLE } from './learned-state.js'
import type { LearningWork } from './learning-work.js'
import {
  addPoint,
  LEAST_SCALED_MASS,
  mixtureOfStatistics,
  responsibilitiesInto,
  scaleStatistics,
} from './mixture-statistics.js'

/**
 * RowBuffer: a bounded number of rows of one width, each with a number (a weight, or its time).
 *
 * In a full buffer `push` replaces the oldest row; `replace` replaces a given one. `entries` returns the rows oldest
 * first, which is also their order in a model file. The arrays grow with the content, up to the capacity.
 */

/** Rows (n × width) and a number for each. */
export interface RowEntries {
  readonly rows: Matrix
  /** Length n. */
  readonly numbers: Float64Array
}

export class RowBuffer {
  #rows: Float64Array
  #numbers: Float64Array
  #count = 0
  /** The oldest, in a full buffer. */
  #first = 0

  constructor(
    readonly width: number,
    readonly capacity: number,
    { rows, numbers }: RowEntries = {
      rows: matrixOf(0, width, new Float64Array(0)),
      numbers: new Float64Array(0),
    },
  ) {
    this.#count = Math.min(rows.rows, capacity)
    const skipped = rows.rows - this.#count
    this.#rows = rows.data.slice(skipped * width)
    this.#numbers = numbers.slice(skipped)
  }

  get count(): number {
    return this.#count
  }

  /** Place of the row to replace next, or −1 while there is room. */
  get next(): number {
    return this.#count < this.capacity ? -1 : this.#first
  }

  /** Row-major, `count` rows, perhaps with room for more; valid until the next change. */
  get data(): Float64Array {
    return this.#rows
  }

  /** One number for each row, perhaps with room for more; writable. */
  get numbers(): Float64Array {
    return this.#numbers
  }

  /** Appends the row at `start` of `source`, replacing the oldest if full; returns its place. */
  push(source: Float64Array, start: number, number: number): number {
    if (this.#count === this.capacity) {
      const place = this.#first
      this.#first = (place + 1) % this.capacity
      this.replace(place, source, start, number)
      return place
    }
    if ((this.#count + 1) * this.width > this.#rows.length) this.#grow()
    this.replace(this.#count, source, start, number)
    return this.#count++
  }

  replace(place: number, source: Float64Array, start: number, number: number): void {
    const at = place * this.width
    for (let c = 0; c < this.width; c++) this.#rows[at + c] = source[start + c]!
    this.#numbers[place] = number
  }

  /** Keeps the rows for which `keep` returns true, in order. */
  filter(keep: (place: number) => boolean): void {
    this.#inOrder()
    let kept = 0
    for (let i = 0; i < this.#count; i++) {
      if (!keep(i)) continue
      this.#rows.copyWithin(kept * this.width, i * this.width, (i + 1) * this.width)
      this.#numbers[kept] = this.#numbers[i]!
      kept++
    }
    this.#count = kept
  }

  /** A copy, oldest first; sorts the buffer the same way. */
  entries(): RowEntries {
    this.#inOrder()
    return {
      rows: matrixOf(this.#count, this.width, this.#rows.slice(0, this.#count * this.width)),
      numbers: this.#numbers.slice(0, this.#count),
    }
  }

  #inOrder(): void {
    if (this.#first === 0) return
    const at = this.#first * this.width
    const rows = new Float64Array(this.#rows.length)
    rows.set(this.#rows.subarray(at, this.#count * this.width))
    rows.set(this.#rows.subarray(0, at), this.#count * this.width - at)
    const numbers = new Float64Array(this.#numbers.length)
    numbers.set(this.#numbers.subarray(this.#first, this.#count))
    numbers.set(this.#numbers.subarray(0, this.#first), this.#count - this.#first)
    this.#rows = rows
    this.#numbers = numbers
    this.#first = 0
  }

  #grow(): void {
    const room = Math.min(this.capacity, Math.max(16, 2 * this.#count))
    const rows = new Float64Array(room * this.width)
    rows.set(this.#rows)
    const numbers = new Float64Array(room)
    numbers.set(this.#numbers)
    this.#rows = rows
    this.#numbers = numbers
  }
}

/** What became of arriving rows; `novelToFrozen` counts rows novel to the frozen model. */
export const NONE_COUNTED = {
  novelToFrozen: 0,
  learnt: 0,
  heldBack: 0,
  held: 0,
  disregarded: 0,
  confirmed: 0,
}

export type ArrivalCounts = Readonly<typeof NONE_COUNTED>

/** The verdict on each row at arrival, and its treatment. */
export interface ArrivalReport extends ArrivalCounts {
  readonly scores: Float64Array
  /** 1: novel. */
  readonly novel: Uint8Array
}

interface ArrivalOptions {
  readonly assumeNormal: boolean
  readonly period: number
}

/** `rows` are scaled, n × width. */
export function takeArrivals(
  work: LearningWork,
  rows: Float64Array,
  count: number,
  { assumeNormal, period }: ArrivalOptions,
  rng: Rng,
): ArrivalReport {
  const { options, counters, threshold, space } = work
  const { d, width } = space
  const { scores, points } = work.scored(rows, count)
  const frozenScores = work.scoreFrozen(rows, count).scores
  const novel = new Uint8Array(count)
  const step = options.calibrationShare > 0 ? Math.round(1 / options.calibrationShare) : 0
  const report = { ...NONE_COUNTED }
  const learnt: number[] = []
  const newlyHeld: number[] = []
  for (let i = 0; i < count; i++) {
    const start = i * width
    if (isNovel(scores[i]!, threshold)) novel[i] = 1
    const frozenNovel = isNovel(frozenScores[i]!, work.frozen.threshold)
    if (frozenNovel) report.novelToFrozen++
    const normal = assumeNormal || novel[i] === 0
    const isTurn = counters.arrived++ % step === step - 1
    if (!isLearnable(rows, start, width) || !isLearnable(points, i * d, d)) {
      report.disregarded++
      continue
    }
    if (isTurn) {
      report.heldBack++
      if (normal) work.calibration.push(rows, start, 0)
      else work.doubtful.push(rows, start, 0)
      continue
    }
    const wanted = normal && (assumeNormal || !frozenNovel || options.guard?.shadowAgrees !== true)
    if (wanted && novel[i] === 0) learnt.push(i)
    else if (wanted || options.novel === 'learn') {
      if (work.pending.next >= 0) report.disregarded++
      work.pending.push(rows, start, 0)
    } else if (options.novel === 'hold') {
      work.held.push(rows, start, period)
      newlyHeld.push(i)
    } else report.disregarded++
  }
  report.held = newlyHeld.length
  report.learnt = learnt.length
  if (work.overflowed) work.roundLearnt += learnt.length
  else work.attempt(() => learn(work, rows, points, learnt, rng))
  if (options.confirmPeriods !== null) {
    for (const i of newlyHeld) report.confirmed += confirmHeld(work, rows, i * width)
  }
  for (const value of novel) counters.novel += value
  counters.held += report.held
  counters.heldBack += report.heldBack
  counters.disregarded += report.disregarded
  counters.confirmed += report.confirmed
  counters.lastPeriod = Math.max(counters.lastPeriod, period)
  work.roundArrivals += count
  work.roundAssumed &&= assumeNormal
  return { scores, novel, ...report }
}

function isLearnable(numbers: Float64Array, start: number, count: number): boolean {
  return areUpTo(LARGEST_LEARNABLE, numbers, start, count)
}

/** The update step for the rows in `chosen`. Throws StatisticsError and leaves the mixture unchanged. */
export function learn(
  work: LearningWork,
  rows: Float64Array,
  points: Float64Array,
  chosen: readonly number[],
  rng: Rng,
): void {
  if (chosen.length === 0) return
  const { d, width } = work.space
  forget(work, chosen.length)
  const evaluator = work.evaluator
  const responsibilities = new Float64Array(evaluator.k)
  for (const i of chosen) {
    responsibilitiesInto(evaluator, points, i * d, responsibilities, 0)
    addPoint(work.statistics, points, i * d, responsibilities, 0, 1)
    enterReservoir(work, rows, i * width, points, i * d, responsibilities, rng)
    if (work.fresh.next < 0) work.fresh.push(rows, i * width, 0)
    else if (rng.nextFloat() < 0.5) {
      work.fresh.replace(rng.nextBelow(work.fresh.capacity), rows, i * width, 0)
    }
  }
  work.roundLearnt += chosen.length
  work.mixture = mixtureOfStatistics(work.statistics, work.regularisation)
}

/** Lowers the weight of all earlier rows before `count` new ones. */
function forget(work: LearningWork, count: number): void {
  const { forgetting } = work.options
  if (forgetting.kind === 'none') return
  const factor = exp((-count * LOG_2) / forgetting.halfLifeRows)
  scaleStatistics(work.statistics, factor)
  scaleStatistics(work.base, factor)
  work.unseenRows *= factor
  const { numbers, count: kept } = work.reservoir
  // a weight of 0 would be no row's
  for (let i = 0; i < kept; i++) numbers[i] = Math.max(LEAST_SCALED_MASS, numbers[i]! * factor)
}

const LOG_2 = log(2)

function enterReservoir(
  work: LearningWork,
  rows: Float64Array,
  start: number,
  points: Float64Array,
  pointStart: number,
  responsibilities: Float64Array,
  rng: Rng,
): void {
  const { reservoir, base, options } = work
  work.reservoirSeen++
  if (reservoir.next < 0) {
    const place = reservoir.push(rows, start, 1)
    work.setReservoirPoint(place, points, pointStart)
    return
  }
  const recent =
    options.forgetting.kind === 'exponential'
      ? Math.min(work.reservoirSeen, options.forgetting.halfLifeRows / LOG_2)
      : work.reservoirSeen
  const draw = rng.nextFloat() * Math.max(recent, reservoir.capacity)
  if (draw >= reservoir.capacity) {
    addPoint(base, points, pointStart, responsibilities, 0, 1)
    return
  }
  replaceInReservoir(work, Math.floor(draw), rows, start, points, pointStart)
}

/** Puts the row into the reservoir; the replaced row moves to the base, with its present responsibilities. */
export function replaceInReservoir(
  work: LearningWork,
  place: number,
  rows: Float64Array,
  start: number,
  points: Float64Array,
  pointStart: number,
): void {
  const { reservoir, base, space } = work
  const evaluator = work.evaluator
  const leaving = new Float64Array(evaluator.k)
  responsibilitiesInto(evaluator, work.reservoirPoints, place * space.d, leaving, 0)
  addPoint(base, work.reservoirPoints, place * space.d, leaving, 0, reservoir.numbers[place]!)
  reservoir.replace(place, rows, start, 1)
  work.setReservoirPoint(place, points, pointStart)
}

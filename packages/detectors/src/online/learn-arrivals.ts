/**
 * What is done with a batch of rows as it arrives: verdicts, and the step by which the mixture follows (Method 1).
 *
 * Each row takes one of these ways:
 *
 *     too large to learn       disregarded (learnable.ts)
 *     every so many, blindly   kept from learning, for the threshold
 *     found normal             learnt: E-step, M-step, perhaps a place in the reservoir
 *     found novel              dropped, or held until more like it have come in other periods (held-rows.ts), or to be learnt
 *     said to be normal        learnt whatever it was found; the novel ones in the round, as components
 *
 * The reservoir is a uniform sample of all rows learnt (Vitter, "Random sampling with a reservoir", 1985, algorithm R).
 * With exponential forgetting each new row enters as soon as there are more rows than recent ones count, over one drawn
 * at random; with a window it is the window.
 */
import { exp, log, type Rng } from '@oddflow/core'
import { isNovel } from '../threshold.js'
import { confirmHeld } from './held-rows.js'
import { areUpTo, LARGEST_LEARNABLE } from './learnable.js'
import type { LearningWork } from './learning-work.js'
import { responsibilitiesInto } from './mixture-evaluator.js'
import {
  addPoint,
  LEAST_SCALED_MASS,
  mixtureOfStatistics,
  scaleStatistics,
  totalMass,
} from './mixture-statistics.js'

/** A verdict on each row as it came, and what was done. */
export interface ArrivalReport {
  readonly scores: Float64Array
  /** 1: novel. */
  readonly novel: Uint8Array
  /** Novel to the frozen model. */
  readonly novelToFrozen: number
  readonly learnt: number
  readonly heldBack: number
  readonly held: number
  readonly disregarded: number
  readonly confirmed: number
}

export interface ArrivalOptions {
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
  const frozenScores = work.frozenScores(rows, count)
  const novel = new Uint8Array(count)
  const step = options.calibrationShare > 0 ? Math.round(1 / options.calibrationShare) : 0
  const report = { novelToFrozen: 0, learnt: 0, heldBack: 0, held: 0, disregarded: 0, confirmed: 0 }
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

/** The update step for the rows numbered in `chosen`. Throws StatisticsError, the mixture as it was. */
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

/** Lowers what all rows so far count, before `count` more. */
function forget(work: LearningWork, count: number): void {
  const { forgetting } = work.options
  if (forgetting.kind === 'none') return
  if (forgetting.kind === 'window') {
    // the rows of the reservoir leave it one by one; all others leave with the share that is too much
    const outside = totalMass(work.base)
    const room = Math.max(0, forgetting.rows - Math.min(forgetting.rows, work.reservoir.count + count))
    if (outside > room) {
      const factor = room / outside
      scaleStatistics(work.base, factor)
      work.unseenRows *= factor
    }
    const total = totalMass(work.statistics)
    const allowed = Math.max(1, forgetting.rows - count)
    if (total > allowed) scaleStatistics(work.statistics, allowed / total)
    return
  }
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
  if (options.forgetting.kind === 'window' || reservoir.next < 0) {
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

/** The row goes to a place of the reservoir; what stood there goes to the base, as the mixture now has it. */
export function replaceInReservoir(
  work: LearningWork,
  place: number,
  rows: Float64Array,
  start: number,
  points: Float64Array,
  pointStart: number,
): void {
  const { reservoir, base, space } = work
  if (work.options.forgetting.kind !== 'window') {
    const evaluator = work.evaluator
    const leaving = new Float64Array(evaluator.k)
    responsibilitiesInto(evaluator, work.reservoirPoints, place * space.d, leaving, 0)
    addPoint(base, work.reservoirPoints, place * space.d, leaving, 0, reservoir.numbers[place]!)
  }
  reservoir.replace(place, rows, start, 1)
  work.setReservoirPoint(place, points, pointStart)
}

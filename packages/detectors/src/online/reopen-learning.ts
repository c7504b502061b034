/**
 * A learned state under other options: what has to leave buffers that are smaller than they were.
 *
 * Rows of a reservoir that becomes smaller are still counted in the mixture. So they go to the base, with the weight they
 * had, as rows do that give way to others; a random sample of them stays, since the reservoir is one of all rows.
 * With a window they leave for good: only the last so many rows count. Of all other buffers the newest rows stay.
 */
import { createRng, type Matrix, sampleWithoutReplacement, takeRows } from '@oddflow/core'
import { mixtureOfModel, reservoirCapacity, spaceOfModel } from './begin-learning.js'
import { addPoints } from './incremental-em.js'
import type { LearnedState, LearningModel } from './learned-state.js'
import type { CheckedLearningOptions } from './learning-options.js'
import { freshCapacity } from './learning-work.js'
import { createMixtureEvaluator } from './mixture-evaluator.js'
import { copyStatistics } from './mixture-statistics.js'
import { RowBuffer, type RowEntries } from './row-buffer.js'

export function reopenLearning(
  before: LearnedState,
  model: LearningModel,
  options: CheckedLearningOptions,
): LearnedState {
  const newest = (entries: RowEntries, capacity: number): RowEntries =>
    new RowBuffer(entries.rows.cols, capacity, entries).entries()
  const newestRows = (rows: Matrix, capacity: number): Matrix =>
    newest({ rows, numbers: new Float64Array(rows.rows) }, capacity).rows
  const capacity = reservoirCapacity(options.reservoirRows, options.forgetting)
  const state: LearnedState = {
    ...before,
    options,
    calibration: newestRows(before.calibration, options.calibrationRows),
    doubtful: newestRows(before.doubtful, options.calibrationRows),
    fresh: newestRows(before.fresh, freshCapacity(options)),
    held: newest(before.held, options.heldRows),
  }
  const { rows, numbers } = before.reservoir
  if (rows.rows <= capacity) return state
  if (options.forgetting.kind === 'window') {
    return { ...state, reservoir: newest(before.reservoir, capacity) }
  }
  const rng = createRng(before.seed).fork(`smaller reservoir ${before.counters.batches}`)
  const stays = sampleWithoutReplacement(rows.rows, capacity, rng).sort()
  const staying = new Set(stays)
  const leaves = Array.from(numbers.keys()).filter((i) => !staying.has(i))
  const base = copyStatistics(before.base)
  const space = spaceOfModel(model)
  const leaving = takeRows(rows, leaves)
  const points = new Float64Array(leaving.rows * space.d)
  space.locate(leaving.data, 0, leaving.rows, points, 0)
  const weights = Float64Array.from(leaves, (i) => numbers[i]!)
  addPoints(createMixtureEvaluator(mixtureOfModel(model)), base, { count: leaving.rows, points, weights }, 0)
  const kept = { rows: takeRows(rows, stays), numbers: Float64Array.from(stays, (i) => numbers[i]!) }
  return { ...state, base, reservoir: kept }
}

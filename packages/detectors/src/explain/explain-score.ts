/**
 * Why a row scores as it does: what normal rows it is nearest to, and which of its features keep it from them.
 *
 * The reference is the nearest normal example that the model remembers (normal-examples.ts), by distance between
 * scaled rows. Features are then given the example's values one after another, each time the one that raises the score
 * most, and what each raised it by is its share: *greedy occlusion*. The shares add up: score plus all shares is
 * the score of the row with those features replaced. (Replacing each feature alone, the usual occlusion, shows
 * nothing where a row is out in several at once and the score is flat between.) Of features that raise it alike, the
 * one that is farthest off in scaled units goes first.
 *
 * Bounded: at most `features` steps of at most MAXIMUM_CANDIDATES scores each, over those features that are the
 * farthest off; it stops early when the score is above the threshold, or when nothing is different any more.
 *
 * Left out: gradients, which are 0 where a kernel underflows, and Shapley values, which take 2^D scores.
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import { createEnsembleExplainer } from '../ensemble/explain-ensemble.js'
import type { DetectorModel } from '../model.js'
import { scaleInto } from '../scaler.js'
import { createScoreWorkspace, scoreSamples } from '../score.js'
import { nearestExample, normalExamples } from './normal-examples.js'
import { unscaleRow } from './unscale-row.js'

export interface FeatureShare {
  /** Column, from 0. */
  readonly column: number
  readonly value: number
  /** The nearest normal example's. */
  readonly nearest: number
  /** In the typical example of the nearest mode; null where the detector has no modes. */
  readonly typical: number | null
  /** What the score gains when it takes the example's value, those before it having done so. */
  readonly gain: number
}

/** What an ensemble's score of a row is made of, column by column. */
export interface ColumnSurprises {
  /** Nats of the score that each column makes, length D; of the category column, what its being unknown makes. */
  readonly nats: Float64Array
  /**
   * The 1 % and 99 % order statistics of the training rows that the row is compared with (those of its category where
   * there are enough), length D, unscaled; the category column is 0. null without the member hbos.
   */
  readonly usual: { readonly low: Float64Array; readonly high: Float64Array } | null
  /** Whether training had the row's category; `rare`: the model does not remember rare ones. null where rows have none, or
   * without the member nearest. */
  readonly category: 'known' | 'rare' | 'new' | null
}

export interface NearestMode {
  /** Component, from 0. */
  readonly component: number
  /** Its share of normal behaviour. */
  readonly weight: number
}

export interface ScoreExplanation {
  /** null where the detector has no modes. */
  readonly mode: NearestMode | null
  /** In the order in which they were replaced. */
  readonly features: readonly FeatureShare[]
  /** The nearest normal example, D numbers, unscaled. */
  readonly nearestRow: Float64Array
  /** The typical example of the mode; null where the detector has no modes. */
  readonly typicalRow: Float64Array | null
  /** With those features replaced. */
  readonly explainedScore: number
  /** null for detectors other than an ensemble. */
  readonly columns: ColumnSurprises | null
}

export interface Explainer {
  /**
   * `row` of D finite numbers, unscaled; `score` what the model gives it. Throws ArgumentError for a row that is
   * not one.
   */
  explain(row: Float64Array, score: number, threshold: number): ScoreExplanation
}

export const MAXIMUM_CANDIDATES = 64
const TILE = 32

/** For one caller at a time; null for a detector that remembers no normal row (an isolation forest). An ensemble is
 * explained by its members (ensemble/explain-ensemble.ts). */
export function createExplainer(model: DetectorModel, features = 5): Explainer | null {
  if (model.kind === 'ensemble') return createEnsembleExplainer(model, features)
  const examples = normalExamples(model)
  if (examples === null) return null
  const { scaler } = model
  const cols = model.fitReport.dimension
  const { cols: width } = examples.rows
  const { categoryColumn = cols } = scaler
  const workspace = createScoreWorkspace(model)
  const scaled = new Float64Array(width)
  const nearestRow = new Float64Array(cols)
  const typicalRow = new Float64Array(cols)
  const changed = new Float64Array(cols)
  const tile: Matrix = { rows: TILE, cols, data: new Float64Array(TILE * cols) }
  const scores = new Float64Array(TILE)

  /** The candidate whose replacement gives the highest score. */
  const best = (candidates: readonly number[]): { at: number; score: number } => {
    let found = { at: 0, score: Number.NEGATIVE_INFINITY }
    for (let start = 0; start < candidates.length; start += TILE) {
      const count = Math.min(TILE, candidates.length - start)
      for (let i = 0; i < count; i++) {
        const column = candidates[start + i]!
        tile.data.set(changed, i * cols)
        tile.data[i * cols + column] = nearestRow[column]!
      }
      const part = { rows: count, cols, data: tile.data.subarray(0, count * cols) }
      scoreSamples(model, part, scores, workspace)
      for (let i = 0; i < count; i++) {
        if (scores[i]! > found.score) found = { at: start + i, score: scores[i]! }
      }
    }
    return found
  }

  return {
    explain(row, score, threshold) {
      if (row.length !== cols || !row.every(Number.isFinite)) {
        throw new ArgumentError(`row: expected ${cols} finite numbers`, 'row')
      }
      scaleInto(scaler, row, 0, 1, cols, scaled)
      const nearest = nearestExample(examples, scaled)
      // of names there is no example: they stay the row's
      nearestRow.set(row)
      unscaleRow(scaler, examples.rows.data, nearest * width, width, nearestRow)
      const { modes } = examples
      const component = modes === null ? null : modes.modeOf[nearest]!
      const mode =
        modes === null || component === null ? null : { component, weight: modes.weights[component]! }
      if (modes !== null && component !== null) {
        typicalRow.set(row)
        unscaleRow(scaler, examples.rows.data, modes.typical[component]! * width, width, typicalRow)
      }
      const distance = (column: number): number => {
        const at = column < categoryColumn ? column : column - 1
        return Math.abs(scaled[at]! - examples.rows.data[nearest * width + at]!)
      }
      const candidates = Array.from({ length: cols }, (_, column) => column)
        .filter((column) => column !== categoryColumn && distance(column) > 0)
        .sort((a, b) => distance(b) - distance(a) || a - b)
        .slice(0, MAXIMUM_CANDIDATES)
      changed.set(row)
      let current = score
      const shares: FeatureShare[] = []
      while (shares.length < features && candidates.length > 0 && !(current > threshold)) {
        const { at, score: next } = best(candidates)
        const [column] = candidates.splice(at, 1) as [number]
        changed[column] = nearestRow[column]!
        shares.push({
          column,
          value: row[column]!,
          nearest: nearestRow[column]!,
          typical: mode === null ? null : typicalRow[column]!,
          gain: next - current,
        })
        current = next
      }
      return {
        mode,
        features: shares,
        nearestRow: nearestRow.slice(),
        typicalRow: mode === null ? null : typicalRow.slice(),
        explainedScore: current,
        columns: null,
      }
    },
  }
}

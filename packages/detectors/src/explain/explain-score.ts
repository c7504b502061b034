/**
 * Explains a row's score: the normal rows it resembles most, and the features that keep it from them.
 *
 * The reference is the nearest normal example of the model, by distance between scaled rows.
 * Features then take the example's values one after another, each time the feature that raises the score most; the rise
 * is its share: *greedy occlusion*. Score plus all shares is the score of the row with those features replaced. (The
 * usual occlusion, one feature at a time, shows nothing if several features are unusual and the score is flat between.)
 * On ties, the feature with the largest scaled difference goes first.
 *
 * The work is bounded: at most `features` steps of at most MAXIMUM_CANDIDATES scores, over the features with the
 * largest differences. It stops when the score is above the threshold or no feature differs.
 *
 * Not used: gradients, which are 0 where a kernel underflows, and Shapley values, which take 2^D scores.
 */
import { ArgumentError, createMatrix, type Matrix } from '@oddflow/core'
import { squaredDistances } from '@oddflow/linalg'
import { surpriseOf } from '../calibration/held-out.js'
import type { NormalExamples } from '../detector.js'
import { embedRows } from '../embedding/embedding.js'
import {
  type EnsembleMember,
  type EnsemblePart,
  type HbosMember,
  indexOf,
  type NearestMember,
  runsOf,
  standardise,
  unstandardise,
  type ViewExplainer,
} from '../ensemble/ensemble-part.js'
import { explainHbos } from '../ensemble/hbos-member.js'
import { createWeightedViews } from '../ensemble/members.js'
import { explainNearest, farthestLandmarks } from '../ensemble/nearest-member.js'
import { componentLogDensities } from '../mixture/gaussian-mixture.js'
import type { DetectorModel, EnsembleModel } from '../model.js'
import { DETECTORS } from '../registry.js'
import { scaledWidth, scaleInto, unscaleRow } from '../scaler.js'
import { createScoreWorkspace, scoreSamples } from '../score.js'

/** How much one column contributes to a score. */
export interface FeatureShare {
  /** Column, from 0. */
  readonly column: number
  readonly value: number
  /** The nearest normal example's. */
  readonly nearest: number
  /** In the typical example of the nearest mode; null if the detector has no modes. */
  readonly typical: number | null
  /** The rise of the score when it takes the example's value, after those before it. */
  readonly gain: number
}

/** An ensemble's score of a row, column by column. */
export interface ColumnSurprises {
  /** Nats of the score from each column, length D; for the category column, those of an unknown category. */
  readonly nats: Float64Array
  /**
   * The 1 % and 99 % order statistics of the training rows compared with the row (those of its category, if there are
   * enough), length D, unscaled; 0 for the category column. null without the member hbos.
   */
  readonly usual: { readonly low: Float64Array; readonly high: Float64Array } | null
  /**
   * Whether training had the row's category; `rare`: the model does not store rare ones. null if rows have none, or
   * without the member nearest.
   */
  readonly category: 'known' | 'rare' | 'new' | null
}

/** The mixture component nearest to an explained row. */
export interface NearestMode {
  /** Component, from 0. */
  readonly component: number
  /** Its share of normal behaviour. */
  readonly weight: number
}

/** Why a row has its score: the nearest normal example, and the columns in which the row differs. */
export interface ScoreExplanation {
  /** null where the detector has no modes. */
  readonly mode: NearestMode | null
  /** In the order in which they were replaced. */
  readonly features: readonly FeatureShare[]
  /** The nearest normal example, D numbers, unscaled. */
  readonly nearestRow: Float64Array
  /** The typical example of the mode; null if the detector has no modes. */
  readonly typicalRow: Float64Array | null
  /** With those features replaced. */
  readonly explainedScore: number
  /** null for detectors other than an ensemble. */
  readonly columns: ColumnSurprises | null
}

/** Explains scores of one model. */
export interface Explainer {
  /**
   * `row` has D finite numbers, unscaled; `score` is its score by the model. Throws ArgumentError for an invalid row.
   */
  explain(row: Float64Array, score: number, threshold: number): ScoreExplanation
}

const MAXIMUM_CANDIDATES = 64
const TILE = 32

/**
 * Not reentrant. null for a detector without normal examples (an isolation forest). An ensemble is explained by its
 * members.
 */
export function createExplainer(model: DetectorModel, features = 5): Explainer | null {
  if (model.kind === 'ensemble') return createEnsembleExplainer(model, features)
  const examples = normalExamples(model)
  if (examples === null) return null
  const modes = modesOf(examples)
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
      // names have no example and stay the row's
      nearestRow.set(row)
      unscaleRow(scaler, examples.rows.data, nearest * width, width, nearestRow)
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

/**
 * Explains a row's low score by an ensemble: each member's surprise is divided among the columns.
 *
 * - nearest: by squared differences to the nearest landmark; an unknown service gets what it adds to the distance;
 * - hbos: by the nats of each column above those of its fullest bin;
 * - another detector: by the gains of its own explanation, if it has one.
 *
 * Columns take the values of a normal example in the order of their shares, because surprises are capped.
 */

/** null where no member remembers a normal row. */
function createEnsembleExplainer(model: EnsembleModel, features: number): Explainer | null {
  const { scaler, ensemble, fitReport } = model
  const { dimension } = fitReport
  const { categoryColumn = dimension } = scaler
  const width = scaledWidth(scaler, dimension)
  const { members } = ensemble
  const hasServices = categoryColumn < dimension
  const views = members.flatMap((member) => {
    const explainers = createViewExplainers(member, width, hasServices)
    return createWeightedViews(DETECTORS, member, hasServices, false).map((view, k) => ({
      ...view,
      explainer: explainers[k]!,
      value: new Float64Array(1),
    }))
  })
  const exampleBy = views.findIndex(({ explainer }) => explainer.example !== null)
  if (exampleBy < 0) return null
  const single: Matrix = { rows: 1, cols: width, data: new Float64Array(width) }
  const changed: Matrix = { rows: 1, cols: dimension, data: new Float64Array(dimension) }
  const names = new Float64Array(1)
  // one more for the category, behind the columns
  const shares = new Float64Array(width + 1)
  const sums = new Float64Array(width + 1)
  const out = new Float64Array(1)
  // without SIMD, whose memory holds one program at a time: the scorer's stays loaded
  const workspace = createScoreWorkspace(model, { simd: false })
  const columnsOf = createColumnSurprises(model, width)

  return {
    explain(row, score, threshold) {
      if (row.length !== dimension || !row.every(Number.isFinite)) {
        throw new ArgumentError(`row: expected ${dimension} finite numbers`, 'row')
      }
      scaleInto(scaler, row, 0, 1, dimension, single.data)
      standardise(ensemble, single.data, width, single.data)
      names[0] = hasServices ? row[categoryColumn]! : 0
      sums.fill(0)
      for (const { view, explainer, surprise, weights, value } of views) {
        view(single, names, value)
        explainer.share(single, names[0]!, value[0]!, shares)
        divideAmong(shares, surpriseOf(surprise, value[0]!, weights), sums)
      }
      const example = views[exampleBy]!.explainer.example!(single, names[0]!, views[exampleBy]!.value[0]!)
      const nearestRow = row.slice()
      unscaleRow(scaler, unstandardise(ensemble, example, 0), 0, width, nearestRow)
      const candidates = Array.from(example.keys())
        .filter((j) => sums[j]! > 0 && example[j] !== single.data[j])
        .sort((a, b) => sums[b]! - sums[a]! || a - b)
        .slice(0, features)
      changed.data.set(row)
      let current = score
      const found: FeatureShare[] = []
      for (const j of candidates) {
        if (current > threshold) break
        const column = j < categoryColumn ? j : j + 1
        changed.data[column] = nearestRow[column]!
        scoreSamples(model, changed, out, workspace)
        found.push({
          column,
          value: row[column]!,
          nearest: nearestRow[column]!,
          typical: null,
          gain: out[0]! - current,
        })
        current = out[0]!
      }
      return {
        mode: null,
        features: found,
        nearestRow,
        typicalRow: null,
        explainedScore: current,
        columns: columnsOf(sums, names[0]!),
      }
    },
  }
}

/** Adds a view's surprise to the columns, by their shares; to none where all shares are 0. */
function divideAmong(shares: Float64Array, nats: number, sums: Float64Array): void {
  let largest = 0
  for (let j = 0; j < shares.length; j++) largest = Math.max(largest, shares[j]!)
  if (!(largest > 0)) return
  // as parts of the largest, so that their sum stays finite
  let total = 0
  for (let j = 0; j < shares.length; j++) total += shares[j]! / largest
  for (let j = 0; j < shares.length; j++) sums[j]! += (nats * (shares[j]! / largest)) / total
}

/** What a model says of the columns of a row, from the nats of each scaled column and of the category behind them. */
function createColumnSurprises(
  { scaler, ensemble, fitReport, parameters }: EnsembleModel,
  width: number,
): (sums: Float64Array, category: number) => ColumnSurprises {
  const { dimension } = fitReport
  const { categoryColumn = dimension } = scaler
  const hbos = ensemble.members.find((member) => member.name === 'hbos')
  const nearest = ensemble.members.find((member) => member.name === 'nearest')
  /** By the table of hbos. */
  const ranges = new Map<number, NonNullable<ColumnSurprises['usual']>>()

  const usualRange = ({ histograms, own }: HbosMember, category: number): ColumnSurprises['usual'] => {
    const table = own === null ? -1 : indexOf(own.categories, category)
    const known = ranges.get(table)
    if (known !== undefined) return known
    const from = own === null || table < 0 ? histograms : own.histograms
    const unscaled = (bounds: Matrix): Float64Array => {
      const out = new Float64Array(dimension)
      unscaleRow(scaler, unstandardise(ensemble, bounds.data, Math.max(table, 0) * width), 0, width, out)
      return out
    }
    const range = { low: unscaled(from.low), high: unscaled(from.high) }
    ranges.set(table, range)
    return range
  }
  const categoryState = ({ categories }: NearestMember, category: number): ColumnSurprises['category'] => {
    if (categories.length === 0) return null
    const { names: known } = runsOf(categories)
    if (indexOf(known, category) >= 0) return 'known'
    // if every landmark has a different category, none were left for rarer ones
    return known.length < farthestLandmarks(parameters.m ?? 0) ? 'new' : 'rare'
  }
  return (sums, category) => {
    const nats = new Float64Array(dimension)
    for (let j = 0; j < width; j++) nats[j < categoryColumn ? j : j + 1] = sums[j]!
    if (categoryColumn < dimension) nats[categoryColumn] = sums[width]!
    return {
      nats,
      usual: hbos === undefined ? null : usualRange(hbos, category),
      category: nearest === undefined ? null : categoryState(nearest, category),
    }
  }
}

/** One for each of a member's views. */
function createViewExplainers(
  member: EnsembleMember,
  width: number,
  hasServices: boolean,
): readonly ViewExplainer[] {
  if (member.name === 'nearest') return [explainNearest(member)]
  if (member.name === 'hbos') return explainHbos(member, hasServices)
  const explainer = createExplainer(member.model, width)
  if (explainer === null) return [{ share: (_row, _category, _value, out) => out.fill(0), example: null }]
  const explain = (row: Matrix, value: number) =>
    explainer.explain(row.data.slice(), 0 - value, Number.MAX_VALUE)
  return [
    {
      share(row, _, value, out) {
        out.fill(0)
        for (const { column, gain } of explain(row, value).features) out[column] = Math.max(0, gain)
      },
      example: (row, _, value) => explain(row, value).nearestRow,
    },
  ]
}

// ---- normal examples

interface ExampleModes {
  /** Length k. */
  readonly weights: Float64Array
  /** The mode of each example, length N. */
  readonly modeOf: Uint32Array
  /** The typical example of each mode, length k. */
  readonly typical: Uint32Array
}

/** null for a detector that remembers none. */
export function normalExamples(model: DetectorModel): NormalExamples | null {
  return DETECTORS[model.kind].normalExamples?.(model) ?? null
}

/** The first of the examples nearest to a scaled row. */
export function nearestExample({ rows }: Pick<NormalExamples, 'rows'>, scaledRow: Float64Array): number {
  const distance = new Float64Array(1)
  let nearest = 0
  let smallest = Number.POSITIVE_INFINITY
  for (let i = 0; i < rows.rows; i++) {
    squaredDistances(scaledRow, 0, rows.data, i * rows.cols, 1, rows.cols, distance, 0)
    if (distance[0]! < smallest) {
      smallest = distance[0]!
      nearest = i
    }
  }
  return nearest
}

/**
 * The components of a mixture; an example belongs to its most responsible one. The typical example of a mode has the
 * highest density under its component (in the embedding, if there is one).
 */
function modesOf({ rows, mixture, embedding }: NormalExamples): ExampleModes | null {
  if (mixture === undefined) return null
  const points = embedding === undefined ? rows : embedRows(embedding, rows)
  const k = mixture.weights.length
  const modeOf = new Uint32Array(points.rows)
  const typical = new Uint32Array(k)
  const highest = new Float64Array(k).fill(Number.NEGATIVE_INFINITY)
  const densities = createMatrix(1, k).data
  const into = componentLogDensities(mixture)
  for (let i = 0; i < points.rows; i++) {
    into(points.data, i * points.cols, densities, 0)
    for (let j = 0; j < k; j++) {
      if (densities[j]! > densities[modeOf[i]!]!) modeOf[i] = j
      if (densities[j]! > highest[j]!) {
        highest[j] = densities[j]!
        typical[j] = i
      }
    }
  }
  return { weights: mixture.weights, modeOf, typical }
}

/**
 * The rows a model stores as normal, n × D and unscaled: training rows (an ensemble's landmarks), or the means of a
 * mixture in D dimensions. Columns not stored are 0. null for a detector without such rows.
 */
export function rememberedRows(model: DetectorModel): Matrix | null {
  const examples = model.kind === 'ensemble' ? ensembleLandmarks(model.ensemble) : normalExamples(model)
  if (examples === null) return null
  const { rows, cols, data } = examples.rows
  const { dimension } = model.fitReport
  const { categoryColumn } = model.scaler
  const out = createMatrix(rows, dimension)
  for (let i = 0; i < rows; i++) {
    const row = out.data.subarray(i * dimension, (i + 1) * dimension)
    unscaleRow(model.scaler, data, i * cols, cols, row)
    if (categoryColumn !== undefined && 'categories' in examples)
      row[categoryColumn] = examples.categories[i]!
  }
  return out
}

/** Scaled, with the category of each; null if no member has landmarks. */
function ensembleLandmarks(ensemble: EnsemblePart): { rows: Matrix; categories: Float64Array } | null {
  const nearest = ensemble.members.find((member) => member.name === 'nearest')
  if (nearest === undefined) return null
  const { rows, cols, data } = nearest.landmarks
  const scaled = createMatrix(rows, cols)
  for (let i = 0; i < data.length; i += cols) scaled.data.set(unstandardise(ensemble, data, i), i)
  return { rows: scaled, categories: nearest.categories }
}

/**
 * Why a row scores low to an ensemble: the surprise of each member's views, shared out among the columns that make it.
 *
 * - nearest: by squared differences to the nearest landmark, among those of the row's service where there are such; the
 *   service itself has the share that its being unknown adds to the distance;
 * - hbos: by the nats that each column adds to what its fullest bin would;
 * - another detector: by the gains of its own explanation; nothing where it has none.
 *
 * Columns come by the sum of their shares, largest first, and take the value of a normal example in turn, as in
 * explain-score.ts. Surprises are capped, so replacing columns alone would tell nothing of a row that is out in many.
 * The normal example is the first member's that has one: the nearest landmark, the middles of the fullest bins, or the
 * example of another detector.
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import { squaredDistances } from '@oddflow/linalg'
import {
  type ColumnSurprises,
  createExplainer,
  type Explainer,
  type FeatureShare,
} from '../explain/explain-score.js'
import { unscaleRow } from '../explain/unscale-row.js'
import { surpriseOf } from '../held-out.js'
import { createHistogramViews, histogramShares, modalRow } from '../histograms.js'
import type { EnsembleModel } from '../model.js'
import { scaledWidth, scaleInto } from '../scaler.js'
import { createScoreWorkspace, scoreSamples } from '../score.js'
import {
  type EnsembleMember,
  type HbosMember,
  type NearestMember,
  standardise,
  unstandardise,
} from './ensemble-part.js'
import { createWeightedViews, farthestLandmarks, indexOf, LEAST_BIN_WIDTH, runsOf } from './members.js'

interface ViewExplainer {
  /** Writes shares of the view's surprise, 0 or more, up to a common factor, the category's behind those of the columns;
   * `value` is its view of the row. */
  share(row: Matrix, category: number, value: number, out: Float64Array): void
  /** A normal row like this one, standardised; null for a detector that remembers none. */
  readonly example: ((row: Matrix, category: number, value: number) => Float64Array) | null
}

/** null where no member remembers a normal row. */
export function createEnsembleExplainer(model: EnsembleModel, features: number): Explainer | null {
  const { scaler, ensemble, fitReport } = model
  const { dimension } = fitReport
  const { categoryColumn = dimension } = scaler
  const width = scaledWidth(scaler, dimension)
  const { members } = ensemble
  const hasServices = categoryColumn < dimension
  const views = members.flatMap((member) => {
    const explainers = createViewExplainers(member, width, hasServices)
    return createWeightedViews(member, hasServices, true).map((view, k) => ({
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
  const workspace = createScoreWorkspace(model)
  /** By the table of hbos. */
  const ranges = new Map<number, NonNullable<ColumnSurprises['usual']>>()

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
        // in parts of the largest, so that their sum stays in the range of numbers
        const largest = shares.reduce((most, share) => Math.max(most, share), 0)
        if (!(largest > 0)) continue
        const total = shares.reduce((sum, share) => sum + share / largest, 0)
        const nats = surpriseOf(surprise, value[0]!, weights)
        for (let j = 0; j <= width; j++) sums[j]! += (nats * (shares[j]! / largest)) / total
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
        columns: columnsOf(names[0]!),
      }
    },
  }

  function columnsOf(category: number): ColumnSurprises {
    const nats = new Float64Array(dimension)
    for (let j = 0; j < width; j++) nats[j < categoryColumn ? j : j + 1] = sums[j]!
    if (categoryColumn < dimension) nats[categoryColumn] = sums[width]!
    const hbos = members.find((member) => member.name === 'hbos')
    const nearest = members.find((member) => member.name === 'nearest')
    return {
      nats,
      usual: hbos === undefined ? null : usualRange(hbos, category),
      category: nearest === undefined ? null : categoryState(nearest, category),
    }
  }

  function usualRange({ histograms, own }: HbosMember, category: number): ColumnSurprises['usual'] {
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

  function categoryState({ categories }: NearestMember, category: number): ColumnSurprises['category'] {
    if (categories.length === 0) return null
    const { names: known } = runsOf(categories)
    if (indexOf(known, category) >= 0) return 'known'
    // where every landmark is of a category of its own, there were none left for rarer ones
    return known.length < farthestLandmarks(model.parameters.m ?? 0) ? 'new' : 'rare'
  }
}

/** One for each of a member's views. */
function createViewExplainers(
  member: EnsembleMember,
  width: number,
  hasServices: boolean,
): readonly ViewExplainer[] {
  if (member.name !== 'hbos' || !hasServices) return [createViewExplainer(member, width)]
  return [createHbosExplainer(member), createHbosExplainer({ ...member, own: null })]
}

function createViewExplainer(member: EnsembleMember, width: number): ViewExplainer {
  switch (member.name) {
    case 'nearest': {
      const { cols, data } = member.landmarks
      const runs = runsOf(member.categories)
      return {
        share(row, category, value, out) {
          const at = nearestLandmark(member, runs, row, category) * cols
          let squares = 0
          for (let j = 0; j < cols; j++) {
            const difference = row.data[j]! - data[at + j]!
            out[j] = Math.min(difference * difference, Number.MAX_VALUE)
            squares += out[j]!
          }
          // the view is the distance, and what an unknown category adds to it: both in squares' proportion
          const distance = Math.sqrt(squares)
          const isUnknown = runs.names.length > 0 && indexOf(runs.names, category) < 0
          const added = isUnknown ? Math.max(0, value - distance) : 0
          out[cols] = Math.min(distance > 0 ? distance * added : added, Number.MAX_VALUE)
        },
        example(row, category) {
          const at = nearestLandmark(member, runs, row, category) * cols
          return data.slice(at, at + cols)
        },
      }
    }
    case 'hbos':
      return createHbosExplainer(member)
    default: {
      const explainer = createExplainer(member.model, width)
      if (explainer === null) return { share: (_row, _category, _value, out) => out.fill(0), example: null }
      const explain = (row: Matrix, value: number) =>
        explainer.explain(row.data.slice(), 0 - value, Number.MAX_VALUE)
      return {
        share(row, _, value, out) {
          out.fill(0)
          for (const { column, gain } of explain(row, value).features) out[column] = Math.max(0, gain)
        },
        example: (row, _, value) => explain(row, value).nearestRow,
      }
    }
  }
}

function createHbosExplainer({ histograms, own }: HbosMember): ViewExplainer {
  const all = createHistogramViews(histograms, LEAST_BIN_WIDTH)
  const services = own === null ? null : createHistogramViews(own.histograms, LEAST_BIN_WIDTH)
  const tableOf = (category: number): number => (own === null ? -1 : indexOf(own.categories, category))
  return {
    share(row, category, _, out) {
      out.fill(0)
      const table = tableOf(category)
      if (services !== null && table >= 0) histogramShares(services, table, row.data, 0, out)
      else histogramShares(all, 0, row.data, 0, out)
    },
    example(_, category) {
      const table = tableOf(category)
      return services !== null && table >= 0 ? modalRow(services, table) : modalRow(all, 0)
    },
  }
}

/** The first of the landmarks nearest to a row, among those of its service if there are such. */
function nearestLandmark(
  { landmarks }: NearestMember,
  { names, starts }: ReturnType<typeof runsOf>,
  row: Matrix,
  category: number,
): number {
  const { rows: m, cols, data } = landmarks
  const run = indexOf(names, category)
  const first = run < 0 ? 0 : starts[run]!
  const end = run < 0 ? m : starts[run + 1]!
  const squares = new Float64Array(end - first)
  squaredDistances(row.data, 0, data, first * cols, end - first, cols, squares, 0)
  let nearest = 0
  for (let j = 1; j < squares.length; j++) if (squares[j]! < squares[nearest]!) nearest = j
  return first + nearest
}

/**
 * Carries a mixture into a new embedding of the same rows, without a new fit: new landmarks change every coordinate.
 *
 * 1. Least squares over all kept rows fits an affine map z' ≈ A z + b, which maps a component to Aµ + b + c and AΣAᵀ +
 *    C. c and C are mean and covariance of the map's residuals over the rows of this component, plus LEFTOVER_ROWS rows
 *    with the overall residuals. With overall residuals alone, small components would widen with each change of
 *    landmarks.
 * 2. The new moments are those of the component's kept rows, with the mapped ones counting as PRIOR_ROWS rows.
 *
 * Masses do not change. The new dimension d' may differ from d (Nyström's rank may change). EM continues from the
 * result.
 */
import { createMatrix } from '@oddflow/core'
import type { EmbeddingModel, SupportGuardModel } from '@oddflow/detectors'
import {
  createEmbeddingKernel,
  createSupportGuard,
  EMBEDDING_TILE_ROWS,
  logTail,
  type SupportGuard,
} from '@oddflow/detectors/parts'
import { choleskyInto, logSumExp, type Precision } from '@oddflow/linalg'
import {
  addComponent,
  addPoint,
  createMixtureEvaluator,
  emptyStatistics,
  type LearningMixture,
  type MixtureEvaluator,
  type MixtureStatistics,
  responsibilitiesInto,
  takeComponents,
  totalMass,
  type WeightedPoints,
} from './mixture-statistics.js'

/**
 * PointSpace: maps scaled rows to the points of a mixture, and points to scores.
 *
 * For an embedded mixture a point is φ′(x), together with the support of x; for `gmm` it is the row. Scores equal the
 * detector's, bit for bit. Their parts change at different times: the mixture with each arrival, embedding and guard
 * with each round.
 */

export interface PointSpace {
  /** Numbers of a point. */
  readonly d: number
  /** Numbers of a row. */
  readonly width: number
  /**
   * Writes the points of `count` scaled rows from `start` on to `out` at `outStart`, and `supports[i]` if there is a
   * guard.
   */
  locate(
    rows: Float64Array,
    start: number,
    count: number,
    out: Float64Array,
    outStart: number,
    supports?: Float64Array,
  ): void
}

export function createPointSpace(
  width: number,
  embedding: EmbeddingModel | null,
  guard: SupportGuardModel | null,
  precision: Precision = 'f64',
): PointSpace {
  if (embedding === null) {
    return {
      d: width,
      width,
      locate(rows, start, count, out, outStart) {
        for (let i = 0; i < count * width; i++) out[outStart + i] = rows[start + i]!
      },
    }
  }
  // typed arrays: the kernel is rebuilt for each change of landmarks, and WebAssembly memory cannot be freed
  const kernel = createEmbeddingKernel(embedding, {
    precision,
    simd: false,
    ...(guard === null ? {} : { nearestWeights: createSupportGuard(guard).weights }),
  })
  const d = kernel.dimensions
  const nearest = new Float64Array(EMBEDDING_TILE_ROWS)
  return {
    d,
    width,
    locate(rows, start, count, out, outStart, supports) {
      const wanted = guard === null || supports === undefined ? undefined : nearest
      for (let i = 0; i < count; i += EMBEDDING_TILE_ROWS) {
        const some = Math.min(EMBEDDING_TILE_ROWS, count - i)
        kernel.embed(rows, start + i * width, some, out, outStart + i * d, wanted)
        if (wanted === undefined || supports === undefined) continue
        for (let r = 0; r < some; r++) supports[i + r] = -wanted[r]!
      }
    },
  }
}

/** Scaled rows under a model. */
export interface ScoredRows {
  readonly points: Float64Array
  /** Zeros without a guard. */
  readonly supports: Float64Array
  readonly scores: Float64Array
  /** Log-densities of the mixture. */
  readonly densities: Float64Array
}

/** Scores the first `count` of scaled rows. Not reentrant. */
export type RowScorer = (rows: Float64Array, count: number) => ScoredRows

/** Space and guard stay the same when the mixture changes. */
export function createRowScorer(
  space: PointSpace,
  evaluator: MixtureEvaluator,
  guard: SupportGuard | null,
): RowScorer {
  const { d } = space
  const terms = new Float64Array(evaluator.k)
  return (rows, count) => {
    const points = new Float64Array(count * d)
    const supports = new Float64Array(count)
    const scores = new Float64Array(count)
    const densities = new Float64Array(count)
    space.locate(rows, 0, count, points, 0, supports)
    for (let i = 0; i < count; i++) {
      evaluator.terms(points, i * d, terms, 0)
      const density = logSumExp(terms, 0, evaluator.k)
      densities[i] = density
      const score =
        guard === null ? density : logTail(guard.density, density) + logTail(guard.support, supports[i]!)
      // finite at any distance, as in scorers of plain rows
      scores[i] = Math.max(score, -Number.MAX_VALUE)
    }
    return { points, supports, scores, densities }
  }
}

/** The map's weight in rows, in addition to the number of new dimensions. */
const PRIOR_ROWS = 2

/** The weight in rows of the overall residuals, in addition to the component's own residuals. */
const LEFTOVER_ROWS = 1

/** Ridge of the least squares, as a share of the mean variance of the old coordinates. */
const RIDGE = 1e-9

/**
 * `before` and `after` hold the same rows in d and `dAfter` numbers each, with the same weights. `statistics` belong to
 * `mixture` and do not change. Full covariances only: only embedded mixtures are carried.
 */
export function carryMixture(
  mixture: LearningMixture,
  statistics: MixtureStatistics,
  before: WeightedPoints,
  after: WeightedPoints,
  dAfter: number,
): MixtureStatistics {
  const { d, masses } = statistics
  const k = masses.length
  const map = fitAffineMap(before, after, d, dAfter)
  const evaluator = createMixtureEvaluator(mixture)
  const responsibilities = new Float64Array(k)
  const own = emptyStatistics('full', k, dAfter)
  const leftover = emptyStatistics('full', k, dAfter)
  for (let j = 0; j < k; j++) addComponent(leftover, j, map.leftover, 0)
  for (let i = 0; i < before.count; i++) {
    responsibilitiesInto(evaluator, before.points, i * d, responsibilities, 0)
    // each kept row is one observation, whatever its weight
    addPoint(own, after.points, i * dAfter, responsibilities, 0, 1)
    addPoint(leftover, map.leftovers, i * dAfter, responsibilities, 0, 1)
  }
  const out = emptyStatistics('full', k, dAfter)
  for (let j = 0; j < k; j++) {
    const prior = mappedComponent(statistics, j, map, takeComponents(leftover, [j]))
    scaleTo(prior, PRIOR_ROWS + dAfter)
    addComponent(out, j, prior, 0)
    addComponent(out, j, own, j)
    scaleComponent(out, j, masses[j]! / out.masses[j]!)
  }
  return out
}

interface AffineMap {
  /** dAfter × d, row-major. */
  readonly a: Float64Array
  readonly b: Float64Array
  /** count × dAfter, what is left over of each row, … */
  readonly leftovers: Float64Array
  /** … and of all, by weight, as LEFTOVER_ROWS rows. */
  readonly leftover: MixtureStatistics
}

function fitAffineMap(before: WeightedPoints, after: WeightedPoints, d: number, dAfter: number): AffineMap {
  const centre = weightedMean(before, d)
  const target = weightedMean(after, dAfter)
  const normal = new Float64Array(d * d)
  const cross = createMatrix(dAfter, d).data
  const z = new Float64Array(d)
  const y = new Float64Array(dAfter)
  let mass = 0
  const each = (visit: (weight: number) => void): void => {
    for (let i = 0; i < before.count; i++) {
      for (let c = 0; c < d; c++) z[c] = before.points[i * d + c]! - centre[c]!
      for (let c = 0; c < dAfter; c++) y[c] = after.points[i * dAfter + c]! - target[c]!
      visit(before.weights[i]!)
    }
  }
  each((weight) => {
    mass += weight
    for (let c = 0; c < d; c++) for (let e = 0; e < d; e++) normal[c * d + e]! += weight * z[c]! * z[e]!
    for (let r = 0; r < dAfter; r++) for (let c = 0; c < d; c++) cross[r * d + c]! += weight * y[r]! * z[c]!
  })
  let trace = 0
  for (let c = 0; c < d; c++) trace += normal[c * d + c]!
  const ridge = trace > 0 ? (RIDGE * trace) / d : 1
  for (let c = 0; c < d; c++) normal[c * d + c]! += ridge
  const factor = new Float64Array(d * d)
  const a = choleskyInto(normal, 0, d, factor, 0) ? solveRows(factor, cross, d, dAfter) : cross.fill(0)
  const leftovers = new Float64Array(before.count * dAfter)
  const leftover = emptyStatistics('full', 1, dAfter)
  let row = 0
  each((weight) => {
    const at = row++ * dAfter
    for (let r = 0; r < dAfter; r++) {
      leftovers[at + r] = y[r]!
      for (let c = 0; c < d; c++) leftovers[at + r]! -= a[r * d + c]! * z[c]!
    }
    addPoint(leftover, leftovers, at, CERTAIN, 0, weight)
  })
  if (mass > 0) scaleTo(leftover, LEFTOVER_ROWS)
  const b = target.map((value, r) => {
    let sum = value
    for (let c = 0; c < d; c++) sum -= a[r * d + c]! * centre[c]!
    return sum
  })
  return { a, b, leftovers, leftover }
}

/** The responsibility of an only component. */
const CERTAIN = Float64Array.of(1)

/** Rows of X with X·(LLᵀ) = rows. */
function solveRows(l: Float64Array, rows: Float64Array, d: number, count: number): Float64Array {
  const out = rows.slice()
  for (let r = 0; r < count; r++) {
    const at = r * d
    for (let i = 0; i < d; i++) {
      let sum = out[at + i]!
      for (let t = 0; t < i; t++) sum -= l[i * d + t]! * out[at + t]!
      out[at + i] = sum / l[i * d + i]!
    }
    for (let i = d - 1; i >= 0; i--) {
      let sum = out[at + i]!
      for (let t = i + 1; t < d; t++) sum -= l[t * d + i]! * out[at + t]!
      out[at + i] = sum / l[i * d + i]!
    }
  }
  return out
}

function weightedMean({ count, points, weights }: WeightedPoints, d: number): Float64Array {
  const mean = new Float64Array(d)
  let mass = 0
  for (let i = 0; i < count; i++) {
    mass += weights[i]!
    for (let c = 0; c < d; c++) mean[c]! += (weights[i]! / mass) * (points[i * d + c]! - mean[c]!)
  }
  return mean
}

/** Component j mapped, with mass 1. `leftover` is a single component with the map's residuals. */
function mappedComponent(
  { d, masses, means, scatters }: MixtureStatistics,
  j: number,
  { a, b }: AffineMap,
  leftover: MixtureStatistics,
): MixtureStatistics {
  const dAfter = leftover.d
  const rows = Math.max(leftover.masses[0]!, Number.MIN_VALUE)
  const out = emptyStatistics('full', 1, dAfter)
  const covariance = (r: number, c: number): number =>
    scatters[j * d * d + Math.max(r, c) * d + Math.min(r, c)]! / Math.max(masses[j]!, Number.MIN_VALUE)
  out.masses[0] = 1
  const half = new Float64Array(dAfter * d)
  for (let r = 0; r < dAfter; r++) {
    out.means[r] = b[r]! + leftover.means[r]!
    for (let c = 0; c < d; c++) {
      out.means[r]! += a[r * d + c]! * means[j * d + c]!
      for (let e = 0; e < d; e++) half[r * d + c]! += a[r * d + e]! * covariance(e, c)
    }
  }
  for (let r = 0; r < dAfter; r++) {
    for (let c = 0; c <= r; c++) {
      let sum = leftover.scatters[r * dAfter + c]! / rows
      for (let e = 0; e < d; e++) sum += half[r * d + e]! * a[c * d + e]!
      out.scatters[r * dAfter + c] = sum
    }
  }
  return out
}

/** The single component as that of `mass` rows. */
function scaleTo(single: MixtureStatistics, mass: number): void {
  scaleComponent(single, 0, mass / totalMass(single))
}

function scaleComponent({ d, masses, scatters }: MixtureStatistics, j: number, factor: number): void {
  masses[j] = masses[j]! * factor
  for (let at = j * d * d; at < (j + 1) * d * d; at++) scatters[at] = scatters[at]! * factor
}

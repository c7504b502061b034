/**
 * PackedMixture: a mixture laid out for evaluating its densities.
 *
 * For component j: log w_j + Σ log diag(W_j) − (d/2)·log 2π − ½‖W_j(z − µ_j)‖², W_j the stored lower-triangular
 * factor of the precision. The first three terms do not depend on z and are summed once. d is small, so loops
 * over it are mostly overhead: components go four at a time instead, their means and lower triangles
 * interleaved, the last group filled up with zeros. Each component still sums in index order, so its value
 * does not depend on its neighbours, nor a point's on where the point stands.
 */
import { log } from '@oddflow/core'
import type { MixtureModel } from './model.js'

export interface PackedMixture {
  readonly k: number
  readonly d: number
  /** Length k: log w_j + Σ log diag(W_j) − (d/2)·log 2π. */
  readonly logNormalisers: Float64Array
  /** ⌈k/4⌉ groups of d × 4. */
  readonly means: Float64Array
  /** ⌈k/4⌉ groups of d(d + 1)/2 × 4: rows of the lower triangles, left to right. */
  readonly factors: Float64Array
  /** Scratch of d × 4 differences z − µ. */
  readonly differences: Float64Array
}

/** Components that are interleaved. */
export const MIXTURE_GROUP = 4

const GROUP = MIXTURE_GROUP
const LOG_2_PI = log(2 * Math.PI)

export function packMixture({ weights, means, precisionCholesky }: MixtureModel): PackedMixture {
  const k = weights.length
  const d = means.cols
  const triangle = (d * (d + 1)) / 2
  const groups = Math.ceil(k / GROUP)
  const logNormalisers = new Float64Array(k)
  const packedMeans = new Float64Array(groups * d * GROUP)
  const factors = new Float64Array(groups * triangle * GROUP)
  for (let j = 0; j < k; j++) {
    const group = Math.floor(j / GROUP)
    const lane = j % GROUP
    let sum = log(weights[j]!) - 0.5 * d * LOG_2_PI
    let at = group * triangle * GROUP + lane
    for (let i = 0; i < d; i++) {
      packedMeans[(group * d + i) * GROUP + lane] = means.data[j * d + i]!
      for (let t = 0; t <= i; t++, at += GROUP) factors[at] = precisionCholesky[(j * d + i) * d + t]!
      sum += log(precisionCholesky[(j * d + i) * d + i]!)
    }
    logNormalisers[j] = sum
  }
  return { k, d, logNormalisers, means: packedMeans, factors, differences: new Float64Array(d * GROUP) }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)), j < k, for the point z of d numbers at `start`. */
export function componentLogDensitiesInto(
  { k, d, logNormalisers, means, factors, differences }: PackedMixture,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  let m = 0
  let f = 0
  for (let j = 0; j < k; j += GROUP) {
    for (let i = 0, at = 0; i < d; i++, at += GROUP, m += GROUP) {
      const z = point[start + i]!
      differences[at] = z - means[m]!
      differences[at + 1] = z - means[m + 1]!
      differences[at + 2] = z - means[m + 2]!
      differences[at + 3] = z - means[m + 3]!
    }
    let q0 = 0
    let q1 = 0
    let q2 = 0
    let q3 = 0
    for (let i = 0; i < d; i++) {
      const end = (i + 1) * GROUP
      let y0 = 0
      let y1 = 0
      let y2 = 0
      let y3 = 0
      for (let at = 0; at < end; at += GROUP, f += GROUP) {
        y0 += factors[f]! * differences[at]!
        y1 += factors[f + 1]! * differences[at + 1]!
        y2 += factors[f + 2]! * differences[at + 2]!
        y3 += factors[f + 3]! * differences[at + 3]!
      }
      q0 += y0 * y0
      q1 += y1 * y1
      q2 += y2 * y2
      q3 += y3 * y3
    }
    const o = outStart + j
    out[o] = logNormalisers[j]! - 0.5 * q0
    if (j + 1 < k) out[o + 1] = logNormalisers[j + 1]! - 0.5 * q1
    if (j + 2 < k) out[o + 2] = logNormalisers[j + 2]! - 0.5 * q2
    if (j + 3 < k) out[o + 3] = logNormalisers[j + 3]! - 0.5 * q3
  }
}

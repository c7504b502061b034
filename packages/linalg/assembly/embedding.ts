/**
 * All that is done for a tile of rows that is embedded, in one call: distances, the nearest landmark, exp,
 * projection, and for log-densities the mixture's terms and their log-sum-exp but for the log. A call from
 * JavaScript costs ten to twenty nanoseconds, as much as some of the passes where there is one row.
 *
 * Where everything stands, the caller writes once into a Plan in the memory: a number of float64 and words of 32
 * bits in this order (src/simd/simd-kernels.ts has their names). Addresses are bytes.
 */
import { squaredDistancesF32, squaredDistancesF64 } from './distances'
import { expScaledF32, expScaledF64 } from './exponentials'
import { keepTermsF64, mixtureTermsF64, sumTermsF64 } from './mixture'
import { nearestF32, nearestF64, projectF64 } from './sums'

@unmanaged
class Plan {
  /** −1/h². */
  factor: f64
  /** The rows, as the distance kernels take them. */
  x: usize
  /** The same rows in float64, one after the other; only for the nearest of float32. */
  exact: usize
  landmarks: usize
  panels: i32
  dimension: i32
  /** Lanes of all panels. */
  stride: i32
  /** Scratch for distances of float32. */
  distances: usize
  kernel: usize
  projection: usize
  /** Landmarks. */
  m: i32
  /** Outputs, filled up. */
  width: i32
  z: usize
  /** Of each landmark, for the nearest. */
  weights: usize
  nearest: usize
  means: usize
  factors: usize
  logNormalisers: usize
  /** Of four components. */
  groups: i32
  /** Outputs. */
  d: i32
  /** Components. */
  k: i32
  differences: usize
  terms: usize
  largest: usize
  /** Words for the rows' ends among the terms that are kept. */
  ends: usize
  sums: usize
}

/** Kernel rows, projected, at z; with `nearest` also those, at nearest. */
export function embedF64(plan: usize, rows: i32, nearest: bool): void {
  const p = changetype<Plan>(plan)
  const stride = p.stride
  const kernel = p.kernel
  const m = p.m
  squaredDistancesF64(p.x, rows, p.landmarks, p.panels, p.dimension, kernel, stride)
  if (nearest) nearestF64(kernel, rows, stride, m, p.weights, p.nearest)
  expScaledF64(kernel, rows * stride, p.factor)
  projectF64(kernel, rows, stride, p.projection, m, p.width, p.z)
}

export function embedF32(plan: usize, rows: i32, nearest: bool): void {
  const p = changetype<Plan>(plan)
  const stride = p.stride
  const distances = p.distances
  const kernel = p.kernel
  const m = p.m
  squaredDistancesF32(p.x, rows, p.landmarks, p.panels, p.dimension, distances, stride)
  if (nearest) {
    nearestF32(distances, rows, stride, m, p.exact, p.landmarks, p.dimension, p.weights, p.nearest)
  }
  expScaledF32(distances, rows * stride, f32(p.factor), kernel)
  projectF64(kernel, rows, stride, p.projection, m, p.width, p.z)
}

/** After `embed…`: the largest term of each row at largest, and Σ exp(term − largest) at sums. */
function mixtureSumsF64(plan: usize, rows: i32): void {
  const p = changetype<Plan>(plan)
  const groups = p.groups
  const terms = p.terms
  mixtureTermsF64(p.z, rows, p.width, p.means, p.factors, p.logNormalisers, groups, p.d, p.differences, terms)
  const kept = keepTermsF64(terms, rows, groups << 2, p.k, p.largest, p.ends)
  expScaledF64(terms, (kept + 3) & ~3, 1)
  sumTermsF64(terms, rows, p.ends, p.sums)
}

export function embedAndSumF64(plan: usize, rows: i32, nearest: bool): void {
  embedF64(plan, rows, nearest)
  mixtureSumsF64(plan, rows)
}

export function embedAndSumF32(plan: usize, rows: i32, nearest: bool): void {
  embedF32(plan, rows, nearest)
  mixtureSumsF64(plan, rows)
}

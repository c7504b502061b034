/**
 * EmbeddingKernel: computes kernel row, projection and, with a mixture, log-density of each embedded row; it owns its
 * scratch memory.
 *
 * There are two implementations with equal results: SIMD kernels where available, and typed arrays. The bits are equal
 * because SIMD lanes are landmarks, outputs or components, never terms of one sum.
 */

import { log } from '@oddflow/core'
import {
  EMBEDDING_PLAN_NUMBERS,
  type EmbeddingPlan,
  exponentFactor,
  gaussianKernelRows,
  gaussianKernelRowsFloat32,
  logSumExp,
  MemoryLayout,
  matrixTimesVector,
  type NearestDistances,
  nearestOfRows,
  PANEL_LANES_F32,
  PANEL_LANES_F64,
  type Precision,
  packPanels,
  packRows,
  packRowsFloat32,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
  squaredDistances,
  toFloat32Into,
  writeEmbeddingPlan,
} from '@oddflow/linalg'
import { componentLogDensitiesInto, MIXTURE_GROUP, packMixture } from '../mixture/gaussian-mixture.js'
import type { EmbeddingModel, MixtureModel } from '../model.js'

/** Throws ArgumentError if the bandwidth is out of the precision's range. */
export function createEmbeddingKernel(
  embedding: EmbeddingModel,
  options: EmbeddingKernelOptions,
): EmbeddingKernel {
  const kernels = options.simd === false ? null : simdKernels()
  return kernels === null
    ? createTypedEmbeddingKernel(embedding, options)
    : createSimdEmbeddingKernel(kernels, embedding, options, () =>
        createTypedEmbeddingKernel(embedding, options),
      )
}

/** Rows per tile: enough for the kernels that take several, few enough for the cache. */
export const EMBEDDING_TILE_ROWS = 8

export interface EmbeddingKernelOptions {
  readonly precision: Precision
  /** Over the embedding's d dimensions; for `logDensities`. */
  readonly mixture?: MixtureModel
  /** Length m, positive; for `nearest`. */
  readonly nearestWeights?: Float64Array
  /** False: uses typed arrays even if SIMD is available. Default true. */
  readonly simd?: boolean
}

interface EmbeddingKernel {
  /** d. */
  readonly dimensions: number
  /**
   * out[outStart + i · d …] = φ′ of `count` scaled rows from element `start` of `rows` on, at most EMBEDDING_TILE_ROWS.
   * Writes weights[j] · ‖x − landmark_j‖² of each row's nearest landmark to `nearest`, always in float64: the last bit
   * may decide which landmark is nearest.
   */
  embed(
    rows: Float64Array,
    start: number,
    count: number,
    out: Float64Array,
    outStart: number,
    nearest?: Float64Array,
  ): void
  /** As `embed`, with the mixture's log-density of each row at out[outStart + i]. */
  logDensities(
    rows: Float64Array,
    start: number,
    count: number,
    out: Float64Array,
    outStart: number,
    nearest?: Float64Array,
  ): void
}

/** For kernels made without a mixture: a caller's error. */
function refuseDensities(): never {
  throw new TypeError('this embedding has no mixture')
}

/**
 * EmbeddingKernel on the SIMD kernels of linalg: landmarks in panels, the projection transposed and padded to an even
 * number of outputs, the mixture in groups of four components, padded with components of weight 0. A tile of rows
 * passes through all steps in one call; only log is computed in core.
 */

function createSimdEmbeddingKernel(
  kernels: SimdKernels,
  embedding: EmbeddingModel,
  { precision, mixture, nearestWeights }: EmbeddingKernelOptions,
  createFallback: () => EmbeddingKernel,
): EmbeddingKernel {
  const { run } = kernels
  const { landmarks, projection } = embedding
  const { rows: m, cols } = landmarks
  const d = projection.rows
  const isSingle = precision === 'f32'
  const packed = mixture === undefined ? null : packMixture(mixture)
  const k = packed?.k ?? 0
  const { plan, planAt, bytes } = layOutPlan(embedding, precision, packed)
  const { width } = plan
  const padded = plan.groups * MIXTURE_GROUP
  const lanes = isSingle ? PANEL_LANES_F32 : PANEL_LANES_F64
  const program: SimdProgram = {
    bytes,
    load(memory) {
      const { f64, f32 } = memory
      writeEmbeddingPlan(plan, memory, planAt)
      if (isSingle) packPanels(landmarks.data, 0, m, cols, lanes, f32, plan.landmarks / 4)
      else packPanels(landmarks.data, 0, m, cols, lanes, f64, plan.landmarks / 8)
      for (let j = 0; j < m; j++) {
        const to = plan.projection / 8 + j * width
        for (let i = 0; i < width; i++) f64[to + i] = i < d ? projection.data[i * m + j]! : 0
      }
      if (nearestWeights !== undefined) f64.set(nearestWeights, plan.weights / 8)
      if (packed === null) return
      f64.set(packed.means, plan.means / 8)
      f64.set(packed.factors, plan.factors / 8)
      for (let j = 0; j < padded; j++) {
        f64[plan.logNormalisers / 8 + j] = j < k ? packed.logNormalisers[j]! : Number.NEGATIVE_INFINITY
      }
    },
  }
  const embedTile = isSingle ? run.embedF32 : run.embedF64
  const embedAndSumTile = isSingle ? run.embedAndSumF32 : run.embedAndSumF64
  let fallback: EmbeddingKernel | undefined

  /** Runs a tile on the kernels; null if their memory is refused. */
  function runTile(
    kernel: typeof embedTile,
    rows: Float64Array,
    start: number,
    count: number,
    nearest: Float64Array | undefined,
  ): Float64Array | null {
    const memory = kernels.enter(program)
    if (memory === null) return null
    const { f64, f32 } = memory
    if (isSingle) packRowsFloat32(rows, start, count, cols, f32, plan.x / 4)
    else packRows(rows, start, count, cols, f64, plan.x / 8)
    if (isSingle && nearest !== undefined) {
      const exactAt = plan.exact / 8
      for (let i = 0, n = count * cols; i < n; i++) f64[exactAt + i] = rows[start + i]!
    }
    kernel(planAt, count, nearest === undefined ? 0 : 1)
    if (nearest !== undefined) for (let r = 0; r < count; r++) nearest[r] = f64[plan.nearest / 8 + r]!
    return f64
  }

  return {
    dimensions: d,
    embed(rows, start, count, out, outStart, nearest) {
      const f64 = runTile(embedTile, rows, start, count, nearest)
      if (f64 === null) {
        fallback ??= createFallback()
        fallback.embed(rows, start, count, out, outStart, nearest)
        return
      }
      const zAt = plan.z / 8
      for (let r = 0; r < count; r++) {
        for (let i = 0; i < d; i++) out[outStart + r * d + i] = f64[zAt + r * width + i]!
      }
    },
    logDensities(rows, start, count, out, outStart, nearest) {
      if (packed === null) refuseDensities()
      const f64 = runTile(embedAndSumTile, rows, start, count, nearest)
      if (f64 === null) {
        fallback ??= createFallback()
        fallback.logDensities(rows, start, count, out, outStart, nearest)
        return
      }
      for (let r = 0; r < count; r++) {
        const largest = f64[plan.largest / 8 + r]!
        out[outStart + r] = Number.isFinite(largest) ? largest + log(f64[plan.sums / 8 + r]!) : largest
      }
    },
  }
}

/** Sizes and addresses of an embedding in the kernels' memory. */
function layOutPlan(
  { landmarks, projection, bandwidth }: EmbeddingModel,
  precision: Precision,
  packed: ReturnType<typeof packMixture> | null,
): { readonly plan: EmbeddingPlan; readonly planAt: number; readonly bytes: number } {
  const { rows: m, cols } = landmarks
  const d = projection.rows
  const isSingle = precision === 'f32'
  const lanes = isSingle ? PANEL_LANES_F32 : PANEL_LANES_F64
  const panels = panelCount(m, lanes)
  const stride = panels * lanes
  const width = d + (d & 1)
  const k = packed?.k ?? 0
  const groups = Math.ceil(k / MIXTURE_GROUP)
  const padded = groups * MIXTURE_GROUP
  const layout = new MemoryLayout()
  const tile = EMBEDDING_TILE_ROWS
  const planAt = layout.float64(EMBEDDING_PLAN_NUMBERS)
  const plan: EmbeddingPlan = {
    factor: exponentFactor(bandwidth, precision),
    x: isSingle ? layout.float32(tile * cols) : layout.float64(tile * cols),
    exact: isSingle ? layout.float64(tile * cols) : 0,
    landmarks: isSingle ? layout.float32(stride * cols) : layout.float64(stride * cols),
    panels,
    dimension: cols,
    stride,
    distances: isSingle ? layout.float32(tile * stride) : 0,
    kernel: layout.float64(tile * stride),
    projection: layout.float64(m * width),
    m,
    width,
    z: layout.float64(tile * width),
    weights: layout.float64(m),
    nearest: layout.float64(tile),
    means: layout.float64(groups * d * MIXTURE_GROUP),
    factors: layout.float64(packed?.factors.length ?? 0),
    logNormalisers: layout.float64(padded),
    groups,
    d,
    k,
    differences: layout.float64(2 * d * MIXTURE_GROUP),
    terms: layout.float64(tile * padded),
    largest: layout.float64(tile),
    ends: layout.float32(tile),
    sums: layout.float64(tile),
  }
  return { plan, planAt, bytes: layout.bytes }
}

/** EmbeddingKernel on typed arrays, for machines without SIMD and as the reference for its bits. */

function createTypedEmbeddingKernel(
  { landmarks, projection, bandwidth }: EmbeddingModel,
  { precision, mixture, nearestWeights }: EmbeddingKernelOptions,
): EmbeddingKernel {
  const { rows: m, cols } = landmarks
  const d = projection.rows
  const factor = exponentFactor(bandwidth, precision)
  const kernelRows = new Float64Array(EMBEDDING_TILE_ROWS * m)
  const nearestValues = new Float64Array(EMBEDDING_TILE_ROWS)
  const nearestDistances: NearestDistances | undefined =
    nearestWeights === undefined ? undefined : { weights: nearestWeights, values: nearestValues }
  const squares = new Float64Array(precision === 'f32' ? EMBEDDING_TILE_ROWS * m : 0)
  const single =
    precision === 'f64'
      ? null
      : {
          landmarks: Float32Array.from(landmarks.data),
          rows: new Float32Array(EMBEDDING_TILE_ROWS * cols),
          distances: new Float32Array(m),
        }
  const embed: EmbeddingKernel['embed'] = (rows, start, count, out, outStart, nearest) => {
    const wanted = nearest === undefined ? undefined : nearestDistances
    if (single === null) {
      gaussianKernelRows(rows, start, count, landmarks.data, 0, m, cols, factor, kernelRows, wanted)
    } else {
      toFloat32Into(rows, start, count * cols, single.rows, 0)
      gaussianKernelRowsFloat32(
        single.rows,
        count,
        single.landmarks,
        0,
        m,
        cols,
        factor,
        single.distances,
        kernelRows,
      )
      if (wanted !== undefined) {
        for (let r = 0; r < count; r++) {
          squaredDistances(rows, start + r * cols, landmarks.data, 0, m, cols, squares, r * m)
        }
        nearestOfRows(squares, count, m, wanted)
      }
    }
    if (nearest !== undefined) for (let r = 0; r < count; r++) nearest[r] = nearestValues[r]!
    for (let r = 0; r < count; r++) {
      matrixTimesVector(projection.data, d, m, kernelRows, r * m, out, outStart + r * d)
    }
  }
  if (mixture === undefined) return { dimensions: d, embed, logDensities: refuseDensities }
  const packed = packMixture(mixture)
  const embedded = new Float64Array(EMBEDDING_TILE_ROWS * d)
  const terms = new Float64Array(packed.k)
  return {
    dimensions: d,
    embed,
    logDensities(rows, start, count, out, outStart, nearest) {
      embed(rows, start, count, embedded, 0, nearest)
      for (let r = 0; r < count; r++) {
        componentLogDensitiesInto(packed, embedded, r * d, terms, 0)
        out[outStart + r] = logSumExp(terms, 0, packed.k)
      }
    },
  }
}

/**
 * EmbeddingKernel on the SIMD kernels of linalg.
 *
 * Landmarks stand in panels, the projection transposed and filled up to an even number of outputs, the mixture in
 * groups of four components filled up with components of weight 0 (log-normaliser −∞). A tile of rows goes
 * through all passes in one call, inside the kernels' memory; log alone is left to core. When the memory cannot be had, the
 * typed-array kernel takes over.
 */
import { log } from '@oddflow/core'
import {
  EMBEDDING_PLAN_NUMBERS,
  type EmbeddingPlan,
  exponentFactor,
  type KernelMemory,
  MemoryLayout,
  PANEL_LANES_F32,
  PANEL_LANES_F64,
  packPanels,
  packRows,
  packRowsFloat32,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  writeEmbeddingPlan,
} from '@oddflow/linalg'
import type { EmbeddingModel } from '../model.js'
import { MIXTURE_GROUP, packMixture } from '../packed-mixture.js'
import {
  EMBEDDING_TILE_ROWS,
  type EmbeddingKernel,
  type EmbeddingKernelOptions,
  refuseDensities,
} from './embedding-kernel.js'

export function createSimdEmbeddingKernel(
  kernels: SimdKernels,
  { landmarks, projection, bandwidth }: EmbeddingModel,
  { precision, mixture, nearestWeights }: EmbeddingKernelOptions,
  createFallback: () => EmbeddingKernel,
): EmbeddingKernel {
  const { run } = kernels
  const { rows: m, cols } = landmarks
  const d = projection.rows
  const isSingle = precision === 'f32'
  const lanes = isSingle ? PANEL_LANES_F32 : PANEL_LANES_F64
  const panels = panelCount(m, lanes)
  const stride = panels * lanes
  const width = d + (d & 1)
  const packed = mixture === undefined ? null : packMixture(mixture)
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
  const program: SimdProgram = {
    bytes: layout.bytes,
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
  const xAt = plan.x / (isSingle ? 4 : 8)
  const exactAt = plan.exact / 8
  const zAt = plan.z / 8
  const nearestAt = plan.nearest / 8
  const largestAt = plan.largest / 8
  const sumsAt = plan.sums / 8
  const embedTile = isSingle ? run.embedF32 : run.embedF64
  const embedAndSumTile = isSingle ? run.embedAndSumF32 : run.embedAndSumF64
  let fallback: EmbeddingKernel | undefined

  function putRows(
    { f64, f32 }: KernelMemory,
    rows: Float64Array,
    start: number,
    count: number,
    nearest: Float64Array | undefined,
  ): void {
    if (isSingle) {
      packRowsFloat32(rows, start, count, cols, f32, xAt)
      if (nearest === undefined) return
      for (let i = 0, n = count * cols; i < n; i++) f64[exactAt + i] = rows[start + i]!
    } else {
      packRows(rows, start, count, cols, f64, xAt)
    }
  }

  return {
    dimensions: d,
    embed(rows, start, count, out, outStart, nearest) {
      const memory = kernels.enter(program)
      if (memory === null) {
        fallback ??= createFallback()
        fallback.embed(rows, start, count, out, outStart, nearest)
        return
      }
      putRows(memory, rows, start, count, nearest)
      embedTile(planAt, count, nearest === undefined ? 0 : 1)
      const { f64 } = memory
      for (let r = 0; r < count; r++) {
        for (let i = 0; i < d; i++) out[outStart + r * d + i] = f64[zAt + r * width + i]!
      }
      if (nearest !== undefined) for (let r = 0; r < count; r++) nearest[r] = f64[nearestAt + r]!
    },
    logDensities:
      packed === null
        ? refuseDensities
        : (rows, start, count, out, outStart, nearest) => {
            const memory = kernels.enter(program)
            if (memory === null) {
              fallback ??= createFallback()
              fallback.logDensities(rows, start, count, out, outStart, nearest)
              return
            }
            putRows(memory, rows, start, count, nearest)
            embedAndSumTile(planAt, count, nearest === undefined ? 0 : 1)
            const { f64 } = memory
            for (let r = 0; r < count; r++) {
              const largest = f64[largestAt + r]!
              out[outStart + r] = Number.isFinite(largest) ? largest + log(f64[sumsAt + r]!) : largest
            }
            if (nearest !== undefined) for (let r = 0; r < count; r++) nearest[r] = f64[nearestAt + r]!
          },
  }
}

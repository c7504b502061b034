/**
 * EmbeddingKernel on the SIMD kernels of linalg.
 *
 * Landmarks stand in panels, the projection transposed and filled up to an even number of outputs, the mixture in
 * groups of four components filled up with components of weight 0 (log-normaliser −∞). A tile of rows goes
 * through all passes inside the kernels' memory; log alone is left to core. When the memory cannot be had, the
 * typed-array kernel takes over.
 */
import { log } from '@oddflow/core'
import {
  exponentFactor,
  type KernelMemory,
  MemoryLayout,
  PANEL_LANES_F32,
  PANEL_LANES_F64,
  packPanels,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  toFloat32Into,
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
  const factor = exponentFactor(bandwidth, precision)
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
  const xAt = isSingle ? layout.float32(tile * cols) : layout.float64(tile * cols)
  const panelsAt = isSingle ? layout.float32(stride * cols) : layout.float64(stride * cols)
  const exactAt = isSingle ? layout.float64(tile * cols) : 0
  const distancesAt = isSingle ? layout.float32(tile * stride) : 0
  const kernelAt = layout.float64(tile * stride)
  const projectionAt = layout.float64(m * width)
  const weightsAt = layout.float64(m)
  const nearestAt = layout.float64(tile)
  const zAt = layout.float64(tile * width)
  const meansAt = layout.float64(groups * d * MIXTURE_GROUP)
  const factorsAt = layout.float64(packed?.factors.length ?? 0)
  const normalisersAt = layout.float64(padded)
  const differencesAt = layout.float64(2 * d * MIXTURE_GROUP)
  const termsAt = layout.float64(tile * padded)
  const largestAt = layout.float64(tile)
  const sumsAt = layout.float64(tile)

  const program: SimdProgram = {
    bytes: layout.bytes,
    load({ f64, f32 }) {
      if (isSingle) packPanels(landmarks.data, 0, m, cols, lanes, f32, panelsAt / 4)
      else packPanels(landmarks.data, 0, m, cols, lanes, f64, panelsAt / 8)
      for (let j = 0; j < m; j++) {
        const to = projectionAt / 8 + j * width
        for (let i = 0; i < width; i++) f64[to + i] = i < d ? projection.data[i * m + j]! : 0
      }
      if (nearestWeights !== undefined) f64.set(nearestWeights, weightsAt / 8)
      if (packed === null) return
      f64.set(packed.means, meansAt / 8)
      f64.set(packed.factors, factorsAt / 8)
      for (let j = 0; j < padded; j++) {
        f64[normalisersAt / 8 + j] = j < k ? packed.logNormalisers[j]! : Number.NEGATIVE_INFINITY
      }
    },
  }
  let fallback: EmbeddingKernel | undefined

  /** Leaves kernel rows, projected, in the memory. */
  function project(
    { f64, f32 }: KernelMemory,
    rows: Float64Array,
    start: number,
    count: number,
    nearest: Float64Array | undefined,
  ): void {
    const length = count * cols
    if (isSingle) {
      toFloat32Into(rows, start, length, f32, xAt / 4)
      run.squaredDistancesF32(xAt, count, panelsAt, panels, cols, distancesAt, stride)
      if (nearest !== undefined) {
        for (let i = 0, x = exactAt / 8; i < length; i++) f64[x + i] = rows[start + i]!
        run.nearestF32(distancesAt, count, stride, m, exactAt, panelsAt, cols, weightsAt, nearestAt)
      }
      run.expScaledF32(distancesAt, count * stride, factor, kernelAt)
    } else {
      const x = xAt / 8
      for (let i = 0; i < length; i++) f64[x + i] = rows[start + i]!
      run.squaredDistancesF64(xAt, count, panelsAt, panels, cols, kernelAt, stride)
      if (nearest !== undefined) run.nearestF64(kernelAt, count, stride, m, weightsAt, nearestAt)
      run.expScaledF64(kernelAt, count * stride, factor)
    }
    if (nearest !== undefined) for (let r = 0; r < count; r++) nearest[r] = f64[nearestAt / 8 + r]!
    run.projectF64(kernelAt, count, stride, projectionAt, m, width, zAt)
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
      project(memory, rows, start, count, nearest)
      for (let r = 0; r < count; r++) {
        for (let i = 0; i < d; i++) out[outStart + r * d + i] = memory.f64[zAt / 8 + r * width + i]!
      }
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
            project(memory, rows, start, count, nearest)
            run.mixtureTermsF64(
              zAt,
              count,
              width,
              meansAt,
              factorsAt,
              normalisersAt,
              groups,
              d,
              differencesAt,
              termsAt,
            )
            run.subtractLargestF64(termsAt, count, padded, largestAt)
            run.expScaledF64(termsAt, count * padded, 1)
            run.rowSumsF64(termsAt, count, padded, k, sumsAt)
            const { f64 } = memory
            for (let r = 0; r < count; r++) {
              const largest = f64[largestAt / 8 + r]!
              out[outStart + r] = Number.isFinite(largest) ? largest + log(f64[sumsAt / 8 + r]!) : largest
            }
          },
  }
}

/** Which path an EmbeddingKernel takes. */
import { simdKernels } from '@oddflow/linalg'
import type { EmbeddingModel } from '../model.js'
import type { EmbeddingKernel, EmbeddingKernelOptions } from './embedding-kernel.js'
import { createSimdEmbeddingKernel } from './simd.js'
import { createTypedEmbeddingKernel } from './typed-arrays.js'

/** Throws ArgumentError when the bandwidth is out of the precision's range. */
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

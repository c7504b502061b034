/**
 * The hot kernels in WebAssembly SIMD, written in AssemblyScript: this folder is compiled by
 * tools/wasm/build-module.mjs into src/simd/module-bytes.ts. Nothing here allocates or keeps state; src/simd/simd-kernels.ts lays out the memory.
 */
export { squaredDistancesF32, squaredDistancesF64 } from './distances'
export { embedAndSumF32, embedAndSumF64, embedF32, embedF64 } from './embedding'
export { expScaledF32, expScaledF64 } from './exponentials'
export { keepTermsF64, mixtureTermsF64, sumTermsF64 } from './mixture'
export { nearestF32, nearestF64, projectF64, roundToF32, weightedSumsF64 } from './sums'

/** Constants of the kernels lie below this byte; what is above belongs to the caller. */
export const heapBase: usize = __heap_base

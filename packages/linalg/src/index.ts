export {
  choleskyInto,
  invertLowerInPlace,
  logSumExp,
  lowerTransposeTimesSelf,
  type SymmetricEigen,
  symmetricEigen,
} from './decompositions.js'
export {
  expScaledFloat32,
  gaussianKernel,
  gaussianKernelRows,
  gaussianKernelRowsFloat32,
  kernelExponentFactor,
  type NearestDistances,
  nearestOfRows,
} from './gaussian-kernel.js'
export {
  createKdTree,
  type KdTree,
  type NeighbourRadii,
  neighbourRadii,
  squaredDistanceToBox,
  squaredGap,
  squaredReach,
} from './nearest-neighbours.js'
export {
  equalPairShare,
  MAXIMUM_PAIR_ROWS,
  type PairDistanceQuantiles,
  pairDistanceQuantiles,
  type QuantileRule,
  selectValue,
} from './pair-distance-quantiles.js'
export { exponentFactor, LARGEST_FLOAT32, type Precision, toFloat32, toFloat32Into } from './precision.js'
export {
  EMBEDDING_PLAN_NUMBERS,
  type EmbeddingPlan,
  type KernelFunctions,
  type KernelMemory,
  MAXIMUM_BYTES,
  MemoryLayout,
  PANEL_LANES_F32,
  PANEL_LANES_F64,
  packPanels,
  packRows,
  packRowsFloat32,
  panelCount,
  prepareSimdKernels,
  RESERVED_BYTES,
  ROW_GROUP,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
  writeEmbeddingPlan,
} from './simd/simd-kernels.js'
export {
  DISTANCE_TILE_ROWS,
  matrixTimesVector,
  multiply,
  squaredDistance,
  squaredDistances,
  squaredDistancesOfFour,
  squaredDistancesOfRows,
} from './squared-distances.js'

export { crc32, decodeBase64, halfSipHash13 } from './bytes.js'
export { checkFeatureContract, checkSameContract, explicitContract } from './check-feature-contract.js'
export {
  type CsvRows,
  decodeCsvRows,
  encodeCsvRows,
} from './csv.js'
export {
  ArgumentError,
  ContractMismatchError,
  DataError,
  FormatError,
  OddFlowError,
  type OddFlowErrorPlace,
  plural,
  TOO_MANY_FILES,
} from './errors.js'
export { exp, expInPlace, log } from './exp-log.js'
export {
  type ColumnFacts,
  categoryColumn,
  columnLabel,
  featureColumns,
  hasFixedColumns,
  isFeatureLabel,
  minimumScale,
  summaryFacts,
} from './feature-columns.js'
export {
  checkOnePacketRule,
  connectionRules,
  contractProtocols,
  DEFAULT_FLOW_PROTOCOLS,
  type Decapsulation,
  endsOnClose,
  type FeatureContract,
  FLOW_PROTOCOLS,
  FLOW_SUMMARY_DIMENSION,
  type FlowContract,
  type FlowFeatureSet,
  type FlowKeyRule,
  type FlowProtocol,
  type FlowRules,
  type FlowSummaryContract,
  type GatheringRules,
  type IatUnit,
  MAXIMUM_DIMENSION,
  MAXIMUM_ONE_PACKET_SERVICES,
  type OnePacketRule,
  type PacketView,
  packetRules,
  packetView,
  type RowsContract,
  type SizeMeasure,
  type TruncationMode,
} from './feature-contract.js'
export { parseStrictJson, type StrictJson } from './json.js'
export {
  asMatrix,
  checkFinite,
  concatRows,
  createMatrix,
  type Matrix,
  type MatrixLike,
  matrixFromRows,
  matrixOf,
  takeRows,
} from './matrix.js'
export {
  decodeNpy,
  decodeNpyMatrix,
  encodeNpy,
  NPY_HEADER_BYTES,
  type NpyArray,
} from './npy.js'
export {
  type FeatureColumn,
  type FeatureSetOption,
  FLOW_FEATURE_SETS,
  FLOW_STATISTICS,
  featureDimension,
  HEADER_BITS_PER_PACKET,
  HEADER_FLAG_COUNTS,
  type HeaderBitsContract,
  type IatContract,
  type IatSizeContract,
  MAXIMUM_PACKETS_KEPT,
  MAXIMUM_SAMP_WINDOWS,
  maximumPacketsPerFlow,
  PACKET_FEATURE_SETS,
  type PacketContract,
  type PacketFeatureSet,
  packetFeatureSet,
  type SampContract,
  type SizeContract,
  type StatsHeaderContract,
} from './packet-feature-sets.js'
export { createRng, type Rng, sampleWithoutReplacement, shuffleInPlace } from './rng.js'
export {
  decodeSafetensors,
  encodeSafetensors,
  type Safetensors,
  type Tensor,
  type TensorDtype,
} from './safetensors.js'

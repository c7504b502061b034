/** What both entries of the library export beside their functions: errors and types. */
export {
  ArgumentError,
  ContractMismatchError,
  DataError,
  FormatError,
  type Matrix,
  type MatrixLike,
  OddFlowError,
} from '@oddflow/core'
export type { Flow, FlowEnd } from './flow.js'
export type { FitOptions, Model } from './model.js'
export type {
  BlobLike,
  CaptureBytes,
  Flows,
  Place,
  ReadFlowsOptions,
  WebStream,
} from './read-flows.js'
export type { Rows } from './rows.js'

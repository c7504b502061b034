/** What both entries of the library export: `fit`, errors and types. */
export {
  ArgumentError,
  ContractMismatchError,
  DataError,
  FormatError,
  type Matrix,
  type MatrixLike,
  OddFlowError,
} from '@oddflow/core'
export { type FitOptions, fit, type Model } from './model.js'
export type {
  BlobLike,
  CaptureBytes,
  Flows,
  Place,
  ReadFlowsOptions,
  WebStream,
} from './read-flows.js'
export type { Flow, FlowEnd, Rows } from './rows.js'

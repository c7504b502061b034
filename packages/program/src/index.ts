export * from './detection-limits.js'
export * from './explain-flow.js'
export {
  checkWritable,
  openScratchFolder,
  openWholeFile,
  type ReadFileOptions,
  readFileBounded,
  type ScratchFolder,
  type WholeFile,
  writeFileWhole,
} from './files.js'
export * from './fleet-models.js'
export * from './flow-judge.js'
export * from './made-attacks.js'
export {
  createMadeBatches,
  createPacketMaker,
  type MadeClock,
  type MadeEnd,
  type MadeFrame,
  type MadeSegment,
  type PacketMaker,
} from './made-packets.js'
export * from './messages.js'
export { parseBytes } from './messages.js'
export { limitNatsTransport, type NatsLimitOptions } from './nats-transport.js'
export {
  atEnd,
  createLineWriter,
  isRunning,
  type LineWriter,
  OutputClosed,
  reportFailure,
  stopOnSignals,
  stoppedExitCode,
} from './process.js'
export {
  type ModelFile,
  readModel,
  readModelFile,
  readPrivateKey,
  readPublicKey,
  signaturePath,
} from './read-model.js'
export type { CalibrationSplit } from './train-model.js'
export {
  createTrainingRows,
  FIT_STREAM,
  hashRows,
  originOf,
  splitTrainingSet,
  type TrainedModel,
  type TrainingRows,
  type TrainingSet,
  type TrainOptions,
  trainingSetOf,
  trainModel,
} from './train-model.js'
export * from './worker-pool.js'

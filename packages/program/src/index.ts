export {
  type DetectionLimit,
  type DetectionLimitOptions,
  type DetectionLimits,
  findDetectionLimits,
  LIMIT_TRIES,
  limitSizeText,
  REQUIRED_TRIES,
} from './detection-limits.js'
export {
  createFlowExplainer,
  type ExplainedFeature,
  type FlowExplainer,
  type FlowExplanation,
  type Rarity,
  rarityText,
  scoreRarity,
} from './explain-flow.js'
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
export {
  decodeModelState,
  decodeOffer,
  directGetSubject,
  encodeModelState,
  encodeOffer,
  type FleetTarget,
  type GatewayModelState,
  isCanary,
  isFleetName,
  LEAST_JUDGED_FLOWS,
  MAXIMUM_OFFER_BYTES,
  MODEL_STATES_BUCKET,
  MODELS_BUCKET,
  MOST_FALSE_ALARMS,
  type ModelManifest,
  type ModelOffer,
  type ModelStage,
  modelPermissions,
  modelStateSubject,
  modelSubject,
  offerSubject,
  readManifest,
  type SignedManifest,
  signManifest,
  targetText,
} from './fleet-models.js'
export {
  createDeviceNumbers,
  createFlowJudge,
  deviceKeyOf,
  type FlowJudge,
  isInNetwork,
  isResponderDevice,
  judgeWithoutRow,
  macText,
  type Network,
  PRIVATE_NETWORKS,
  parseNetwork,
  reportedBytes,
  type Verdict,
  type VerdictRule,
} from './flow-judge.js'
export {
  DEFAULT_SITE,
  MADE_ATTACKS,
  type MadeAttack,
  type MadeAttackName,
  type MadeHost,
  type MadeSite,
  type OpenConnection,
} from './made-attacks.js'
export {
  createMadeBatches,
  createPacketMaker,
  type MadeClock,
  type MadeEnd,
  type MadeFrame,
  type MadeSegment,
  type PacketMaker,
} from './made-packets.js'
export {
  createMessages,
  FileError,
  fileError,
  inFile,
  jsonLine,
  type Messages,
  oneLineErrors,
  printable,
  UsageError,
} from './messages.js'
export { limitNatsTransport, type NatsLimitOptions } from './nats-transport.js'
export { parseBytes } from './parse-bytes.js'
export {
  atEnd,
  createLineWriter,
  isRunning,
  type LineWriter,
  OutputClosed,
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
export { runInWorkers, serveJobs, type WorkerRun } from './worker-pool.js'

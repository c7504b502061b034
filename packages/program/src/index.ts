export { atEnd } from './at-end.js'
export type { CalibrationSplit } from './calibration-split.js'
export { oneLineErrors } from './command-line-errors.js'
export {
  type DetectionLimit,
  type DetectionLimitOptions,
  type DetectionLimits,
  findDetectionLimits,
  LIMIT_TRIES,
  REQUIRED_TRIES,
} from './detection-limits.js'
export { createDeviceNumbers, deviceKeyOf, isResponderDevice, macText } from './device-of.js'
export {
  createFlowExplainer,
  type ExplainedFeature,
  type FlowExplainer,
  type FlowExplanation,
} from './explain-flow.js'
export { FileError, fileError } from './file-error.js'
export {
  createFlowJudge,
  type FlowJudge,
  type Judgement,
  reportedBytes,
  type VerdictRule,
} from './flow-judge.js'
export { hashRows } from './hash-rows.js'
export { inFile } from './in-file.js'
export { isRunning } from './is-running.js'
export { isInNetwork, type Network, PRIVATE_NETWORKS, parseNetwork } from './local-networks.js'
export {
  DEFAULT_SITE,
  MADE_ATTACKS,
  type MadeAttack,
  type MadeAttackName,
  type MadeHost,
  type MadeSite,
  type OpenConnection,
} from './made-attacks.js'
export { createMadeBatches } from './made-batches.js'
export {
  createPacketMaker,
  type MadeClock,
  type MadeEnd,
  type MadeFrame,
  type MadeSegment,
  type PacketMaker,
} from './made-packets.js'
export { createMessages, type Messages } from './messages.js'
export { readPrivateKey, readPublicKey, signaturePath } from './model-signature.js'
export { parseBytes } from './parse-bytes.js'
export { jsonLine, printable } from './printable.js'
export { type Rarity, rarityText, scoreRarity } from './rarity.js'
export { type ReadFileOptions, readFileBounded } from './read-file.js'
export { type ModelFile, readModel, readModelFile } from './read-model.js'
export { openScratchFolder, type ScratchFolder } from './scratch-folder.js'
export { stopOnSignals, stoppedExitCode } from './signals.js'
export { createLineWriter, type LineWriter, OutputClosed } from './stdout.js'
export {
  FIT_STREAM,
  originOf,
  splitTrainingSet,
  type TrainedModel,
  type TrainingSet,
  type TrainOptions,
  trainModel,
} from './train-model.js'
export { createTrainingRows, trainingSetOf } from './training-set.js'
export { UsageError } from './usage-error.js'
export { openWholeFile, type WholeFile } from './whole-file.js'
export { runInWorkers, serveJobs, type WorkerRun } from './worker-pool.js'
export { checkWritable, writeFileWhole } from './write-file.js'

/**
 * MemoryPlan: what a ceiling on resident memory leaves for each part. Node with the program takes RUNTIME_BYTES (measured,
 * decision 0009), then come models, batches, queues and garbage; the rest goes to open flows, within bounds.
 */
import { UsageError } from '@oddflow/program'
import type { LearningSettings, ModelsSettings } from '../config/settings.js'
import { fleetOutput, OUTPUTS, type OutputSettings } from '../outputs/registry.js'

const MEBIBYTE = 1_048_576
const RUNTIME_BYTES = 96 * MEBIBYTE
const LEAST_FLOW_BYTES = 2 * MEBIBYTE
const MOST_FLOW_BYTES = 256 * MEBIBYTE

/** A training's process without the pages that it shares with the agent: 20 to 26 MiB (200 to 2,000 rows, measured). */
const TRAINING_BYTES = 28 * MEBIBYTE

/** The default ceiling is higher by as much where models are made; the rest of a training fits below it. */
export const MODELS_BYTES = 12 * MEBIBYTE

export const DEFAULT_MEMORY_LIMIT_BYTES = 128 * MEBIBYTE

export interface MemoryPlan {
  readonly limitBytes: number
  /** Of the agent's own process; a training's process has the rest. */
  readonly processBytes: number
  readonly flowBytes: number
  /** Alerts that wait in memory for a disk or an output. */
  readonly queueBytes: number
}

/** Throws UsageError when the ceiling leaves no room to work in. */
export function planMemory(
  limitBytes: number,
  modelBytes: number,
  outputs: readonly OutputSettings[] = [],
  /** Models that are made here, of rows so wide; modelBytes then counts the given models. */
  learning: MadeHere | null = null,
  /** Reserved for other settings. */
  furtherBytes = 0,
): MemoryPlan {
  const learningBytes = learning === null ? 0 : bytesOfLearning(learning)
  const runtimeBytes = RUNTIME_BYTES + librariesBytes(outputs) + learningBytes + furtherBytes
  // a model is in memory twice while it is read, and the scorers of verdicts and explanations pack it again
  const fixedBytes = runtimeBytes + 4 * modelBytes
  const queueBytes = queueBytesOf(limitBytes, learning !== null)
  const room = limitBytes - fixedBytes - 2 * queueBytes
  if (room < LEAST_FLOW_BYTES) {
    let least = Math.ceil((fixedBytes + LEAST_FLOW_BYTES) / MEBIBYTE)
    // queues grow with the ceiling
    while (
      least * MEBIBYTE - fixedBytes - 2 * queueBytesOf(least * MEBIBYTE, learning !== null) <
      LEAST_FLOW_BYTES
    ) {
      least++
    }
    throw new UsageError(
      `--memory-limit ${Math.floor(limitBytes / MEBIBYTE)}M: too little for Node, this model and any flows; give ${least}M or more`,
    )
  }
  const processBytes = learning === null ? limitBytes : limitBytes - TRAINING_BYTES
  return { limitBytes, processBytes, flowBytes: Math.min(room, MOST_FLOW_BYTES), queueBytes }
}

function queueBytesOf(limitBytes: number, trains: boolean): number {
  // a gateway that trains needs its memory for that
  return Math.min(8 * MEBIBYTE, Math.max(MEBIBYTE, Math.floor(limitBytes / (trains ? 128 : 32))))
}

interface MadeHere {
  readonly models: ModelsSettings
  readonly online: LearningSettings | null
  readonly dimension: number
}

/** Rows of learning devices, models of the others, and one training. */
function bytesOfLearning({ models: settings, online, dimension }: MadeHere): number {
  const { memoryBytes, maximum, rowsPerDevice } = settings
  // each model and its scorer, the few explainers, and the rows of a training three times: copied, in its process, scaled
  const models = (2 * maximum + 4) * modelBytesOf(dimension)
  // for online learning, the trained model too, and the rows of the next round
  const learntOn = online === null ? 0 : onlineBytes(maximum, online, dimension)
  return memoryBytes + models + learntOn + TRAINING_BYTES + 24 * rowsPerDevice * dimension
}

/** What models that learn on take beside the others; the default ceiling is higher by as much. */
export function onlineBytes(
  maximumModels: number,
  { everyRows }: LearningSettings,
  dimension: number,
): number {
  return maximumModels * (2 * modelBytesOf(dimension) + 8 * everyRows * dimension)
}

/**
 * Of oc-kjl-qs with the default parameters: m = 100 landmarks, d = 5, k ≤ 20, and the guard's tables (docs/model-file.md). An
 * ensemble of flow summaries takes less with its scorer than this twice.
 */
function modelBytesOf(dimension: number): number {
  return 8 * (100 * (dimension + 5) + 1000)
}

/** Of a fleet's models the new one, the one in use and the one before: each is in memory as a model of the configuration is. */
export function fleetModelBytes(outputs: readonly OutputSettings[]): number {
  return fleetOutput(outputs) === null ? 0 : 3 * 4 * MEBIBYTE
}

/** What libraries take that only some outputs need; the default ceiling is higher by as much. */
export function librariesBytes(outputs: readonly OutputSettings[]): number {
  const wanted = OUTPUTS.filter(({ kind }) => outputs.some((output) => output.kind === kind))
  return wanted.reduce((sum, { memoryBytes = 0 }) => sum + memoryBytes, 0)
}

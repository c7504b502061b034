/** Settings from a configuration file and the command line (given.ts), each part by the file that knows it. */
import { featureDimension } from '@oddflow/core'
import { parseBytes, UsageError } from '@oddflow/program'
import { refusedPlace } from '../devices/socket-place.js'
import { DEFAULT_MEMORY_LIMIT_BYTES, librariesBytes, onlineBytes } from '../pipeline/memory-plan.js'
import {
  DEFAULT_SPOOL_BYTES,
  type LearningSettings,
  type ModelsSettings,
  type OutputSettings,
  type Settings,
} from '../settings.js'
import { checkAlertFile } from './alert-file.js'
import { devicesFrom, networksFrom } from './device-settings.js'
import { createGiven, type Given, type RunOptions, required } from './given.js'
import { inputFrom } from './input-settings.js'
import { budgetFrom, learningFrom, modelFrom, modelKeyFrom, modelsFrom } from './model-settings.js'
import { evidenceFrom, foldFrom, outputsFrom } from './output-settings.js'
import type { ReadConfig } from './read-config.js'
import { dashboardFrom, listenFrom } from './server-settings.js'
import { suppressFrom } from './suppress-settings.js'

/** Throws UsageError that names the flag, or the file's line and column. */
export function settingsFrom(options: RunOptions, file: ReadConfig | null): Settings {
  const given = createGiven(options, file)
  const { config, inFolder, bytes } = given
  const outputs = outputsFrom(given)
  const suppress = suppressFrom(given)
  const models = modelsFrom(given)
  const learning = learningFrom(given, models !== null)
  const settings: Settings = {
    input: inputFrom(given),
    dropDuplicates: options.dropDuplicates ?? config.dropDuplicates ?? false,
    model: modelFrom(given, models),
    modelKey: modelKeyFrom(given, models),
    models,
    learning,
    eve: required(options.eve ?? inFolder(config.eve), 'eve', 'the file that alerts go to'),
    devices: devicesFrom(given, models !== null),
    budget: budgetFrom(given),
    outputs,
    fold: foldFrom(given),
    once: options.once === true,
    state: stateFrom(given),
    spoolBytes: bytes(['spoolLimit'], config.spoolLimit, DEFAULT_SPOOL_BYTES),
    memoryLimitBytes:
      options.memoryLimit === undefined
        ? bytes(['memoryLimit'], config.memoryLimit, defaultMemoryBytes(outputs, models, learning))
        : parseBytes(options.memoryLimit, '--memory-limit'),
    listen: listenFrom(given),
    evidence: evidenceFrom(given),
    dashboard: dashboardFrom(given),
    allowRoot: options.allowRoot === true || config.allowRoot === true,
    localNetworks: networksFrom(given),
    suppress,
  }
  checkAlertFile(given, settings)
  return settings
}

/** Whole MiB, so that messages can name it. */
function defaultMemoryBytes(
  outputs: readonly OutputSettings[],
  models: ModelsSettings | null,
  learning: LearningSettings | null,
): number {
  const online =
    models === null || learning === null
      ? 0
      : onlineBytes(
          models.maximum,
          learning,
          featureDimension('iat-size', models.features.packetsPerFlow, 'split'),
        )
  const mebibyte = 1_048_576
  return DEFAULT_MEMORY_LIMIT_BYTES + librariesBytes(outputs) + mebibyte * Math.ceil(online / mebibyte)
}

function stateFrom({ options, config, inFolder, refuse }: Given): string | null {
  const state = options.state ?? inFolder(config.state) ?? null
  const refused = state === null ? null : refusedPlace(state)
  if (refused !== null) {
    if (options.state !== undefined) throw new UsageError(`--state ${refused}`)
    refuse(['state'], `state: ${refused}`)
  }
  return state
}

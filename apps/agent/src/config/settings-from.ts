/** Settings from a configuration file and the command line (given.ts), each part by the file that knows it. */
import { featureDimension } from '@oddflow/core'
import { parseBytes, UsageError } from '@oddflow/program'
import { refusedPlace } from '../devices/listen-alone.js'
import { PEER_NAMES_BYTES } from '../devices/peer-names.js'
import { standardErrorLog } from '../log.js'
import { EVERYONE, type ModelsPer, NO_GROUP } from '../models/model-scopes.js'
import type { OutputSettings } from '../outputs/registry.js'
import {
  DEFAULT_MEMORY_LIMIT_BYTES,
  fleetModelBytes,
  librariesBytes,
  MODELS_BYTES,
  onlineBytes,
} from '../pipeline/memory-plan.js'
import {
  createGiven,
  dashboardFrom,
  devicesFrom,
  type Given,
  inputFrom,
  listenFrom,
  networksFrom,
  type RunOptions,
  required,
  suppressFrom,
} from './given.js'
import { checkAlertFile, evidenceFrom, foldFrom, outputsFrom } from './output-settings.js'
import type { ReadConfig } from './read-config.js'
import type { Config } from './schema.js'
import {
  type BudgetSettings,
  DEFAULT_CALIBRATE_HOURS,
  DEFAULT_LEARNING,
  DEFAULT_MODELS,
  DEFAULT_SPOOL_BYTES,
  type FeatureSettings,
  FIRST_PACKETS,
  type LearningSettings,
  type ModelsSettings,
  type Settings,
  WHOLE_FLOWS,
} from './settings.js'

/** Which models judge, whether they are made here and learn on, and how many false alerts are bearable. */

/** Throws UsageError. */
function modelFrom({ options, config, inFolder }: Given, models: ModelsSettings | null): string | null {
  const model = options.model ?? inFolder(config.model)
  return models !== null && model === undefined
    ? null
    : required(model, 'model', 'a model that oddflow train wrote, or --models to make them here')
}

/** null: models need no signature. Throws UsageError. */
function modelKeyFrom(
  { options, config, inFolder, refuse }: Given,
  models: ModelsSettings | null,
): string | null {
  const key = inFolder(config.modelKey)
  if (key === undefined) return null
  const isGiven = (options.model ?? config.model) !== undefined
  if (!isGiven && Object.keys(models?.files ?? {}).length === 0) {
    refuse(['modelKey'], 'modelKey: no model from elsewhere is given; leave it out')
  }
  return key
}

/** Throws UsageError. */
function modelsFrom({ options, config, inFolder, refuse, bytes }: Given): ModelsSettings | null {
  const given = config.models
  if (given === undefined && options.models === undefined) return null
  const per = options.models ?? given?.per ?? DEFAULT_MODELS.per
  if ((options.state ?? config.state) === undefined) {
    refuse(['models'], 'models: they are kept in a state folder; give state (--state)')
  }
  if (config.budget?.calibration !== undefined) {
    refuse(
      ['budget', 'calibration'],
      'budget.calibration: is of one model, and models are made here; leave one out',
    )
  }
  const groups = groupsFrom(given, per, refuse)
  const files = filesFrom(given, per, groups, inFolder, refuse)
  const isBrought = Object.keys(files).length > 0 || (options.model ?? config.model) !== undefined
  if (given?.features !== undefined && isBrought) {
    refuse(
      ['models', 'features'],
      'models.features: the models that are given say how rows are made; leave it out',
    )
  }
  return {
    per,
    groups,
    files,
    features: featuresFrom(given?.features, config.learning?.online === true, refuse),
    rowsPerScope: given?.rowsPerDevice ?? DEFAULT_MODELS.rowsPerScope,
    memoryBytes: bytes(['models', 'memory'], given?.memory, DEFAULT_MODELS.memoryBytes),
    trainWithinSeconds: given?.trainWithinSeconds ?? DEFAULT_MODELS.trainWithinSeconds,
    maximum: given?.maximum ?? DEFAULT_MODELS.maximum,
  }
}

function featuresFrom(
  given: NonNullable<Config['models']>['features'] = {},
  isOnline: boolean,
  refuse: Given['refuse'],
): FeatureSettings {
  const { set = isOnline ? 'iat-size' : DEFAULT_MODELS.features.set } = given
  if (set === 'flow-summary' && isOnline) {
    refuse(
      ['models', 'features', 'set'],
      'models.features.set: models of flow-summary cannot learn on; give iat-size, or leave learning out',
    )
  }
  if (set === 'flow-summary' && given.packetsPerFlow !== undefined) {
    refuse(
      ['models', 'features', 'packetsPerFlow'],
      'models.features.packetsPerFlow: a row of set: flow-summary is about all packets of a flow; give set: iat-size with it, or leave it out',
    )
  }
  const defaults = set === 'flow-summary' ? WHOLE_FLOWS : FIRST_PACKETS
  return {
    set,
    packetsPerFlow: given.packetsPerFlow ?? defaults.packetsPerFlow,
    cutSeconds: given.cutSeconds ?? defaults.cutSeconds,
    idleSeconds: given.idleSeconds ?? defaults.idleSeconds,
  }
}

/** Devices by the name of their group; a device is in one at most. */
function groupsFrom(
  given: Config['models'],
  per: ModelsPer,
  refuse: Given['refuse'],
): ModelsSettings['groups'] {
  const groups = Object.fromEntries(
    Object.entries(given?.groups ?? {}).map(([name, devices]) => [
      name,
      devices.map((key) => key.toLowerCase()),
    ]),
  )
  if (per === 'group' && Object.keys(groups).length === 0) {
    refuse(['models'], 'models.groups: per: group needs groups; name the devices of each')
  }
  if (per !== 'group' && given?.groups !== undefined) {
    refuse(['models', 'groups'], 'models.groups: does nothing without per: group; leave one out')
  }
  const members = Object.values(groups).flat()
  const twice = members.find((key, i) => members.indexOf(key) !== i)
  if (twice !== undefined)
    refuse(['models', 'groups'], `models.groups: ${twice} is in two groups; leave one out`)
  return groups
}

/** Files by owner; every owner is one that there can be. */
function filesFrom(
  given: Config['models'],
  per: ModelsPer,
  groups: ModelsSettings['groups'],
  inFolder: Given['inFolder'],
  refuse: Given['refuse'],
): ModelsSettings['files'] {
  const files: Record<string, string> = {}
  for (const [owner, file] of Object.entries(given?.files ?? {})) {
    const isOwner =
      per === 'device'
        ? /[:.]/.test(owner)
        : per === 'all'
          ? owner === EVERYONE
          : owner === NO_GROUP || owner in groups
    if (!isOwner) {
      const expected =
        per === 'device' ? 'the address of a device' : per === 'all' ? EVERYONE : 'the name of a group'
      refuse(['models', 'files', owner], `models.files.${owner}: expected ${expected}, as per: ${per} has it`)
    }
    files[owner] = inFolder(file)
  }
  return files
}

/** null: models stay as they were trained. Throws UsageError. */
function learningFrom({ config: { learning }, refuse }: Given, isTraining: boolean): LearningSettings | null {
  if (learning === undefined) return null
  if (!isTraining) {
    refuse(
      ['learning'],
      'learning: models that are made here learn on; give models, or let oddflow update do it',
    )
  }
  if (!learning.online) return null
  return {
    rowsPerHour: learning.rowsPerHour ?? DEFAULT_LEARNING.rowsPerHour,
    everyRows: learning.everyRows ?? DEFAULT_LEARNING.everyRows,
    shadowAgrees: learning.shadowAgrees ?? DEFAULT_LEARNING.shadowAgrees,
  }
}

/** null: the model's own threshold decides. */
function budgetFrom({ config: { budget }, inFolder }: Given): BudgetSettings | null {
  if (budget === undefined) return null
  return {
    falseAlertsPerDay: budget.falseAlertsPerDay,
    per: budget.per ?? 'device',
    calibration: inFolder(budget.calibration) ?? null,
    calibrateHours: budget.calibrateHours ?? DEFAULT_CALIBRATE_HOURS,
  }
}

/** Throws UsageError that names the flag, or the file's line and column. */
export function settingsFrom(options: RunOptions, file: ReadConfig | null): Settings {
  const given = createGiven(options, file)
  const { config, inFolder, bytes } = given
  const outputs = outputsFrom(given)
  const suppress = suppressFrom(given)
  const models = modelsFrom(given)
  const learning = learningFrom(given, models !== null)
  const peerNames = peerNamesFrom(given, outputs, models !== null)
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
    peerNames,
    fold: foldFrom(given),
    once: options.once === true,
    state: stateFrom(given),
    spoolBytes: bytes(['spoolLimit'], config.spoolLimit, DEFAULT_SPOOL_BYTES),
    memoryLimitBytes:
      options.memoryLimit === undefined
        ? bytes(
            ['memoryLimit'],
            config.memoryLimit,
            defaultMemoryBytes(outputs, models, learning, peerNames !== null),
          )
        : parseBytes(options.memoryLimit, '--memory-limit'),
    listen: listenFrom(given),
    evidence: evidenceFrom(given),
    dashboard: dashboardFrom(given),
    allowRoot: options.allowRoot === true || config.allowRoot === true,
    localNetworks: networksFrom(given),
    suppress,
  }
  checkAlertFile(given, settings)
  checkFleetModels(given, settings)
  return settings
}

/** Models of a fleet have a key to be checked by, a model of the configuration to begin with, and a folder to be kept in. */
function checkFleetModels(
  { refuse }: Given,
  { outputs, model, models, modelKey, state, budget }: Settings,
): void {
  const taking = outputs.filter((output) => output.kind === 'nats' && output.models)
  const [first, second] = taking
  if (first === undefined) return
  const missing =
    modelKey === null
      ? 'modelKey, the public key of the one who publishes models'
      : model === null
        ? 'model, which is used until the fleet offers one'
        : state === null
          ? 'state, where they are kept'
          : null
  const why =
    missing !== null
      ? `give ${missing}`
      : second !== undefined
        ? `another output has it too; leave one out`
        : budget !== null && models === null
          ? 'the threshold of a budget is of one model; leave budget out'
          : null
  if (why !== null) refuse(['outputs', outputs.indexOf(second ?? first), 'models'], `outputs.models: ${why}`)
}

/** Whole MiB, so that messages can name it. */
function defaultMemoryBytes(
  outputs: readonly OutputSettings[],
  models: ModelsSettings | null,
  learning: LearningSettings | null,
  hasPeerNames: boolean,
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
  const made = models === null ? 0 : MODELS_BYTES + mebibyte * Math.ceil(online / mebibyte)
  // beside models that are given there is room for them
  const names = models !== null && hasPeerNames ? PEER_NAMES_BYTES : 0
  return DEFAULT_MEMORY_LIMIT_BYTES + librariesBytes(outputs) + fleetModelBytes(outputs) + made + names
}

/** null: they are not looked for. Throws UsageError. */
function peerNamesFrom(
  { config: { peerNames, devices }, refuse }: Given,
  outputs: readonly OutputSettings[],
  isTraining: boolean,
): readonly string[] | null {
  if (peerNames === undefined) return null
  if (devices === undefined && !isTraining)
    refuse(['peerNames'], 'peerNames: names are kept for watched devices; give devices')
  const known = ['eve', ...outputs.map(({ name }) => name)]
  for (const [i, name] of peerNames.entries())
    if (!known.includes(name))
      refuse(
        ['peerNames', i],
        `peerNames[${i}]: there is no output ${name}; expected one of ${known.join(', ')}`,
      )
  return peerNames
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

/** What the command line and the configuration file ask for, checked. */

/** Complaints about a file that are told; one that is no configuration at all would have thousands. */
const MAXIMUM_COMPLAINTS = 8

/** Throws UsageError with what is wrong with the file, a line each, the first few. */
export async function readSettings(options: RunOptions): Promise<Settings> {
  const { config } = options
  return settingsFrom(options, config === undefined ? null : await readWhole(config))
}

/** The state folder that a configuration names; null where it names none. Throws as `readSettings`. */
export async function stateIn(config: string): Promise<string | null> {
  const given = createGiven({ config, fold: true }, await readWhole(config))
  return given.inFolder(given.config.state) ?? null
}

async function readWhole(name: string): Promise<ReadConfig> {
  // the YAML parser and the schema are loaded by who has a file
  const { readConfig } = await import('./read-config.js')
  const file = readConfig(name)
  const complaints = file.complaints.map(
    ({ line, column, message }) => `${name}:${line}:${column}: ${message}`,
  )
  if (complaints.length > 0) {
    const told = complaints.slice(0, MAXIMUM_COMPLAINTS)
    const more = complaints.length - told.length
    if (more > 0) told.push(`${name}: and ${more} more like these`)
    for (const complaint of told.slice(0, -1)) standardErrorLog.error(complaint)
    throw new UsageError(told.at(-1))
  }
  return file
}

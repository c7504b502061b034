/** Which models judge, whether they are made here and learn on, and how many false alerts are bearable. */
import {
  type BudgetSettings,
  DEFAULT_CALIBRATE_HOURS,
  DEFAULT_LEARNING,
  DEFAULT_MODELS,
  type FeatureSettings,
  FIRST_PACKETS,
  type LearningSettings,
  type ModelsSettings,
  WHOLE_FLOWS,
} from '../settings.js'
import { EVERYONE, type ModelsPer, NO_GROUP } from '../training/model-owner.js'
import { type Given, required } from './given.js'
import type { Config } from './schema.js'

/** Throws UsageError. */
export function modelFrom(
  { options, config, inFolder }: Given,
  models: ModelsSettings | null,
): string | null {
  const model = options.model ?? inFolder(config.model)
  return models !== null && model === undefined
    ? null
    : required(model, 'model', 'a model that oddflow train wrote, or --models to make them here')
}

/** null: models need no signature. Throws UsageError. */
export function modelKeyFrom(
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
export function modelsFrom({ options, config, inFolder, refuse, bytes }: Given): ModelsSettings | null {
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
    rowsPerOwner: given?.rowsPerDevice ?? DEFAULT_MODELS.rowsPerOwner,
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
export function learningFrom(
  { config: { learning }, refuse }: Given,
  isTraining: boolean,
): LearningSettings | null {
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
export function budgetFrom({ config: { budget }, inFolder }: Given): BudgetSettings | null {
  if (budget === undefined) return null
  return {
    falseAlertsPerDay: budget.falseAlertsPerDay,
    per: budget.per ?? 'device',
    calibration: inFolder(budget.calibration) ?? null,
    calibrateHours: budget.calibrateHours ?? DEFAULT_CALIBRATE_HOURS,
  }
}

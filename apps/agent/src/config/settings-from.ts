/**
 * Settings from the command line, else from the configuration file, else the default (settings.ts). Paths in the file are relative to its
 * folder. An error in the file has line and column, an error on the command line the flag's name.
 */
import { dirname, isAbsolute, join } from 'node:path'
import { compileFilter, type PacketFilter } from '@oddflow/capture'
import { ArgumentError, featureDimension } from '@oddflow/core'
import { type Network, parseBytes, parseNetwork, UsageError } from '@oddflow/program'
import { parse } from 'valibot'
import { createSuppression } from '../alerts/suppress.js'
import { refusedPlace } from '../devices/control-socket.js'
import { PEER_NAMES_BYTES } from '../devices/peer-names.js'
import { standardErrorLog } from '../log.js'
import { EVERYONE, type ModelsPer, NO_GROUP } from '../models/model-scopes.js'
import { checkSettings, type OutputSettings } from '../outputs/registry.js'
import {
  DEFAULT_MEMORY_LIMIT_BYTES,
  fleetModelBytes,
  librariesBytes,
  MODELS_BYTES,
  onlineBytes,
} from '../pipeline/memory-plan.js'
import { checkAlertFile } from './alert-file.js'
import type { ReadConfig } from './read-config.js'
import {
  type Config,
  ConfigSchema,
  DEFAULT_DEVICES,
  DEFAULT_FEATURES,
  type DeviceSettings,
  type FeatureSettings,
  type InputSettings,
  type LearningSettings,
  type ListenSettings,
  ModelsSchema,
  type ModelsSettings,
  pathText,
  type Settings,
} from './settings.js'

/** Options of `run` as commander gives them. */
export interface RunOptions {
  readonly config?: string
  readonly read?: string
  readonly interface?: string
  readonly filter?: string
  readonly dropDuplicates?: boolean
  readonly model?: string
  readonly models?: ModelsPer
  readonly eve?: string
  readonly fold: boolean
  readonly once?: boolean
  readonly state?: string
  readonly listen?: string
  readonly memoryLimit?: string
  readonly allowRoot?: boolean
}

type Path = readonly (string | number)[]

export interface ConfigContext {
  readonly options: RunOptions
  /** The defaults if there is no file. */
  readonly config: Config
  readonly hasState: boolean
  readonly hasModel: boolean
  /** Makes a path in the file relative to the working directory. */
  inFolder<T extends string | undefined>(path: T): T
  /** Runs a check; adds the place of `path` in the file to its ArgumentError or UsageError. */
  located<T>(path: Path, work: () => T): T
  /** Throws UsageError with the place of `path` in the file, and `path` before the message. */
  refuse(path: Path, message: string): never
  /** A number of bytes such as 64M in the file. */
  bytes(path: Path, value: string | number): number
}

function createContext(options: RunOptions, file: ReadConfig | null): ConfigContext {
  const name = options.config ?? ''
  const config = file?.config ?? parse(ConfigSchema, {})
  const located = <T>(path: Path, work: () => T): T => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof ArgumentError || error instanceof UsageError)) throw error
      if (file === null) throw new UsageError(error.message)
      const exact = [...path, ...fieldPath(error instanceof ArgumentError ? error.field : undefined)]
      const { line, column } = file.placeOf(exact)
      throw new UsageError(`${name}:${line}:${column}: ${error.message}`)
    }
  }
  return {
    options,
    config,
    hasState: (options.state ?? config.state) !== undefined,
    hasModel: (options.model ?? config.model) !== undefined,
    inFolder: <T extends string | undefined>(path: T): T =>
      path === undefined || path === '-' || isAbsolute(path) ? path : (join(dirname(name), path) as T),
    located,
    refuse: (path, message) =>
      located(path, () => {
        throw new ArgumentError(`${pathText(path)}: ${message}`)
      }),
    bytes: (path, value) => located(path, () => parseBytes(String(value), path.join('.'))),
  }
}

/** "[0].device" → [0, 'device'] */
function fieldPath(field: string | undefined): Path {
  if (field?.startsWith('[') !== true) return []
  return Array.from(field.matchAll(/\[(\d+)\]|\.?(\w+)/g), ([, index, key]) =>
    index === undefined ? key : Number(index),
  )
}

/** Errors to show: a file that is no configuration has thousands. */
const MAXIMUM_ERRORS = 8

/** Throws UsageError with the first errors of the file, one per line. */
export async function readSettings(options: RunOptions): Promise<Settings> {
  const { config } = options
  return settingsFrom(options, config === undefined ? null : await readFile(config))
}

/** The state folder in a configuration, or null. Throws as `readSettings`. */
export async function stateIn(config: string): Promise<string | null> {
  const context = createContext({ config, fold: true }, await readFile(config))
  return context.inFolder(context.config.state) ?? null
}

async function readFile(name: string): Promise<ReadConfig> {
  // loads the YAML parser only if there is a file
  const { readConfig } = await import('./read-config.js')
  const file = readConfig(name)
  const errors = file.errors.map(({ line, column, message }) => `${name}:${line}:${column}: ${message}`)
  if (errors.length > 0) {
    const shown = errors.slice(0, MAXIMUM_ERRORS)
    const more = errors.length - shown.length
    if (more > 0) shown.push(`${name}: and ${more} more like these`)
    for (const error of shown.slice(0, -1)) standardErrorLog.error(error)
    throw new UsageError(shown.at(-1))
  }
  return file
}

/** Throws UsageError that names the flag, or the file's line and column. */
export function settingsFrom(options: RunOptions, file: ReadConfig | null): Settings {
  const context = createContext(options, file)
  const { config, hasModel, inFolder, bytes } = context
  const { evidence, budget } = config
  const outputs = outputsFrom(context)
  checkSuppression(context)
  const models = modelsFrom(context)
  const learning = learningFrom(context, models !== null)
  const peerNames = peerNamesFrom(context, outputs, models !== null)
  const settings: Settings = {
    input: inputFrom(context),
    dropDuplicates: options.dropDuplicates ?? config.dropDuplicates,
    model:
      models !== null && !hasModel
        ? null
        : required(
            options.model ?? inFolder(config.model),
            'model',
            'a model that oddflow train wrote, or --models to make them here',
          ),
    modelKey: modelKeyFrom(context, models),
    models,
    learning,
    eve: required(options.eve ?? inFolder(config.eve), 'eve', 'the file that alerts go to'),
    devices: devicesFrom(context, models !== null),
    budget: budget === undefined ? null : { ...budget, calibration: inFolder(budget.calibration) ?? null },
    outputs,
    peerNames,
    fold: options.fold && config.fold !== false ? config.fold : null,
    once: options.once === true,
    state: stateFrom(context),
    spoolBytes: bytes(['spoolLimit'], config.spoolLimit),
    memoryLimitBytes:
      options.memoryLimit !== undefined
        ? parseBytes(options.memoryLimit, '--memory-limit')
        : config.memoryLimit !== undefined
          ? bytes(['memoryLimit'], config.memoryLimit)
          : defaultMemoryBytes(outputs, models, learning, peerNames !== null),
    listen: listenFrom(context),
    evidence:
      evidence === undefined
        ? null
        : {
            directory: inFolder(evidence.directory),
            limitBytes: bytes(['evidence', 'limit'], evidence.limit),
          },
    dashboard: config.dashboard ?? null,
    allowRoot: options.allowRoot === true || config.allowRoot,
    localNetworks: networksFrom(context),
    suppress: config.suppress,
  }
  checkDashboard(context)
  checkAlertFile(context, settings)
  checkFleetModels(context, settings)
  return settings
}

/** Throws UsageError if the value is missing. */
function required(value: string | undefined, name: string, what: string): string {
  if (value === undefined || value === '') throw new UsageError(`--${name} is missing: give ${what}`)
  return value
}

/** As Linux allows (dev_valid_name), without control characters. */
export function isInterfaceName(name: string): boolean {
  return /^[^\s/\p{C}]+$/u.test(name) && Buffer.byteLength(name) <= 15 && name !== '.' && name !== '..'
}

export function interfaceText(name: string): string {
  return `expected the name of an interface, at most 15 bytes without spaces, found ${JSON.stringify(name.slice(0, 40))}`
}

/** Runs a check of a flag's value; begins its ArgumentError with the flag. */
export function inFlag<T>(flag: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw error instanceof ArgumentError ? new UsageError(`${flag}: ${error.detail}`) : error
  }
}

/** A recording or an interface, and its filter. */
function inputFrom({ options, config, inFolder, located, refuse }: ConfigContext): InputSettings {
  const onLine = options.read !== undefined || options.interface !== undefined
  const read = onLine ? options.read : inFolder(config.read)
  const name = onLine ? options.interface : config.interface
  const fail = (message: string): never => {
    if (onLine) throw new UsageError(`--interface: ${message}`)
    return refuse(['interface'], message)
  }
  if (read !== undefined && name !== undefined) {
    if (onLine) throw new UsageError('--read and --interface: give only one of them')
    fail('read is given too; remove one of them')
  }
  const filter = options.filter ?? config.filter ?? null
  if (name !== undefined)
    return isInterfaceName(name) ? { kind: 'live', interface: name, filter } : fail(interfaceText(name))
  const path = required(read, 'read', 'a capture file, or - for standard input; or --interface an interface')
  if (filter === null) return { kind: 'recorded', path, filter }
  const compile = (): PacketFilter => compileFilter(filter)
  const compiled = options.filter === undefined ? located(['filter'], compile) : inFlag('--filter', compile)
  return { kind: 'recorded', path, filter: compiled }
}

function modelKeyFrom(
  { config, hasModel, inFolder, refuse }: ConfigContext,
  models: ModelsSettings | null,
): string | null {
  if (config.modelKey !== undefined && !hasModel && Object.keys(models?.files ?? {}).length === 0)
    refuse(['modelKey'], 'no model from elsewhere is given; give one, or remove modelKey')
  return inFolder(config.modelKey) ?? null
}

function modelsFrom(context: ConfigContext): ModelsSettings | null {
  const { options, config, hasState, hasModel, inFolder, refuse, bytes } = context
  if (config.models === undefined && options.models === undefined) return null
  const { memory, features, ...given } = config.models ?? parse(ModelsSchema, {})
  const models = { ...given, per: options.models ?? given.per }
  if (!hasState) refuse(['models'], 'models need a state folder; give state (--state)')
  if (config.budget?.calibration !== undefined)
    refuse(
      ['budget', 'calibration'],
      'belongs to one model, but models are made here; remove models or budget.calibration',
    )
  const groups = groupsFrom(models, refuse)
  checkOwners(models, groups, refuse)
  if (features !== undefined && (hasModel || Object.keys(models.files).length > 0))
    refuse(['models', 'features'], 'the given models determine how rows are made; remove models.features')
  return {
    ...models,
    groups,
    files: Object.fromEntries(Object.entries(models.files).map(([owner, file]) => [owner, inFolder(file)])),
    features: featuresFrom(features, config.learning?.online === true, refuse),
    memoryBytes: bytes(['models', 'memory'], memory),
  }
}

type Models = NonNullable<Config['models']>

function featuresFrom(
  given: Models['features'] = {},
  isOnline: boolean,
  refuse: ConfigContext['refuse'],
): FeatureSettings {
  const { set = isOnline ? 'iat-size' : 'flow-summary' } = given
  if (set === 'flow-summary' && isOnline)
    refuse(
      ['models', 'features', 'set'],
      'flow-summary models cannot learn online; use iat-size, or remove learning',
    )
  if (set === 'flow-summary' && given.packetsPerFlow !== undefined)
    refuse(
      ['models', 'features', 'packetsPerFlow'],
      'only for set: iat-size, because flow-summary describes all packets of a flow; change set, or remove packetsPerFlow',
    )
  const {
    packetsPerFlow = DEFAULT_FEATURES[set].packetsPerFlow,
    cutSeconds = DEFAULT_FEATURES[set].cutSeconds,
    idleSeconds = DEFAULT_FEATURES[set].idleSeconds,
  } = given
  return { set, packetsPerFlow, cutSeconds, idleSeconds }
}

/** Devices by the name of their group. */
function groupsFrom(
  { per, groups: given }: Pick<Models, 'per' | 'groups'>,
  refuse: ConfigContext['refuse'],
): ModelsSettings['groups'] {
  const groups = Object.fromEntries(
    Object.entries(given ?? {}).map(([name, devices]) => [name, devices.map((key) => key.toLowerCase())]),
  )
  if (per === 'group' && Object.keys(groups).length === 0)
    refuse(['models', 'groups'], 'per: group needs groups; name the devices of each group')
  if (per !== 'group' && given !== undefined)
    refuse(['models', 'groups'], 'has no effect without per: group; add per: group, or remove groups')
  const members = Object.values(groups).flat()
  const twice = members.find((key, i) => members.indexOf(key) !== i)
  if (twice !== undefined)
    refuse(['models', 'groups'], `${twice} is in two groups; remove it from one of them`)
  return groups
}

/** Checks the owners of model files. */
function checkOwners(
  { per, files }: Pick<Models, 'per' | 'files'>,
  groups: ModelsSettings['groups'],
  refuse: ConfigContext['refuse'],
): void {
  const [isOwner, expected] = {
    device: [(owner: string) => /[:.]/.test(owner), 'the address of a device'] as const,
    group: [(owner: string) => owner === NO_GROUP || owner in groups, 'the name of a group'] as const,
    all: [(owner: string) => owner === EVERYONE, EVERYONE] as const,
  }[per]
  for (const owner of Object.keys(files))
    if (!isOwner(owner)) refuse(['models', 'files', owner], `expected ${expected} for per: ${per}`)
}

/** null: models stay as they were trained. */
function learningFrom(
  { config: { learning }, refuse }: ConfigContext,
  isTraining: boolean,
): LearningSettings | null {
  if (learning === undefined) return null
  if (!isTraining)
    refuse(['learning'], 'only models made here learn online; add models, or use oddflow update')
  const { online, ...settings } = learning
  return online ? settings : null
}

function devicesFrom(
  { config: { devices }, hasState, inFolder, refuse }: ConfigContext,
  /** Models are made on the gateway, of devices. */
  isTraining: boolean,
): DeviceSettings | null {
  if (devices === undefined) return isTraining ? DEFAULT_DEVICES : null
  if (!hasState && devices.approve === 'manual')
    refuse(
      ['devices'],
      'without a state folder no device can be approved or watched; give state, or approve: auto',
    )
  const { vendors } = devices
  return { ...devices, vendors: vendors === false ? false : (inFolder(vendors) ?? null) }
}

function outputsFrom({ config: { outputs }, inFolder, refuse }: ConfigContext): OutputSettings[] {
  const names = new Set(['eve'])
  return outputs.map((given, i) => {
    const { name = given.kind } = given
    if (names.has(name))
      refuse(
        ['outputs', i],
        `another output has the name ${JSON.stringify(name)} too; give each output a different name`,
      )
    names.add(name)
    const inFolders = Object.entries(given).map(([key, value]) => [
      key,
      /File$|^socket$/.test(key) ? inFolder(value as string | undefined) : value,
    ])
    const output: OutputSettings = { ...Object.fromEntries(inFolders), name }
    checkSettings(output, (key, message) => refuse(['outputs', i, key], message))
    return output
  })
}

/** Checks that each suppression rule can apply, and has a different name. */
function checkSuppression({ config: { suppress }, located, refuse }: ConfigContext): void {
  located(['suppress'], () => createSuppression(suppress))
  for (const [i, { name }] of suppress.entries())
    if (suppress.findIndex((other) => other.name === name) !== i)
      refuse(
        ['suppress', i, 'name'],
        `another rule has the name ${JSON.stringify(name)} too; give each rule a different name`,
      )
}

function networksFrom({ config, located }: ConfigContext): Network[] {
  return config.localNetworks.map((text, i) => located(['localNetworks', i], () => parseNetwork(text)))
}

/** null: nowhere. */
function listenFrom({ options, config: { listen }, located }: ConfigContext): ListenSettings | null {
  if (options.listen !== undefined) return parseListen(options.listen, '--listen')
  return listen === undefined ? null : located(['listen'], () => parseListen(listen, 'listen'))
}

/** "127.0.0.1:9477", "[::1]:9477". Throws UsageError. */
export function parseListen(text: string, flag: string): ListenSettings {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:\s]+)):(\d{1,5})$/.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65_535) {
    throw new UsageError(`${flag} ${text}: expected HOST:PORT such as 127.0.0.1:9477 or [::1]:9477`)
  }
  return { host: match[1] ?? match[2], port }
}

function checkDashboard({ options, config, hasState, refuse }: ConfigContext): void {
  if (config.dashboard === undefined) return
  if ((options.listen ?? config.listen) === undefined)
    refuse(['dashboard'], 'listen is missing; give the address of the page, such as listen: 127.0.0.1:9477')
  if (!hasState) refuse(['dashboard'], 'state is missing; the token of the dashboard is kept there')
}

/** Checks what models of a fleet need: a key, a first model, and a folder. */
function checkFleetModels(
  { refuse }: ConfigContext,
  { outputs, model, models, modelKey, state, budget }: Settings,
): void {
  const [first, second] = outputs.filter((output) => output.kind === 'nats' && output.models)
  if (first === undefined) return
  const fail = (why: string): never => refuse(['outputs', outputs.indexOf(second ?? first), 'models'], why)
  if (modelKey === null) fail('modelKey is missing; give the public key of the publisher')
  if (model === null) fail('model is missing; the agent uses it until the fleet offers one')
  if (state === null) fail('state is missing; the models are kept there')
  if (second !== undefined) fail('another output has models: true too; remove one of them')
  if (budget !== null && models === null)
    fail('the threshold of a budget belongs to one model; remove models: true or budget')
}

/** In whole MiB, for messages. */
function defaultMemoryBytes(
  outputs: readonly OutputSettings[],
  models: ModelsSettings | null,
  learning: LearningSettings | null,
  hasPeerNames: boolean,
): number {
  const shared = DEFAULT_MEMORY_LIMIT_BYTES + librariesBytes(outputs) + fleetModelBytes(outputs)
  // with given models there is room for names
  if (models === null) return shared
  const dimension = featureDimension('iat-size', models.features.packetsPerFlow, 'split')
  const online = learning === null ? 0 : onlineBytes(models.maximum, learning, dimension)
  const mebibyte = 1_048_576
  const names = hasPeerNames ? PEER_NAMES_BYTES : 0
  return shared + MODELS_BYTES + mebibyte * Math.ceil(online / mebibyte) + names
}

/** null: the agent looks for no names. */
function peerNamesFrom(
  { config: { peerNames, devices }, refuse }: ConfigContext,
  outputs: readonly OutputSettings[],
  isTraining: boolean,
): readonly string[] | null {
  if (peerNames === undefined) return null
  if (devices === undefined && !isTraining)
    refuse(['peerNames'], 'names are kept for watched devices only; give devices')
  const known = ['eve', ...outputs.map(({ name }) => name)]
  for (const [i, name] of peerNames.entries())
    if (!known.includes(name))
      refuse(['peerNames', i], `there is no output ${name}; expected one of ${known.join(', ')}`)
  return peerNames
}

function stateFrom({ options, config, inFolder, refuse }: ConfigContext): string | null {
  const state = options.state ?? inFolder(config.state) ?? null
  const refused = state === null ? null : refusedPlace(state)
  if (refused !== null) {
    if (options.state !== undefined) throw new UsageError(`--state ${refused}`)
    refuse(['state'], refused)
  }
  return state
}

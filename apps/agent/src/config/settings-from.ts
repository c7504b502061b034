/**
 * Settings from a configuration file and the command line: what is given on the command line counts, then the
 * file, then the default. Paths in the file are relative to the folder that it lies in.
 */
import { dirname, isAbsolute, join } from 'node:path'
import { compileFilter, type PacketFilter } from '@oddflow/capture'
import { ArgumentError } from '@oddflow/core'
import { parseBytes, UsageError } from '@oddflow/program'
import { type Network, PRIVATE_NETWORKS, parseNetwork } from '../alerts/local-networks.js'
import { createSuppression } from '../alerts/suppress.js'
import { DEFAULT_MEMORY_LIMIT_BYTES, librariesBytes } from '../pipeline/memory-plan.js'
import {
  type BudgetSettings,
  type DashboardSettings,
  DEFAULT_CALIBRATE_HOURS,
  DEFAULT_DEVICES,
  DEFAULT_EVIDENCE_BYTES,
  DEFAULT_FOLD,
  DEFAULT_LEARNING,
  DEFAULT_MODELS,
  DEFAULT_SPOOL_BYTES,
  type DeviceSettings,
  type EvidenceSettings,
  FACILITIES,
  type FoldSettings,
  type InputSettings,
  type LearningSettings,
  type ListenSettings,
  type ModelsSettings,
  type OutputSettings,
  type Settings,
} from '../settings.js'
import { EVERYONE, type ModelsPer, NO_GROUP } from '../training/model-owner.js'
import type { ReadConfig } from './read-config.js'
import type { Config } from './schema.js'

/** Options of `run` as commander gives them. */
export interface RunOptions {
  readonly config?: string
  readonly read?: string
  readonly interface?: string
  readonly filter?: string
  readonly model?: string
  readonly models?: ModelsPer
  readonly eve?: string
  readonly fold: boolean
  readonly once?: boolean
  readonly state?: string
  readonly listen?: string
  readonly memoryLimit?: string
}

/** Throws UsageError that names the flag, or the file's line and column. */
export function settingsFrom(options: RunOptions, file: ReadConfig | null): Settings {
  const config: Config = file?.config ?? {}
  const located = locator(options.config ?? '', file)
  const inFolder = (path: string | undefined): string | undefined =>
    path === undefined || path === '-' || isAbsolute(path) ? path : join(dirname(options.config ?? '.'), path)
  const bytes = (flag: string | undefined, key: 'memoryLimit' | 'spoolLimit', otherwise: number): number => {
    if (flag !== undefined) return parseBytes(flag, '--memory-limit')
    const value = config[key]
    return value === undefined ? otherwise : located([key], () => parseBytes(String(value), key))
  }
  const suppress = config.suppress ?? []
  const outputs = outputsFrom(config.outputs, inFolder, located)
  located(['suppress'], () => createSuppression(suppress))
  checkNames(suppress, located)
  const models = modelsFrom(options, config, inFolder, located)
  return {
    input: inputFrom(options, config, inFolder, located),
    model: modelFrom(options.model ?? inFolder(config.model), models),
    models,
    learning: learningFrom(config.learning, models !== null, located),
    eve: required(options.eve ?? inFolder(config.eve), 'eve', 'the file that alerts go to'),
    devices: devicesFrom(config.devices, options.state ?? config.state, models !== null, located),
    budget: budgetFrom(config.budget, inFolder),
    outputs,
    fold: options.fold ? foldFrom(config.fold) : null,
    once: options.once === true,
    state: options.state ?? inFolder(config.state) ?? null,
    spoolBytes: bytes(undefined, 'spoolLimit', DEFAULT_SPOOL_BYTES),
    memoryLimitBytes: bytes(
      options.memoryLimit,
      'memoryLimit',
      DEFAULT_MEMORY_LIMIT_BYTES + librariesBytes(outputs),
    ),
    listen: listenFrom(options, config, located),
    evidence: evidenceFrom(config, inFolder, located),
    dashboard: dashboardFrom(options, config, located),
    localNetworks: networksFrom(config.localNetworks, located),
    suppress,
  }
}

type Path = readonly (string | number)[]
/** Runs a check; its complaint is given the place of `path` in the file. */
type Located = <T>(path: Path, work: () => T) => T

function locator(name: string, file: ReadConfig | null): Located {
  return (path, work) => {
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
}

/** "[0].device" → [0, 'device'] */
function fieldPath(field: string | undefined): Path {
  if (field?.startsWith('[') !== true) return []
  return Array.from(field.matchAll(/\[(\d+)\]|\.?(\w+)/g), ([, index, key]) =>
    index === undefined ? key : Number(index),
  )
}

function checkNames(rules: NonNullable<Config['suppress']>, located: Located): void {
  for (const [i, { name }] of rules.entries()) {
    if (rules.findIndex((other) => other.name === name) === i) continue
    located(['suppress', i, 'name'], () => {
      throw new ArgumentError(
        `suppress[${i}].name: ${JSON.stringify(name)} is another rule's; give each its own`,
      )
    })
  }
}

function inputFrom(
  options: RunOptions,
  config: Config,
  inFolder: (path: string | undefined) => string | undefined,
  located: Located,
): InputSettings {
  const onLine = options.read !== undefined || options.interface !== undefined
  const read = onLine ? options.read : inFolder(config.read)
  const name = onLine ? options.interface : config.interface
  if (read !== undefined && name !== undefined) {
    if (onLine)
      throw new UsageError('--read and --interface: a recording or an interface, not both; leave one out')
    located(['interface'], () => {
      throw new ArgumentError('read and interface: a recording or an interface, not both; leave one out')
    })
  }
  const filter = options.filter ?? config.filter
  if (name !== undefined) return { kind: 'live', interface: name, filter: filter ?? null }
  const path = required(read, 'read', 'a capture file, or - for standard input; or --interface an interface')
  const compiled = (): PacketFilter | null => (filter === undefined ? null : compileFilter(filter))
  if (options.filter === undefined) {
    return { kind: 'recorded', path, filter: located(['filter'], compiled) }
  }
  try {
    return { kind: 'recorded', path, filter: compiled() }
  } catch (error) {
    throw error instanceof ArgumentError ? new UsageError(`--filter: ${error.message}`) : error
  }
}

function foldFrom(fold: Config['fold']): FoldSettings | null {
  if (fold === false) return null
  return {
    windowSeconds: fold?.windowSeconds ?? DEFAULT_FOLD.windowSeconds,
    kindsPerDevice: fold?.kindsPerDevice ?? DEFAULT_FOLD.kindsPerDevice,
  }
}

const SYSLOG_PORT = 514

function outputsFrom(
  outputs: Config['outputs'],
  inFolder: (path: string | undefined) => string | undefined,
  located: Located,
): OutputSettings[] {
  const names = new Set(['eve'])
  return (outputs ?? []).map((output, i) => {
    const name = output.name ?? output.kind
    if (names.has(name)) {
      located(['outputs', i], () => {
        throw new ArgumentError(
          `outputs[${i}]: ${JSON.stringify(name)} is another output's; give each a name of its own`,
        )
      })
    }
    names.add(name)
    if (output.kind === 'webhook') {
      return { kind: 'webhook', name, url: output.url, tokenFile: inFolder(output.tokenFile) ?? null }
    }
    if (output.kind === 'mqtt') {
      const { url, username = null, prefix = null, homeAssistant = 'homeassistant' } = output
      const { password } = new URL(url)
      if (password !== '') {
        located(['outputs', i, 'url'], () => {
          throw new ArgumentError(`outputs[${i}].url: a password goes into a file; give passwordFile`)
        })
      }
      return {
        kind: 'mqtt',
        name,
        url,
        username,
        passwordFile: inFolder(output.passwordFile) ?? null,
        prefix,
        homeAssistant: homeAssistant === false ? null : homeAssistant,
      }
    }
    const { protocol = 'udp', host, port = SYSLOG_PORT, facility = 'daemon' } = output
    return { kind: 'syslog', name, protocol, host, port, facility: FACILITIES.indexOf(facility) }
  })
}

function devicesFrom(
  devices: Config['devices'],
  state: string | undefined,
  /** Models are made on the gateway, of devices. */
  isTraining: boolean,
  located: Located,
): DeviceSettings | null {
  if (devices === undefined) return isTraining ? DEFAULT_DEVICES : null
  const settings: DeviceSettings = {
    learnHours: devices.learnHours ?? DEFAULT_DEVICES.learnHours,
    learnFlows: devices.learnFlows ?? DEFAULT_DEVICES.learnFlows,
    stableShare: devices.stableShare ?? DEFAULT_DEVICES.stableShare,
    approve: devices.approve ?? DEFAULT_DEVICES.approve,
    maximum: devices.maximum ?? DEFAULT_DEVICES.maximum,
    floodPerMinute: devices.floodPerMinute ?? DEFAULT_DEVICES.floodPerMinute,
    inventoryMinutes: devices.inventoryMinutes ?? DEFAULT_DEVICES.inventoryMinutes,
  }
  if (state === undefined && settings.approve === 'manual') {
    located(['devices'], () => {
      throw new ArgumentError(
        'devices: nobody could approve one without a state folder, and none would be watched; give state, or approve: auto',
      )
    })
  }
  return settings
}

function modelFrom(model: string | undefined, models: ModelsSettings | null): string | null {
  return models !== null && model === undefined
    ? null
    : required(model, 'model', 'a model that oddflow train wrote, or --models to make them here')
}

function modelsFrom(
  options: RunOptions,
  config: Config,
  inFolder: (path: string | undefined) => string | undefined,
  located: Located,
): ModelsSettings | null {
  const given = config.models
  if (given === undefined && options.models === undefined) return null
  const refuse = (path: Path, message: string): never =>
    located(path, () => {
      throw new ArgumentError(message)
    })
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
    files[owner] = inFolder(file) as string
  }
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
    features: {
      packetsPerFlow: given?.features?.packetsPerFlow ?? DEFAULT_MODELS.features.packetsPerFlow,
      cutSeconds: given?.features?.cutSeconds ?? DEFAULT_MODELS.features.cutSeconds,
      idleSeconds: given?.features?.idleSeconds ?? DEFAULT_MODELS.features.idleSeconds,
    },
    rowsPerOwner: given?.rowsPerDevice ?? DEFAULT_MODELS.rowsPerOwner,
    memoryBytes:
      given?.memory === undefined
        ? DEFAULT_MODELS.memoryBytes
        : located(['models', 'memory'], () => parseBytes(String(given.memory), 'models.memory')),
    trainWithinSeconds: given?.trainWithinSeconds ?? DEFAULT_MODELS.trainWithinSeconds,
    maximum: given?.maximum ?? DEFAULT_MODELS.maximum,
  }
}

function learningFrom(
  learning: Config['learning'],
  isTraining: boolean,
  located: Located,
): LearningSettings | null {
  if (learning === undefined) return null
  if (!isTraining) {
    located(['learning'], () => {
      throw new ArgumentError(
        'learning: models that are made here learn on; give models, or let oddflow update do it',
      )
    })
  }
  if (!learning.online) return null
  return {
    rowsPerHour: learning.rowsPerHour ?? DEFAULT_LEARNING.rowsPerHour,
    everyRows: learning.everyRows ?? DEFAULT_LEARNING.everyRows,
    shadowAgrees: learning.shadowAgrees ?? DEFAULT_LEARNING.shadowAgrees,
  }
}

function budgetFrom(
  budget: Config['budget'],
  inFolder: (path: string | undefined) => string | undefined,
): BudgetSettings | null {
  if (budget === undefined) return null
  return {
    falseAlertsPerDay: budget.falseAlertsPerDay,
    per: budget.per ?? 'device',
    calibration: inFolder(budget.calibration) ?? null,
    calibrateHours: budget.calibrateHours ?? DEFAULT_CALIBRATE_HOURS,
  }
}

function networksFrom(texts: Config['localNetworks'], located: Located): Network[] {
  return (texts ?? PRIVATE_NETWORKS).map((text, i) => located(['localNetworks', i], () => parseNetwork(text)))
}

function listenFrom(options: RunOptions, config: Config, located: Located): ListenSettings | null {
  if (options.listen !== undefined) return parseListen(options.listen, '--listen')
  const text = config.listen
  return text === undefined ? null : located(['listen'], () => parseListen(text, 'listen'))
}

function evidenceFrom(
  { evidence }: Config,
  inFolder: (path: string | undefined) => string | undefined,
  located: Located,
): EvidenceSettings | null {
  if (evidence === undefined) return null
  const { directory, limit } = evidence
  const limitBytes =
    limit === undefined
      ? DEFAULT_EVIDENCE_BYTES
      : located(['evidence', 'limit'], () => parseBytes(String(limit), 'evidence.limit'))
  return { directory: inFolder(directory) ?? directory, limitBytes }
}

function dashboardFrom(options: RunOptions, config: Config, located: Located): DashboardSettings | null {
  const { dashboard } = config
  if (dashboard === undefined) return null
  const missing =
    (options.listen ?? config.listen) === undefined
      ? 'listen, such as 127.0.0.1:9477: there it is served'
      : (options.state ?? config.state) === undefined
        ? 'state: its token is kept there'
        : null
  if (missing !== null) {
    located(['dashboard'], () => {
      throw new ArgumentError(`dashboard: give ${missing}`)
    })
  }
  return { hosts: dashboard.hosts ?? [] }
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

function required(value: string | undefined, name: string, what: string): string {
  if (value === undefined || value === '') throw new UsageError(`--${name} is missing: give ${what}`)
  return value
}

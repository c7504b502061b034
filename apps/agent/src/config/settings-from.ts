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
  DEFAULT_FOLD,
  DEFAULT_SPOOL_BYTES,
  type DeviceSettings,
  FACILITIES,
  type FoldSettings,
  type InputSettings,
  type ListenSettings,
  type OutputSettings,
  type Settings,
} from '../settings.js'
import type { ReadConfig } from './read-config.js'
import type { Config } from './schema.js'

/** Options of `run` as commander gives them. */
export interface RunOptions {
  readonly config?: string
  readonly read?: string
  readonly interface?: string
  readonly filter?: string
  readonly model?: string
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
  return {
    input: inputFrom(options, config, inFolder, located),
    model: required(options.model ?? inFolder(config.model), 'model', 'a model that oddflow train wrote'),
    eve: required(options.eve ?? inFolder(config.eve), 'eve', 'the file that alerts go to'),
    devices: devicesFrom(config.devices, options.state ?? config.state, located),
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
  located: Located,
): DeviceSettings | null {
  if (devices === undefined) return null
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

/**
 * Given: what a run was told, on the command line and in a configuration file, and how it is complained of.
 *
 * What is given on the command line counts, then the file, then the default. Paths in the file are relative to the
 * folder that it lies in. A complaint about the file has line and column, one about a flag its name.
 */
import { dirname, isAbsolute, join } from 'node:path'
import { compileFilter, type PacketFilter } from '@oddflow/capture'
import { ArgumentError } from '@oddflow/core'
import { type Network, PRIVATE_NETWORKS, parseBytes, parseNetwork, UsageError } from '@oddflow/program'
import { createSuppression, type SuppressionRule } from '../alerts/suppress.js'
import type { ModelsPer } from '../models/model-scopes.js'
import type { ReadConfig } from './read-config.js'
import type { Config } from './schema.js'
import {
  type DashboardSettings,
  DEFAULT_DEVICES,
  type DeviceSettings,
  type InputSettings,
  type ListenSettings,
} from './settings.js'

/** Which end of a flow is the device, and how devices are learnt before they are watched. */

/** Throws UsageError. */
export function devicesFrom(
  { options, config, inFolder, refuse }: Given,
  /** Models are made on the gateway, of devices. */
  isTraining: boolean,
): DeviceSettings | null {
  const { devices } = config
  if (devices === undefined) return isTraining ? DEFAULT_DEVICES : null
  const settings: DeviceSettings = {
    learnHours: devices.learnHours ?? DEFAULT_DEVICES.learnHours,
    judgeHours: devices.judgeHours ?? DEFAULT_DEVICES.judgeHours,
    learnFlows: devices.learnFlows ?? DEFAULT_DEVICES.learnFlows,
    stableShare: devices.stableShare ?? DEFAULT_DEVICES.stableShare,
    approve: devices.approve ?? DEFAULT_DEVICES.approve,
    maximum: devices.maximum ?? DEFAULT_DEVICES.maximum,
    floodPerMinute: devices.floodPerMinute ?? DEFAULT_DEVICES.floodPerMinute,
    inventoryMinutes: devices.inventoryMinutes ?? DEFAULT_DEVICES.inventoryMinutes,
    vendors: devices.vendors === false ? false : (inFolder(devices.vendors) ?? DEFAULT_DEVICES.vendors),
  }
  if ((options.state ?? config.state) === undefined && settings.approve === 'manual') {
    refuse(
      ['devices'],
      'devices: without a state folder no device can be approved or watched; give state, or approve: auto',
    )
  }
  return settings
}

/** Throws UsageError. */
export function networksFrom({ config, located }: Given): Network[] {
  return (config.localNetworks ?? PRIVATE_NETWORKS).map((text, i) =>
    located(['localNetworks', i], () => parseNetwork(text)),
  )
}

/** The rules of suppression: each can hold, and has a name of its own. */

/** Throws UsageError. */
export function suppressFrom({ config, located, refuse }: Given): readonly SuppressionRule[] {
  const rules = config.suppress ?? []
  located(['suppress'], () => createSuppression(rules))
  for (const [i, { name }] of rules.entries()) {
    if (rules.findIndex((other) => other.name === name) === i) continue
    refuse(
      ['suppress', i, 'name'],
      `suppress[${i}].name: ${JSON.stringify(name)} is another rule's; give each its own`,
    )
  }
  return rules
}

/** Where the agent listens, and whether it shows a dashboard there. */

/** null: nowhere. Throws UsageError. */
export function listenFrom({ options, config, located }: Given): ListenSettings | null {
  if (options.listen !== undefined) return parseListen(options.listen, '--listen')
  const text = config.listen
  return text === undefined ? null : located(['listen'], () => parseListen(text, 'listen'))
}

/** null: there is none. Throws UsageError. */
export function dashboardFrom({ options, config, refuse }: Given): DashboardSettings | null {
  const { dashboard } = config
  if (dashboard === undefined) return null
  const missing =
    (options.listen ?? config.listen) === undefined
      ? 'listen, such as 127.0.0.1:9477: there it is served'
      : (options.state ?? config.state) === undefined
        ? 'state: its token is kept there'
        : null
  if (missing !== null) {
    refuse(['dashboard'], `dashboard: give ${missing}`)
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

export interface Given {
  readonly options: RunOptions
  /** Empty where there is no file. */
  readonly config: Config
  /** A path of the file, from the folder where the agent was started. */
  inFolder<T extends string | undefined>(path: T): T
  /** Runs a check; its complaint (an ArgumentError or a UsageError) is given the place of `path` in the file. */
  located<T>(path: Path, work: () => T): T
  /** Throws the complaint, with the place of `path` in the file. */
  refuse(path: Path, message: string): never
  /** A number of bytes such as 64M in the file. */
  bytes(path: Path, value: string | number | undefined, otherwise: number): number
}

/** @param file - null where there is none. */
export function createGiven(options: RunOptions, file: ReadConfig | null): Given {
  const name = options.config ?? ''
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
    config: file?.config ?? {},
    inFolder: <T extends string | undefined>(path: T): T =>
      path === undefined || path === '-' || isAbsolute(path)
        ? path
        : (join(dirname(options.config ?? '.'), path) as T),
    located,
    refuse: (path, message) =>
      located(path, () => {
        throw new ArgumentError(message)
      }),
    bytes: (path, value, otherwise) =>
      value === undefined ? otherwise : located(path, () => parseBytes(String(value), path.join('.'))),
  }
}

/** Throws UsageError where there is none. */
export function required(value: string | undefined, name: string, what: string): string {
  if (value === undefined || value === '') throw new UsageError(`--${name} is missing: give ${what}`)
  return value
}

/** "[0].device" → [0, 'device'] */
function fieldPath(field: string | undefined): Path {
  if (field?.startsWith('[') !== true) return []
  return Array.from(field.matchAll(/\[(\d+)\]|\.?(\w+)/g), ([, index, key]) =>
    index === undefined ? key : Number(index),
  )
}

/** As Linux allows (dev_valid_name), without control characters. */
export function isInterfaceName(name: string): boolean {
  return /^[^\s/\p{C}]+$/u.test(name) && Buffer.byteLength(name) <= 15 && name !== '.' && name !== '..'
}

export function interfaceText(name: string): string {
  return `expected the name of an interface, at most 15 bytes without spaces, found ${JSON.stringify(name.slice(0, 40))}`
}

/** What is watched: a recording or an interface, and of it what a filter lets through. */

/** Throws UsageError. */
export function inputFrom({ options, config, inFolder, located, refuse }: Given): InputSettings {
  const onLine = options.read !== undefined || options.interface !== undefined
  const read = onLine ? options.read : inFolder(config.read)
  const name = onLine ? options.interface : config.interface
  if (read !== undefined && name !== undefined) {
    if (onLine)
      throw new UsageError('--read and --interface: a recording or an interface, not both; leave one out')
    refuse(['interface'], 'read and interface: a recording or an interface, not both; leave one out')
  }
  const filter = options.filter ?? config.filter
  if (name !== undefined) {
    if (!isInterfaceName(name)) {
      if (onLine) throw new UsageError(`--interface: ${interfaceText(name)}`)
      refuse(['interface'], `interface: ${interfaceText(name)}`)
    }
    return { kind: 'live', interface: name, filter: filter ?? null }
  }
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

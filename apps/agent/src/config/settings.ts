/** Settings: what a run is to do, from the command line or a configuration file, after every check. */

import type { PacketFilter } from '@oddflow/capture'
import { DEFAULT_SUMMARY_TIMEOUTS } from '@oddflow/flows'
import type { Network } from '@oddflow/program'
import { parse } from 'valibot'
import type { OutputSettings } from '../outputs/registry.js'
import { type Config, DevicesSchema } from './schema.js'

/** A section of the configuration; its paths go from the folder where the agent was started. */
type Section<Name extends keyof Config> = Readonly<Exclude<Config[Name], undefined | false>>

export type FoldSettings = Section<'fold'>
/** How models that were made here learn on while they watch. */
export type LearningSettings = Omit<Section<'learning'>, 'online'>

export type InputSettings =
  | {
      readonly kind: 'recorded'
      /** A capture file, - for standard input. */
      readonly path: string
      readonly filter: PacketFilter | null
    }
  | {
      readonly kind: 'live'
      readonly interface: string
      /** In tcpdump's language; the kernel filters, so what it takes out is not captured. */
      readonly filter: string | null
    }

export interface ListenSettings {
  readonly host: string
  /** 0: one that is free. */
  readonly port: number
}

export interface DashboardSettings {
  /** Names of the machine in browsers, beside its addresses and localhost. */
  readonly hosts: readonly string[]
}

export interface EvidenceSettings {
  readonly directory: string
  readonly limitBytes: number
}

export interface BudgetSettings extends Omit<Section<'budget'>, 'calibration'> {
  /** null: the agent calibrates itself. */
  readonly calibration: string | null
}

export interface DeviceSettings extends Omit<Section<'devices'>, 'vendors'> {
  /** A registry of MAC prefixes; null: one that is found on the machine, false: none. */
  readonly vendors: string | false | null
}

/** How rows are made of models that are made on the gateway, where no model says so. */
export interface FeatureSettings {
  readonly set: 'iat-size' | 'flow-summary'
  /** p: packets that a row of iat-size is about. */
  readonly packetsPerFlow: number
  /** A flow is cut into pieces of this length; null: it is not. */
  readonly cutSeconds: number | null
  /** A silence longer than this ends a flow; one of a single packet is judged then. */
  readonly idleSeconds: number
}

export interface ModelsSettings extends Omit<Section<'models'>, 'memory' | 'groups' | 'features'> {
  /** Devices by the name of their group; empty but for `per: group`. */
  readonly groups: Readonly<Record<string, readonly string[]>>
  readonly features: FeatureSettings
  /** Of the rows of all owners that learn. */
  readonly memoryBytes: number
}

export interface Settings extends Readonly<Pick<Config, 'dropDuplicates' | 'allowRoot' | 'suppress'>> {
  readonly input: InputSettings
  /** The shared model, for devices without their own model; null if there is none (with `models` alone). */
  readonly model: string | null
  /** The public key by which `model` and the files of `models` must be signed; null: by none. */
  readonly modelKey: string | null
  /** null: nothing is trained on the gateway. */
  readonly models: ModelsSettings | null
  /** null: models stay as they were trained. */
  readonly learning: LearningSettings | null
  readonly eve: string
  /** Where alerts go beside the EVE file. */
  readonly outputs: readonly OutputSettings[]
  /** null: the model's own threshold decides, and of a model that is made here the default rate (models/progress.ts). */
  readonly budget: BudgetSettings | null
  /** null: every device is watched from the start, and none is kept. */
  readonly devices: DeviceSettings | null
  /** Outputs that get the names of peers; null: names are not looked for. */
  readonly peerNames: readonly string[] | null
  /** null: every alert is given out by itself. */
  readonly fold: FoldSettings | null
  /** End when the input ends. */
  readonly once: boolean
  /** null: alerts are kept in memory alone. */
  readonly state: string | null
  readonly spoolBytes: number
  readonly memoryLimitBytes: number
  /** Where metrics are served; null for nowhere. */
  readonly listen: ListenSettings | null
  /** null: no packets are kept. */
  readonly evidence: EvidenceSettings | null
  /** A page at `listen`; null for none. */
  readonly dashboard: DashboardSettings | null
  readonly localNetworks: readonly Network[]
}

export const DEFAULT_DEVICES: DeviceSettings = { ...parse(DevicesSchema, {}), vendors: null }

/** Of models that learn on, too. */
const FIRST_PACKETS: FeatureSettings = {
  set: 'iat-size',
  packetsPerFlow: 10,
  cutSeconds: 60,
  idleSeconds: 60,
}
const { idleTimeoutMicros, activeTimeoutMicros } = DEFAULT_SUMMARY_TIMEOUTS
export const DEFAULT_FEATURES: Readonly<Record<FeatureSettings['set'], FeatureSettings>> = {
  'iat-size': FIRST_PACKETS,
  'flow-summary': {
    ...FIRST_PACKETS,
    set: 'flow-summary',
    cutSeconds: activeTimeoutMicros === null ? null : activeTimeoutMicros / 1e6,
    idleSeconds: idleTimeoutMicros / 1e6,
  },
}

/** Settings: what a run is to do, from the command line or a configuration file, after every check. */

import type { PacketFilter } from '@oddflow/capture'
import { DEFAULT_SUMMARY_TIMEOUTS } from '@oddflow/flows'
import type { Network } from '@oddflow/program'
import type { SuppressionRule } from '../alerts/suppress.js'
import type { ModelsPer } from '../models/model-scopes.js'
import type { OutputSettings } from '../outputs/registry.js'

export interface FoldSettings {
  readonly windowSeconds: number
  readonly kindsPerDevice: number
}

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

export interface EvidenceSettings {
  readonly directory: string
  readonly limitBytes: number
}

export interface DashboardSettings {
  /** Names of the machine in browsers, beside its addresses and localhost. */
  readonly hosts: readonly string[]
}

export interface BudgetSettings {
  readonly falseAlertsPerDay: number
  /** Whether so many of the whole network, or of each device. */
  readonly per: 'device' | 'network'
  /** A file that `oddflow-agent calibrate` made; null: the agent calibrates itself. */
  readonly calibration: string | null
  /** An agent that calibrates itself watches for so long before the budget's threshold counts. */
  readonly calibrateHours: number
}

export interface DeviceSettings {
  /** A device is ready when it was seen for so long, */
  readonly learnHours: number
  /** After so long it is judged whatever it has shown, with what that can promise; never before `learnHours`. */
  readonly judgeHours: number
  /** has had so many verdicts, */
  readonly learnFlows: number
  /** and at most so large a share of its recent ones was novel. */
  readonly stableShare: number
  /** `auto`: a device that is ready is watched without a person's word. */
  readonly approve: 'manual' | 'auto'
  /** Devices that are known at most. */
  readonly maximum: number
  /** New devices in a minute beyond which one alert stands for all. */
  readonly floodPerMinute: number
  /** An agent that knows no device raises no alerts of new ones for so long. */
  readonly inventoryMinutes: number
  /** A registry of MAC prefixes; null: one that is found on the machine, false: none. */
  readonly vendors: string | false | null
}

/** Of the rows of models that are made on the gateway, where no model says how. */
export interface FeatureSettings {
  readonly set: 'iat-size' | 'flow-summary'
  /** p: packets that a row of iat-size is about. */
  readonly packetsPerFlow: number
  /** A flow is cut into pieces of this length; null: it is not. */
  readonly cutSeconds: number | null
  /** A silence longer than this ends a flow; one of a single packet is judged then. */
  readonly idleSeconds: number
}

export interface ModelsSettings {
  readonly per: ModelsPer
  /** Devices by the name of their group; empty but for `per: group`. */
  readonly groups: Readonly<Record<string, readonly string[]>>
  /** Files of models that were trained elsewhere, by owner: a device, a group, or `all`. */
  readonly files: Readonly<Record<string, string>>
  /** Where neither `model` nor `files` says how rows are made. */
  readonly features: FeatureSettings
  /** Rows of an owner that are kept to train with. */
  readonly rowsPerScope: number
  /** Of the rows of all owners that learn. */
  readonly memoryBytes: number
  readonly trainWithinSeconds: number
  /** Models in memory at most. */
  readonly maximum: number
}

/** How models that were made here learn on while they watch. */
export interface LearningSettings {
  /** Of one device, at most. */
  readonly rowsPerHour: number
  /** Rows of an owner after which its model learns from them. */
  readonly everyRows: number
  /** Learn only what the model as it was trained finds normal too. */
  readonly shadowAgrees: boolean
}

export interface Settings {
  readonly input: InputSettings
  /** Copies of a packet are in no flow. */
  readonly dropDuplicates: boolean
  /** The model of all, or of those that have none of their own; null: there is none (with `models` alone). */
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
  /** null: the model's own threshold decides; of models that are made here see DEFAULT_FALSE_ALERTS_PER_DAY. */
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
  /** The agent runs as root where it is asked to. */
  readonly allowRoot: boolean
  readonly localNetworks: readonly Network[]
  readonly suppress: readonly SuppressionRule[]
}

export const DEFAULT_FOLD: FoldSettings = { windowSeconds: 60, kindsPerDevice: 16 }
export const DEFAULT_DEVICES: DeviceSettings = {
  learnHours: 24,
  judgeHours: 48,
  learnFlows: 100,
  stableShare: 0.05,
  approve: 'manual',
  maximum: 4096,
  floodPerMinute: 16,
  inventoryMinutes: 60,
  vendors: null,
}
/** Of models that learn on, too. */
export const FIRST_PACKETS: FeatureSettings = {
  set: 'iat-size',
  packetsPerFlow: 10,
  cutSeconds: 60,
  idleSeconds: 60,
}
const { idleTimeoutMicros, activeTimeoutMicros } = DEFAULT_SUMMARY_TIMEOUTS
export const WHOLE_FLOWS: FeatureSettings = {
  ...FIRST_PACKETS,
  set: 'flow-summary',
  cutSeconds: activeTimeoutMicros === null ? null : activeTimeoutMicros / 1e6,
  idleSeconds: idleTimeoutMicros / 1e6,
}
export const DEFAULT_MODELS: ModelsSettings = {
  per: 'device',
  groups: {},
  files: {},
  features: WHOLE_FLOWS,
  rowsPerScope: 1000,
  memoryBytes: 4 * 1_048_576,
  trainWithinSeconds: 60,
  maximum: 64,
}
export const DEFAULT_LEARNING: LearningSettings = { rowsPerHour: 60, everyRows: 100, shadowAgrees: true }
export const DEFAULT_CALIBRATE_HOURS = 24
/** Of a device whose model is made here, where no budget says otherwise: at most so many, and 1 % of its flows. */
export const DEFAULT_FALSE_ALERTS_PER_DAY = 1
export const DEFAULT_EVIDENCE_BYTES = 16 * 1_048_576
export const DEFAULT_SPOOL_BYTES = 64 * 1_048_576

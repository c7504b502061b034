/**
 * The configuration file's shape and defaults, and Settings: what a run is to do, from the command line or that file, after every check.
 *
 * agent.schema.json, for editors, is made from ConfigSchema (test/config/read-config.test.ts). Every object is strict: a key that is not
 * known is an error, since a misspelt one would otherwise do nothing. settings-from.ts checks what depends on other keys or on the machine.
 */
import type { PacketFilter } from '@oddflow/capture'
import { DEFAULT_SUMMARY_TIMEOUTS } from '@oddflow/flows'
import { type Network, PRIVATE_NETWORKS } from '@oddflow/program'
import * as v from 'valibot'
import { SuppressionSchema } from '../alerts/suppress.js'
import { choice, flag, number, optional, path, text, whole } from '../outputs/output.js'
import { OutputSchema, type OutputSettings } from '../outputs/registry.js'

const bytes = (what: string) =>
  v.pipe(v.union([v.string(), v.pipe(v.number(), v.integer(), v.minValue(1))]), v.description(what))
/** A MAC address or an address in lower case, or a name. */
const ownerName = v.pipe(
  v.string(),
  v.regex(/^[0-9a-z][0-9a-z:.-]{0,63}$/, 'at most 64 lowercase letters, digits, colons, dots and hyphens'),
)

export const ModelsSchema = v.strictObject(
  optional(
    {
      per: choice(
        ['device', 'group', 'all'],
        'Make one model for each device (default), one for each group, or one for all devices.',
      ),
      groups: v.pipe(
        v.record(ownerName, v.pipe(v.array(text('A MAC address, or an address.')), v.maxLength(4096))),
        v.description(
          'For per: group, the devices of each named group. All other devices form the group "other".',
        ),
      ),
      files: v.pipe(
        v.record(ownerName, path('A model that oddflow train wrote.')),
        v.description('Models that were trained elsewhere. The key is a MAC address, a group, or all.'),
      ),
      features: v.strictObject(
        optional({
          set: choice(
            ['iat-size', 'flow-summary'],
            'What a row describes: the whole flow (flow-summary, the default) or its first packets (iat-size). With learning.online, iat-size is the default and the only choice.',
          ),
          packetsPerFlow: whole(
            2,
            500,
            'Number of packets p that a row of iat-size describes (10); D = 2p − 1. Not allowed with a model from elsewhere.',
          ),
          cutSeconds: number(
            0.000_001,
            86_400,
            'Cut flows into pieces of this many seconds, and judge each piece at the cut at the latest (300; iat-size: 60).',
          ),
          idleSeconds: number(
            0.001,
            86_400,
            'End a flow after this many seconds without a packet, and judge it then at the latest (300; iat-size: 60).',
          ),
        }),
      ),
      rowsPerDevice: whole(
        20,
        100_000,
        'Maximum number of rows of a device kept for training, sampled from all its rows (1000).',
      ),
      memory: bytes('Memory for the training rows of all devices that learn at the same time, such as 4M.'),
      trainWithinSeconds: whole(1, 3600, 'Stop a training that takes longer (60).'),
      maximum: whole(1, 4096, 'Maximum number of models in memory (64).'),
    },
    { per: 'device', files: {}, rowsPerDevice: 1000, memory: '4M', trainWithinSeconds: 60, maximum: 64 },
  ),
)

export const DevicesSchema = v.strictObject(
  optional(
    {
      learnHours: number(0, 8760, 'Hours from the first flow of a device until it can be ready (24).'),
      judgeHours: number(
        0,
        8760,
        'Hours after which a device is ready even with few flows (48). At least learnHours.',
      ),
      learnFlows: whole(1, 1e9, 'Number of judged flows of a device before it can be ready (100).'),
      stableShare: number(
        0,
        1,
        'A device can be ready if at most this share of its recent flows is novel (0.05).',
      ),
      approve: choice(
        ['manual', 'auto'],
        'Watch a ready device only after a person approves it (manual, the default), or at once (auto).',
      ),
      maximum: whole(1, 65_536, 'Maximum number of devices to keep (4096).'),
      floodPerMinute: whole(1, 65_536, 'Report more new devices per minute than this as one alert (16).'),
      inventoryMinutes: whole(
        0,
        10_080,
        'Minutes after the start with an empty device table in which new devices are not reported (60).',
      ),
      vendors: v.union([
        v.literal(false),
        path(
          'A registry of MAC prefixes for the names of vendors: IEEE oui.txt, Wireshark manuf or nmap-mac-prefixes. By default the agent looks where the packages install them. false: no vendor names.',
        ),
      ]),
    },
    {
      ...{ learnHours: 24, judgeHours: 48, learnFlows: 100, stableShare: 0.05, approve: 'manual' },
      ...{ maximum: 4096, floodPerMinute: 16, inventoryMinutes: 60 },
    },
  ),
)

const LearningSchema = v.strictObject({
  online: flag(
    'Update the models made here with flows of watched devices (false). This needs rows of iat-size.',
  ),
  ...optional(
    {
      rowsPerHour: whole(1, 100_000, 'Maximum number of rows of a device to learn per hour (60).'),
      everyRows: whole(20, 1000, 'Update a model each time it has this many new rows (100).'),
      shadowAgrees: flag(
        'Learn only rows that the original model, as it was before all updates, finds normal too (true).',
      ),
    },
    { rowsPerHour: 60, everyRows: 100, shadowAgrees: true },
  ),
})

const EvidenceSchema = v.strictObject({
  directory: path("A folder for small captures of alerts' flows. Keep no other files in it."),
  limit: v.optional(bytes('Maximum size of these captures together (16M).'), '16M'),
})

const hostName = v.pipe(
  v.string(),
  v.maxLength(253),
  v.regex(/^[A-Za-z0-9._-]+$/, 'letters, digits, dots, underscores and hyphens'),
  v.description("A further host name of this machine in the dashboard's URL."),
)

const BudgetSchema = v.strictObject({
  falseAlertsPerDay: number(1e-6, 1e6, 'Average number of false alerts per day to allow, such as 1 or 0.1.'),
  ...optional(
    {
      per: choice(
        ['device', 'network'],
        'Whether the budget applies to each device (default) or to the whole network.',
      ),
      calibration: path('A file that oddflow-agent calibrate wrote. Without it the agent calibrates itself.'),
      calibrateHours: whole(1, 8760, 'Hours that the agent watches before it uses its own calibration (24).'),
    },
    { per: 'device', calibrateHours: 24 },
  ),
})

const FoldSchema = v.strictObject(
  optional(
    {
      windowSeconds: whole(1, 86_400, 'Combine similar alerts within this many seconds into one (60).'),
      kindsPerDevice: whole(
        1,
        1024,
        'Number of kinds of alerts of a device that are combined separately (16). All further kinds are combined into one alert.',
      ),
    },
    { windowSeconds: 60, kindsPerDevice: 16 },
  ),
)

export const ConfigSchema = v.strictObject(
  optional(
    {
      read: path('A capture file, or - for standard input. Not together with interface.'),
      interface: text('A network interface, recorded by tcpdump.'),
      filter: v.pipe(
        v.string(),
        v.maxLength(65_536),
        v.description("Which packets to watch, in tcpdump's syntax."),
      ),
      dropDuplicates: flag(
        'Ignore copies of a packet within 1 ms, as recorded by mirror ports and the interface "any" (false).',
      ),
      model: path('A model that oddflow train wrote from captures.'),
      modelKey: path(
        'A public key (Ed25519, PEM). The agent then refuses models from elsewhere that oddflow sign did not sign with the matching private key.',
      ),
      models: ModelsSchema,
      learning: LearningSchema,
      eve: path('The alert file. The agent appends alerts as EVE JSON lines.'),
      outputs: v.pipe(
        v.array(OutputSchema),
        v.maxLength(16),
        v.description('Further outputs for alerts, in addition to the EVE file.'),
      ),
      state: path(
        'The state folder. The agent keeps undelivered alerts, devices, models and incidents in it.',
      ),
      spoolLimit: bytes('Maximum size of undelivered alerts in the state folder, such as 64M.'),
      allowRoot: flag('Allow the agent to run as root (false). It needs no root privileges.'),
      memoryLimit: bytes('Limit on resident memory, such as 128M.'),
      listen: text(
        'HOST:PORT of the HTTP server for /metrics, /healthz and the dashboard, such as 127.0.0.1:9477.',
      ),
      evidence: EvidenceSchema,
      dashboard: v.strictObject({
        hosts: v.optional(v.pipe(v.array(hostName), v.maxLength(16)), []),
      }),
      budget: BudgetSchema,
      devices: DevicesSchema,
      fold: v.union([v.literal(false), FoldSchema]),
      peerNames: v.pipe(
        v.array(text('The name of an output, or eve.')),
        v.maxLength(64),
        v.description(
          'Collect names of the peers of watched devices from DNS answers and TLS connections, keep them for 7 days, and add them to the events for these outputs. With an empty list, only the dashboard and the command line show the names.',
        ),
      ),
      localNetworks: v.pipe(v.array(text('An address or a network.')), v.maxLength(256)),
      suppress: v.pipe(v.array(SuppressionSchema), v.maxLength(1024)),
    },
    {
      ...{ dropDuplicates: false, outputs: [], spoolLimit: '64M', allowRoot: false, fold: {}, suppress: [] },
      localNetworks: PRIVATE_NETWORKS,
    },
  ),
)

export type Config = v.InferOutput<typeof ConfigSchema>

/** "suppress[0].device" */
export function pathText(path: readonly (string | number)[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : text === '' ? key : `${text}.${key}`),
    '',
  )
}

/** A section of the configuration; its paths are relative to the agent's working directory. */
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

/** The rows of models that are made on the gateway, unless a given model determines them. */
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

export const DEFAULT_DEVICES: DeviceSettings = { ...v.parse(DevicesSchema, {}), vendors: null }

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

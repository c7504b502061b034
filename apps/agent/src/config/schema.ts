/**
 * The configuration file's shape. agent.schema.json, for editors, is made from it (test/config/schema.test.ts).
 *
 * Every object is strict: a key that is not known is an error, since a misspelt one would otherwise do nothing.
 * What depends on other keys or on the machine is checked behind it, in settings-from.ts.
 */
import * as v from 'valibot'
import { DAYS, PROTOCOLS, RULES } from '../alerts/suppress.js'
import { OutputSchema } from '../outputs/registry.js'
import { path, text, whole } from './schema-parts.js'

const bytes = (what: string) =>
  v.pipe(v.union([v.string(), v.pipe(v.number(), v.integer(), v.minValue(1))]), v.description(what))
const time = (what: string) =>
  v.pipe(
    v.string(),
    v.regex(/^(([01]\d|2[0-3]):[0-5]\d|24:00)$/, 'a time of day (HH:MM)'),
    v.description(what),
  )

const suppression = v.strictObject({
  name: text('What the rule is counted under; every rule has its own.'),
  device: v.optional(text('A MAC address, an address or a network.')),
  peer: v.optional(text('The other end: an address or a network.')),
  protocol: v.optional(v.picklist(PROTOCOLS)),
  port: v.optional(whole(0, 65_535, "The service's port: the lower of the two.")),
  rule: v.optional(v.picklist(RULES)),
  days: v.optional(v.pipe(v.array(v.picklist(DAYS)), v.minLength(1), v.maxLength(7))),
  from: v.optional(time('Time of day, HH:MM, of the machine; with until.')),
  until: v.optional(time('Time of day, HH:MM, of the machine; with from.')),
})

/** A MAC address or an address in lower case, or a name. */
const ownerName = v.pipe(
  v.string(),
  v.regex(/^[0-9a-z][0-9a-z:.-]{0,63}$/, 'at most 64 lowercase letters, digits, colons, dots and hyphens'),
)

export const ConfigSchema = v.strictObject({
  read: v.optional(path('A capture file, or - for standard input. Not together with interface.')),
  interface: v.optional(text('A network interface, recorded by tcpdump.')),
  filter: v.optional(
    v.pipe(v.string(), v.maxLength(65_536), v.description("What to watch, in tcpdump's words.")),
  ),
  dropDuplicates: v.optional(
    v.pipe(
      v.boolean(),
      v.description(
        'Leave out copies of a packet within 1 ms, as mirror ports and the interface any record them (false).',
      ),
    ),
  ),
  model: v.optional(path('A model that oddflow train wrote from captures.')),
  modelKey: v.optional(
    path(
      'A public key of Ed25519, in PEM: models from elsewhere are refused unless oddflow sign has signed them.',
    ),
  ),
  models: v.optional(
    v.strictObject({
      per: v.optional(
        v.pipe(
          v.picklist(['device', 'group', 'all']),
          v.description('Whose models are made on the gateway: one of each device (default), group, or all.'),
        ),
      ),
      groups: v.optional(
        v.pipe(
          v.record(ownerName, v.pipe(v.array(text('A MAC address, or an address.')), v.maxLength(4096))),
          v.description(
            'Devices by the name of their group, for per: group; those of none are the group other.',
          ),
        ),
      ),
      files: v.optional(
        v.pipe(
          v.record(ownerName, path('A model that oddflow train wrote.')),
          v.description('Models that were trained elsewhere, by MAC address, by group, or under all.'),
        ),
      ),
      features: v.optional(
        v.strictObject({
          set: v.optional(
            v.pipe(
              v.picklist(['iat-size', 'flow-summary']),
              v.description(
                'What a row is made of: the whole flow (flow-summary, the default), or its first packets (iat-size): the default, and the only one that can, where models learn on.',
              ),
            ),
          ),
          packetsPerFlow: v.optional(
            whole(
              2,
              500,
              'Packets that a row of iat-size is about, p (10); D = 2p − 1. Not with a model from elsewhere.',
            ),
          ),
          cutSeconds: v.optional(
            v.pipe(
              v.number(),
              v.minValue(0.000_001),
              v.maxValue(86_400),
              v.description(
                'A flow is cut into pieces of so many seconds (300; iat-size: 60), and judged by then.',
              ),
            ),
          ),
          idleSeconds: v.optional(
            v.pipe(
              v.number(),
              v.minValue(0.001),
              v.maxValue(86_400),
              v.description(
                'A silence of more seconds (300; iat-size: 60) ends a flow, which is judged then if it was not before.',
              ),
            ),
          ),
        }),
      ),
      rowsPerDevice: v.optional(whole(20, 100_000, 'Rows kept to train with, a sample of all (1000).')),
      memory: v.optional(bytes('Of the rows of all that learn at the same time, such as 4M.')),
      trainWithinSeconds: v.optional(whole(1, 3600, 'A training that takes longer is ended (60).')),
      maximum: v.optional(whole(1, 4096, 'Models in memory at most (64).')),
    }),
  ),
  learning: v.optional(
    v.strictObject({
      online: v.pipe(
        v.boolean(),
        v.description(
          'Whether models that are made here learn on from the flows of watched devices; their rows are then of iat-size.',
        ),
      ),
      rowsPerHour: v.optional(whole(1, 100_000, 'Rows of a device that it learns from in an hour (60).')),
      everyRows: v.optional(whole(20, 1000, 'A model learns when there are so many rows (100).')),
      shadowAgrees: v.optional(
        v.pipe(
          v.boolean(),
          v.description('Learn only what the model as it was trained finds normal too (true).'),
        ),
      ),
    }),
  ),
  eve: v.optional(path('Where alerts go: EVE JSON lines at the end of this file.')),
  outputs: v.optional(
    v.pipe(v.array(OutputSchema), v.maxLength(16), v.description('Where alerts go beside the EVE file.')),
  ),
  state: v.optional(path('A folder in which alerts are kept until they are delivered.')),
  spoolLimit: v.optional(bytes('Bytes that undelivered alerts may take in it, such as 64M.')),
  allowRoot: v.optional(
    v.pipe(
      v.boolean(),
      v.description(
        'Whether the agent runs as root, which it refuses otherwise (false); it needs no right of root.',
      ),
    ),
  ),
  memoryLimit: v.optional(bytes('Ceiling on resident memory, such as 128M.')),
  listen: v.optional(text('HOST:PORT at which /metrics is served, such as 127.0.0.1:9477.')),
  evidence: v.optional(
    v.strictObject({
      directory: path("A folder for small captures of alerts' flows; with nothing else in it."),
      limit: v.optional(bytes('Bytes that they may take, such as 16M (the default).')),
    }),
  ),
  dashboard: v.optional(
    v.strictObject({
      hosts: v.optional(
        v.pipe(
          v.array(
            v.pipe(
              v.string(),
              v.maxLength(253),
              v.regex(/^[A-Za-z0-9._-]+$/, 'letters, digits, dots, underscores and hyphens'),
              v.description('A name by which browsers call this machine.'),
            ),
          ),
          v.maxLength(16),
        ),
      ),
    }),
  ),
  budget: v.optional(
    v.strictObject({
      falseAlertsPerDay: v.pipe(
        v.number(),
        v.minValue(1e-6),
        v.maxValue(1e6),
        v.description('False alerts that are bearable, in the mean of days; such as 1, or 0.1.'),
      ),
      per: v.optional(
        v.pipe(
          v.picklist(['device', 'network']),
          v.description('Whether so many of each device (default) or of the whole network.'),
        ),
      ),
      calibration: v.optional(
        path('A file that oddflow-agent calibrate made; without it the agent calibrates itself.'),
      ),
      calibrateHours: v.optional(
        whole(1, 8760, 'Hours that an agent watches before its own calibration counts (24).'),
      ),
    }),
  ),
  devices: v.optional(
    v.strictObject({
      learnHours: v.optional(
        v.pipe(
          v.number(),
          v.minValue(0),
          v.maxValue(8760),
          v.description('Hours for which a device is seen before it can be ready (24).'),
        ),
      ),
      judgeHours: v.optional(
        v.pipe(
          v.number(),
          v.minValue(0),
          v.maxValue(8760),
          v.description(
            'Hours after which a device is judged with the flows that there are, and its alerts are given; not before learnHours (48).',
          ),
        ),
      ),
      learnFlows: v.optional(whole(1, 1e9, 'Verdicts on its flows before it can be ready (100).')),
      stableShare: v.optional(
        v.pipe(
          v.number(),
          v.minValue(0),
          v.maxValue(1),
          v.description('Share of its recent flows that may be novel in one that is ready (0.05).'),
        ),
      ),
      approve: v.optional(
        v.pipe(
          v.picklist(['manual', 'auto']),
          v.description('Whether a person has to approve a device that is ready (manual), or nobody.'),
        ),
      ),
      maximum: v.optional(whole(1, 65_536, 'Devices that are known at most (4096).')),
      floodPerMinute: v.optional(
        whole(1, 65_536, 'New devices in a minute beyond which one alert stands for all (16).'),
      ),
      inventoryMinutes: v.optional(
        whole(0, 10_080, 'An agent that knows no device tells of no new ones for so long (60).'),
      ),
      vendors: v.optional(
        v.union([
          v.literal(false),
          path(
            'A registry of MAC prefixes by which vendors are named: IEEE oui.txt, Wireshark manuf or nmap-mac-prefixes; found where their packages put them unless it is given. false: none is read.',
          ),
        ]),
      ),
    }),
  ),
  fold: v.optional(
    v.union([
      v.literal(false),
      v.strictObject({
        windowSeconds: v.optional(whole(1, 86_400, 'Alike alerts within so long are one.')),
        kindsPerDevice: v.optional(
          whole(1, 1024, 'Kinds of alerts of a device before the further ones are one.'),
        ),
      }),
    ]),
  ),
  peerNames: v.optional(
    v.pipe(
      v.array(text('The name of an output, or eve.')),
      v.maxLength(64),
      v.description(
        'Names of the peers of watched devices, from DNS answers and TLS connections, are kept for 7 days, and these outputs get them; an empty list for the dashboard and the command line alone.',
      ),
    ),
  ),
  localNetworks: v.optional(v.pipe(v.array(text('An address or a network.')), v.maxLength(256))),
  suppress: v.optional(v.pipe(v.array(suppression), v.maxLength(1024))),
})

export type Config = v.InferOutput<typeof ConfigSchema>

/**
 * NATS: every event to a JetStream stream of a fleet, on a subject of this gateway alone:
 *
 *     oddflow.gateway.NAME.event    an EVE event; the message's id is NAME and the event's, since two gateways that see the
 *                                   same flow can make the same event
 *     oddflow.gateway.NAME.status   how the agent is, once a minute; each replaces the one before
 *
 * Delivered means stored: the server acknowledges each event, and drops one that comes twice under the same id. The gateway logs in
 * with an nkey (Ed25519). Answers come to `_INBOX.NAME`, so the server can give each gateway the right to these names alone.
 */
import type { JetStreamClient } from '@nats-io/jetstream'
import type { ConnectionOptions, NatsConnection } from '@nats-io/transport-node'
import {
  directGetSubject,
  encodeModelState,
  FLEET_NAME,
  limitNatsTransport,
  MODELS_BUCKET,
  modelStateSubject,
  modelSubject,
  type NatsLimitOptions,
  offerSubject,
} from '@oddflow/program'
import * as v from 'valibot'
import type { FleetModels } from '../fleet/fleet-models.js'
import type { Clock } from '../input/clocks.js'
import { withinMillis } from '../pipeline/shutdown.js'
import {
  type AgentStatus,
  allDone,
  defineOutput,
  type Output,
  type OutputEnvironment,
  originOf,
  path,
  RefusedError,
  readCertificates,
  readSeed,
  type SettingsOf,
  urlOf,
} from './output.js'

const fleetName = (what: string) =>
  v.pipe(
    v.string(),
    v.regex(FLEET_NAME, 'at most 63 lowercase letters, digits and hyphens'),
    v.description(what),
  )

const entries = {
  url: urlOf(
    /^(nats|tls):\/\/[^@/]+\/?$/,
    'a URL of nats or tls, without a user',
    'The server, such as tls://fleet.example:4222.',
  ),
  gateway: v.optional(fleetName("Name of this gateway (the machine's name).")),
  models: v.optional(
    v.pipe(
      v.boolean(),
      v.description(
        'Accept models that oddflow-fleet publishes, signed by the private key of modelKey (false).',
      ),
    ),
    false,
  ),
  group: v.optional(
    fleetName('A group of gateways whose models this gateway accepts too. Needs models: true.'),
  ),
  seedFile: v.optional(path('A file whose first line is the seed of an nkey (SU…).')),
}
export type NatsSettings = SettingsOf<'nats', typeof entries>

export const nats = defineOutput({
  kind: 'nats',
  entries,
  check({ url, caFile, group, models }, refuse) {
    if (caFile !== undefined && url.startsWith('nats:')) refuse('caFile', 'only for tls; change url')
    if (group !== undefined && !models) refuse('group', 'only with models: true; leave it out')
  },
  memoryBytes: 15 * 1_048_576,
  create: (settings, environment) => createNats(settings, environment),
})

const BATCH = 64
const PATIENCE_MILLIS = 10_000
/** As long as the server's (apps/fleet/src/folder.ts): a busy server accepts gateways late, and gateways that give up early reconnect. */
const CONNECT_MILLIS = 30_000
/** A server that is silent for two of these is gone, and is looked for again. */
const PING_MILLIS = 20_000
/** A connection that is lost is tried again within this time, and later within the time that it has been lost. */
const RECONNECT_MILLIS = 2_000
const LONGEST_RECONNECT_MILLIS = 60_000
const FIRST_STATUS_MILLIS = 5_000
const STATUS_MILLIS = 60_000
/** What the server's stream of statuses takes is twice as much. */
const MAXIMUM_STATUS_BYTES = 32_768

/** Throws FileError where a file of the settings cannot be read. The connection is made with the first status or delivery. */
export async function createNats(settings: NatsSettings, environment: OutputEnvironment): Promise<Output> {
  const { clock, log, status, isTrial, fleetModels = null } = environment
  const gateway = gatewayName(settings, environment.hostname)
  const subject = `oddflow.gateway.${gateway}.event`
  const statusSubject = `oddflow.gateway.${gateway}.status`
  const library = named(await import('@nats-io/transport-node'))
  const link = new NatsLink(settings, gateway, statusSubject, environment, library)
  const { target } = link
  const closing = new AbortController()
  if (status !== undefined && isTrial !== true)
    void sendStatuses(link, statusSubject, environment, closing.signal)
  let modelTrouble: string | null = null
  if (settings.models && fleetModels !== null) {
    void runModelChannel({
      open: () => link.open(),
      gateway,
      models: fleetModels,
      clock,
      stop: closing.signal,
      onTrouble(trouble) {
        if ((trouble === null) === (modelTrouble === null)) return
        modelTrouble = trouble
        log.warn(
          `${target}: ${trouble === null ? 'receiving fleet models again' : `cannot receive fleet models: ${reasonOf(new Error(trouble))}; retrying every minute with the model in use`}`,
        )
      },
    })
  }
  return {
    name: settings.name,
    target,
    batch: BATCH,
    async deliver({ lines }, signal) {
      link.denied.event = null
      try {
        return await withinMillis(clock, PATIENCE_MILLIS, signal, async (limit) => {
          const silent = new Promise<never>((_, reject) => {
            const give = (): void => reject(new Error('does not acknowledge'))
            if (limit.aborted) give()
            else limit.addEventListener('abort', give, { once: true })
          })
          const { connection, client } = await Promise.race([link.open(), silent])
          const longest = connection.info?.max_payload ?? Number.POSITIVE_INFINITY
          if (lines.some(({ length }) => length > longest)) {
            throw new RefusedError(`${target}: takes messages of ${longest} bytes at most`)
          }
          const stored = lines.map((line) =>
            client.publish(subject, line, { ...ONCE, msgID: `${gateway} ${idOf(line)}` }),
          )
          await Promise.race([allDone(stored), silent])
          return 'stored by the server'
        })
      } catch (error) {
        if (error instanceof RefusedError) throw error
        throw new Error(`${target}: ${subject}: ${link.denied.event ?? reasonOf(error as Error)}`)
      }
    },
    async close() {
      closing.abort()
      await link.close()
    },
  }
}

const ONCE = { timeout: PATIENCE_MILLIS, retries: 0 }

interface OpenLink {
  readonly connection: NatsConnection
  readonly client: JetStreamClient
}

/** The connection to the server, which is opened when it is first asked for, and again where it was closed. */
class NatsLink {
  readonly target: string
  /** Why the server refused a message, which then waits for nothing: it reports that beside the request. */
  readonly denied: { event: string | null; status: string | null } = { event: null, status: null }
  readonly #options: Omit<Parameters<typeof connectLimited>[0], 'onRefused'>
  readonly #statusSubject: string
  readonly #nowMillis: () => number
  readonly #warn: (message: string) => void
  #open: OpenLink | null = null
  #opening: Promise<OpenLink> | null = null
  #lostMillis: number | null = null
  #refusals = 0

  /** Throws FileError where a file of the settings cannot be read. */
  constructor(
    { url, seedFile, caFile }: NatsSettings,
    gateway: string,
    statusSubject: string,
    { clock, log }: OutputEnvironment,
    { nkeyAuthenticator }: typeof import('@nats-io/transport-node'),
  ) {
    this.target = originOf(url)
    this.#statusSubject = statusSubject
    this.#nowMillis = clock.monotonicMillis
    this.#warn = (message) => log.warn(`${this.target}: ${message}`)
    const seed = seedFile === undefined ? null : new TextEncoder().encode(readSeed(seedFile))
    const authority = caFile === undefined ? {} : { ca: readCertificates(caFile).join('\n') }
    this.#options = {
      servers: url,
      name: `oddflow-agent ${gateway}`,
      inboxPrefix: `_INBOX.${gateway}`,
      timeout: CONNECT_MILLIS,
      maxReconnectAttempts: -1,
      pingInterval: PING_MILLIS,
      maxPingOut: 2,
      ignoreClusterUpdates: true,
      reconnectToServer: (servers) => ({ server: servers[0] ?? null, delay: this.#delayMillis() }),
      ...(seed === null ? {} : { authenticator: nkeyAuthenticator(seed) }),
      // otherwise the client continues without encryption if a tls:// server offers no TLS
      ...(url.startsWith('tls:') ? { tls: authority } : {}),
    }
  }

  async open(): Promise<OpenLink> {
    if (this.#open?.connection.isClosed() === false) return this.#open
    this.#opening ??= this.#dial().finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  async close(): Promise<void> {
    await this.#open?.connection.close()
  }

  async #dial(): Promise<OpenLink> {
    this.#lostMillis = null
    const { jetstream } = named(await import('@nats-io/jetstream'))
    const onRefused = (reason: string): void => this.#onRefused(reason)
    const connection = await connectLimited({ ...this.#options, onRefused })
    void this.#watch(connection)
    this.#open = { connection, client: jetstream(connection) }
    return this.#open
  }

  #delayMillis(): number {
    return this.#lostMillis === null ? 0 : reconnectDelayMillis(this.#nowMillis() - this.#lostMillis)
  }

  #onRefused(reason: string): void {
    this.denied.event = reason
    // 1, 2, 4, 8, …: a server that does it at each connection does not fill the log
    if (Number.isInteger(Math.log2(++this.#refusals)))
      this.#warn(`${reason}; the connection was closed (${this.#refusals} so far) and is opened again`)
  }

  async #watch(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect') this.#lostMillis ??= this.#nowMillis()
      if (status.type === 'reconnect') this.#lostMillis = null
      if (status.type !== 'error') continue
      const { message } = status.error
      this.denied[message.includes(`"${this.#statusSubject}"`) ? 'status' : 'event'] = message
    }
  }
}

/** Ends with `stop`, and never rejects. */
async function sendStatuses(
  link: NatsLink,
  subject: string,
  { clock, log, status: statusOf }: OutputEnvironment,
  stop: AbortSignal,
): Promise<void> {
  let isWarned = false
  for (let pause = FIRST_STATUS_MILLIS; ; pause = STATUS_MILLIS) {
    await clock.sleep(pause, stop)
    if (stop.aborted) return
    link.denied.status = null
    try {
      const status = (await statusOf?.()) ?? null
      if (status === null) continue
      const { connection, client } = await link.open()
      const longest = Math.min(MAXIMUM_STATUS_BYTES, connection.info?.max_payload ?? MAXIMUM_STATUS_BYTES)
      await client.publish(subject, encodeStatus(status, longest), ONCE)
      isWarned = false
    } catch (error) {
      if (stop.aborted || isWarned) continue
      isWarned = true
      log.warn(
        `${link.target}: ${subject}: ${link.denied.status ?? reasonOf(error as Error)}; sent again each minute`,
      )
    }
  }
}

const ASK_MILLIS = 60_000
/** A server that announces change after change is asked no more often than this. */
const LEAST_PAUSE_MILLIS = 1000

interface ModelChannelOptions {
  /** Opens the connection where it is not. */
  readonly open: () => Promise<{ readonly connection: NatsConnection; readonly client: JetStreamClient }>
  readonly gateway: string
  readonly models: FleetModels
  readonly clock: Pick<Clock, 'sleep'>
  readonly stop: AbortSignal
  /** Why models cannot be asked for; null when they can again. */
  readonly onTrouble: (reason: string | null) => void
}

/**
 * The channel by which models come to a gateway: it asks for the offers to the gateway and its group, at each connection, whenever
 * an offer changes, and every minute, and reports what became of them. All requests name what they may read (docs/fleet.md);
 * the server's answers are bounded here and by the connection.
 * Never rejects; ends with `stop`.
 */
async function runModelChannel(options: ModelChannelOptions): Promise<void> {
  const { open, gateway, models, clock, stop, onTrouble } = options
  let wake = new AbortController()
  const wakeUp = (): void => wake.abort()
  stop.addEventListener('abort', wakeUp, { once: true })
  models.onChange(wakeUp)
  let subscribed: NatsConnection | null = null
  const subscribe = (connection: NatsConnection): void => {
    if (subscribed === connection) return
    subscribed = connection
    for (const target of models.targets) {
      // the message is not believed: what it announces is asked for
      connection.subscribe(offerSubject(target), { callback: wakeUp })
    }
  }
  /** The client knows no stop, and no clock but the system's. */
  const answered = <T>(request: Promise<T>): Promise<T> =>
    withinMillis(clock, PATIENCE_MILLIS, stop, (limit) => {
      const silent = new Promise<never>((_, reject) => {
        limit.addEventListener('abort', () => reject(new Error('the server does not answer')), { once: true })
      })
      return Promise.race([request, silent])
    })
  const round = async (): Promise<void> => {
    const { connection, client } = await open()
    subscribe(connection)
    const get = async (subject: string): Promise<Uint8Array | null> => {
      const asked = directGetSubject(MODELS_BUCKET, subject)
      const answer = await answered(connection.request(asked, '', { timeout: PATIENCE_MILLIS }))
      if (answer.headers !== undefined && answer.headers.code >= 500)
        throw new Error(answer.headers.description)
      return answer.headers !== undefined && answer.headers.code > 0 ? null : answer.data
    }
    const offers: Uint8Array[] = []
    for (const target of models.targets) {
      const offer = await get(offerSubject(target))
      if (offer !== null) offers.push(offer)
    }
    await models.offered(offers, (target, sha256) => get(modelSubject(target, sha256)))
    const state = encodeModelState(models.state())
    const given = { timeout: PATIENCE_MILLIS, retries: 0 }
    await answered(client.publish(modelStateSubject(gateway), state, given))
  }
  while (!stop.aborted) {
    wake = new AbortController()
    try {
      await round()
      onTrouble(null)
    } catch (error) {
      if (!stop.aborted) onTrouble((error as Error).message.split('\n', 1)[0] ?? '')
    }
    await clock.sleep(LEAST_PAUSE_MILLIS, stop)
    await clock.sleep(ASK_MILLIS, AbortSignal.any([wake.signal, stop]))
  }
}

/** As `connect` of the client, which sets a transport without limits. */
async function connectLimited(options: ConnectionOptions & NatsLimitOptions): Promise<NatsConnection> {
  const { NatsConnectionImpl, setTransportFactory } = named(await import('@nats-io/transport-node'))
  const { NodeTransport, nodeResolveHost } = named(
    await import('@nats-io/transport-node/lib/node_transport.js'),
  )
  setTransportFactory({
    factory: () => limitNatsTransport(new NodeTransport(), () => performance.now()),
    dnsResolveFn: nodeResolveHost,
  })
  return NatsConnectionImpl.connect(options)
}

/** Spread, so that a thousand gateways at once do not keep a server that is back too busy to let any of them in. */
export function reconnectDelayMillis(lostForMillis: number, random: () => number = Math.random): number {
  return random() * Math.min(LONGEST_RECONNECT_MILLIS, Math.max(RECONNECT_MILLIS, lostForMillis))
}

/** With fewer devices where all of them would be too much. */
function encodeStatus(status: AgentStatus, longest: number): Uint8Array {
  for (let { devices } = status; ; devices = devices.slice(0, devices.length / 2)) {
    const bytes = new TextEncoder().encode(JSON.stringify({ ...status, devices }))
    if (bytes.length <= longest || devices.length === 0) return bytes
  }
}

/** Named exports of a CommonJS module are lost where it is bundled. */
function named<T extends object>(module: T): T {
  return (module as { default?: T }).default ?? module
}

export function gatewayName({ gateway }: Pick<NatsSettings, 'gateway'>, hostname: string): string {
  if (gateway !== undefined) return gateway
  const name = hostname
    .toLowerCase()
    .replace(/[^a-z0-9-]/g, '-')
    .replace(/^-+/, '')
  return name.slice(0, 63) || 'gateway'
}

function idOf(line: Uint8Array): string {
  const { oddflow } = JSON.parse(new TextDecoder().decode(line)) as { oddflow: { id: string } }
  return oddflow.id
}

function reasonOf({ message, cause }: Error): string {
  const said = message === '' ? String((cause as Error | undefined)?.message ?? 'failed') : message
  // what the client says without a stream
  return /no responders|jetstream is not enabled/i.test(said)
    ? 'no stream of the server takes it; run "oddflow-fleet gateways" once against this server'
    : said.split('\n', 1)[0]
}

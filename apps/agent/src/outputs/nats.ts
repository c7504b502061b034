/**
 * NATS: every event to a JetStream stream of a fleet, on the subjects of this gateway:
 *
 *     oddflow.gateway.NAME.event    an EVE event. The message's id is NAME and the event's id: two gateways that see the same flow
 *                                   can make the same event
 *     oddflow.gateway.NAME.status   the agent's status, once a minute; each replaces the one before
 *
 * Delivered means stored: the server acknowledges each event and drops repeated ids. The gateway logs in with an nkey (Ed25519). Answers
 * come to `_INBOX.NAME`, so the server can limit the gateway to these names.
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
import { answeredWithin } from '../pipeline/shutdown.js'
import {
  type AgentStatus,
  ANSWER_MILLIS,
  allDone,
  BATCH,
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
    if (caFile !== undefined && url.startsWith('nats:'))
      refuse('caFile', 'only for a URL of tls; change url, or remove caFile')
    if (group !== undefined && !models) refuse('group', 'needs models: true; add that, or remove group')
  },
  memoryBytes: 15 * 1_048_576,
  create: (settings, environment) => createNats(settings, environment),
})

/** As long as the server's (apps/fleet/src/folder.ts): a busy server accepts gateways late, and gateways that give up early reconnect. */
const CONNECT_MILLIS = 30_000
/** After two of these without an answer, the agent reconnects. */
const PING_MILLIS = 20_000
/** A lost connection is tried again within this time, later within the time since it was lost. */
const RECONNECT_MILLIS = 2_000
const LONGEST_RECONNECT_MILLIS = 60_000
const FIRST_STATUS_MILLIS = 5_000
const STATUS_MILLIS = 60_000
/** Half of the maximum of the server's stream of statuses. */
const MAXIMUM_STATUS_BYTES = 32_768

/** Throws FileError if a file of the settings cannot be read. Connects with the first status or delivery. */
export async function createNats(settings: NatsSettings, environment: OutputEnvironment): Promise<Output> {
  const { clock, status, isTrial, fleetModels = null } = environment
  const gateway = gatewayName(settings, environment.hostname)
  const subject = `oddflow.gateway.${gateway}.event`
  const statusSubject = `oddflow.gateway.${gateway}.status`
  const library = named(await import('@nats-io/transport-node'))
  const link = createLink(settings, gateway, statusSubject, environment, library)
  const { target } = link
  const closing = new AbortController()
  if (status !== undefined && isTrial !== true)
    void sendStatuses(link, statusSubject, environment, closing.signal)
  if (settings.models && fleetModels !== null)
    void runModelChannel(link, gateway, fleetModels, environment, closing.signal)
  return {
    name: settings.name,
    target,
    batch: BATCH,
    async deliver({ lines }, signal) {
      link.denied.event = null
      try {
        return await answeredWithin(clock, ANSWER_MILLIS, signal, 'does not acknowledge', async (limit) => {
          const { connection, client } = await link.open()
          // the next attempt sends these events
          limit.throwIfAborted()
          const longest = connection.info?.max_payload ?? Number.POSITIVE_INFINITY
          if (lines.some(({ length }) => length > longest)) {
            throw new RefusedError(`${target}: takes messages of ${longest} bytes at most`)
          }
          const stored = lines.map((line) =>
            client.publish(subject, line, { ...ONCE, msgID: `${gateway} ${idOf(line)}` }),
          )
          await allDone(stored)
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

const ONCE = { timeout: ANSWER_MILLIS, retries: 0 }

interface OpenLink {
  readonly connection: NatsConnection
  readonly client: JetStreamClient
}

type Link = ReturnType<typeof createLink>

/** The connection to the server, opened when needed. */
function createLink(
  { url, seedFile, caFile }: NatsSettings,
  gateway: string,
  statusSubject: string,
  { clock, log }: OutputEnvironment,
  { nkeyAuthenticator }: typeof import('@nats-io/transport-node'),
) {
  const target = originOf(url)
  /** Why the server denied a message: it reports that apart from the request. */
  const denied: { event: string | null; status: string | null } = { event: null, status: null }
  let open: OpenLink | null = null
  let opening: Promise<OpenLink> | null = null
  let lostMillis: number | null = null
  let refusals = 0
  const seed = seedFile === undefined ? null : new TextEncoder().encode(readSeed(seedFile))
  const authority = caFile === undefined ? {} : { ca: readCertificates(caFile).join('\n') }
  const options: Parameters<typeof connectLimited>[0] = {
    servers: url,
    name: `oddflow-agent ${gateway}`,
    inboxPrefix: `_INBOX.${gateway}`,
    timeout: CONNECT_MILLIS,
    maxReconnectAttempts: -1,
    pingInterval: PING_MILLIS,
    maxPingOut: 2,
    ignoreClusterUpdates: true,
    reconnectToServer: (servers) => {
      const delay = lostMillis === null ? 0 : reconnectDelayMillis(clock.monotonicMillis() - lostMillis)
      return { server: servers[0] ?? null, delay }
    },
    ...(seed === null ? {} : { authenticator: nkeyAuthenticator(seed) }),
    // otherwise the client continues without encryption if a tls:// server offers no TLS
    ...(url.startsWith('tls:') ? { tls: authority } : {}),
    onRefused(reason) {
      denied.event = reason
      // 1, 2, 4, 8, …: a server that is refused at each connection does not fill the log
      if (Number.isInteger(Math.log2(++refusals)))
        log.warn(`${target}: ${reason}; the connection was closed (${refusals} so far) and is opened again`)
    },
  }
  const watch = async (connection: NatsConnection): Promise<void> => {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect') lostMillis ??= clock.monotonicMillis()
      if (status.type === 'reconnect') lostMillis = null
      if (status.type !== 'error') continue
      const { message } = status.error
      denied[message.includes(`"${statusSubject}"`) ? 'status' : 'event'] = message
    }
  }
  const dial = async (): Promise<OpenLink> => {
    lostMillis = null
    const { jetstream } = named(await import('@nats-io/jetstream'))
    const connection = await connectLimited(options)
    void watch(connection)
    open = { connection, client: jetstream(connection) }
    return open
  }
  return {
    target,
    denied,
    async open(): Promise<OpenLink> {
      if (open?.connection.isClosed() === false) return open
      opening ??= dial().finally(() => {
        opening = null
      })
      return opening
    },
    close: async (): Promise<void> => open?.connection.close(),
  }
}

/** Ends with `stop`, and never rejects. */
async function sendStatuses(
  link: Link,
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
/** Minimum time between two requests, however often the server announces changes. */
const LEAST_PAUSE_MILLIS = 1000

/**
 * Asks for the models offered to the gateway and its group at each connection, at each change and every minute, and reports their states.
 * All requests name what they may read (docs/fleet.md); answers are limited here and by the connection. Never rejects; ends with `stop`.
 */
async function runModelChannel(
  link: Link,
  gateway: string,
  models: FleetModels,
  { clock, log }: OutputEnvironment,
  stop: AbortSignal,
): Promise<void> {
  let wake = new AbortController()
  const wakeUp = (): void => wake.abort()
  stop.addEventListener('abort', wakeUp, { once: true })
  models.onChange(wakeUp)
  let subscribed: NatsConnection | null = null
  const subscribe = (connection: NatsConnection): void => {
    if (subscribed === connection) return
    subscribed = connection
    for (const target of models.targets) {
      // asks for the announced offer, because anyone may send the message
      connection.subscribe(offerSubject(target), { callback: wakeUp })
    }
  }
  const answered = <T>(request: Promise<T>): Promise<T> =>
    answeredWithin(clock, ANSWER_MILLIS, stop, 'the server does not answer', () => request)
  const round = async (): Promise<void> => {
    const { connection, client } = await link.open()
    subscribe(connection)
    const get = async (subject: string): Promise<Uint8Array | null> => {
      const asked = directGetSubject(MODELS_BUCKET, subject)
      const answer = await answered(connection.request(asked, '', { timeout: ANSWER_MILLIS }))
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
    await answered(client.publish(modelStateSubject(gateway), state, ONCE))
  }
  let isTroubled = false
  while (!stop.aborted) {
    wake = new AbortController()
    try {
      await round()
      if (isTroubled) log.warn(`${link.target}: receiving fleet models again`)
      isTroubled = false
    } catch (error) {
      if (!stop.aborted && !isTroubled)
        log.warn(
          `${link.target}: cannot receive fleet models: ${reasonOf(error as Error)}; retrying every minute with the model in use`,
        )
      isTroubled ||= !stop.aborted
    }
    await clock.sleep(LEAST_PAUSE_MILLIS, stop)
    await clock.sleep(ASK_MILLIS, AbortSignal.any([wake.signal, stop]))
  }
}

/** Like `connect` of the client, but with a transport that limits what the server sends. */
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

/** Random, so that a thousand gateways do not overload a server that is back. */
export function reconnectDelayMillis(lostForMillis: number, random: () => number = Math.random): number {
  return random() * Math.min(LONGEST_RECONNECT_MILLIS, Math.max(RECONNECT_MILLIS, lostForMillis))
}

/** Drops devices until it fits. */
function encodeStatus(status: AgentStatus, longest: number): Uint8Array {
  for (let { devices } = status; ; devices = devices.slice(0, devices.length / 2)) {
    const bytes = new TextEncoder().encode(JSON.stringify({ ...status, devices }))
    if (bytes.length <= longest || devices.length === 0) return bytes
  }
}

/** A bundle has the default export of a CommonJS module only. */
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
  // the client's words if there is no stream
  return /no responders|jetstream is not enabled/i.test(said)
    ? 'no stream of the server takes it; run "oddflow-fleet gateways" once against this server'
    : said.split('\n', 1)[0]
}

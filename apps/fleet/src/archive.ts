/**
 * An archive on a NATS server: an object store for models, and streams of jobs (a work queue; a subject holds one
 * message, so no capture is queued twice) and of the last outcome of each capture (done, failed). Anyone who reaches
 * the server can write to it, so every message is checked when it is read.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import {
  AckPolicy,
  type Consumer,
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  type StreamConfig,
} from '@nats-io/jetstream'
import { type ObjectStore, Objm } from '@nats-io/obj'
import {
  ConnectionError,
  type ConnectionOptions,
  credsAuthenticator,
  type NatsConnection,
  NatsConnectionImpl,
  nkeyAuthenticator,
  RequestError,
  setTransportFactory,
  TimeoutError,
} from '@nats-io/transport-node'
import { NodeTransport, nodeResolveHost } from '@nats-io/transport-node/lib/node_transport.js'
import { OddFlowError } from '@oddflow/core'
import { FileError, fileError, limitNatsTransport, type NatsLimitOptions, UsageError } from '@oddflow/program'
import { z } from 'zod'

export const JOBS = 'oddflow-archive-jobs'
export const DONE = 'oddflow-archive-done'
export const FAILED = 'oddflow-archive-failed'
const MODELS = 'oddflow-archive-models'
const WORKERS = 'workers'
const REPLICAS = 3
/** The server's code for a stream that has another configuration. */
const OTHER_CONFIGURATION = 10058

/** Tests shorten waits. */
export const WAIT_SCALE = Number(process.env.ODDFLOW_WAIT_SCALE ?? 1)
/** Waits; less long once `stop` is aborted. */
export const rest = (millis: number, stop: AbortSignal): Promise<void> =>
  pause(millis, undefined, { signal: stop }).catch(() => undefined)
export const DAY_NANOS = 86_400_000_000_000
/** The server gives a capture to another worker when its worker was silent for this long. */
export const ACK_WAIT_MILLIS = 30_000 * WAIT_SCALE

export const jobSubject = (id: string): string => `oddflow.archive.job.${id}`
export const doneSubject = (id: string): string => `oddflow.archive.done.${id}`
export const failedSubject = (id: string): string => `oddflow.archive.failed.${id}`

const id = z.string().regex(/^[0-9a-f]{32}$/)
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const wholeNumber = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER)

const job = z.strictObject({
  format: z.literal(1),
  id,
  /** An object store on the server; null: the folder that the workers have. */
  bucket: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,128}$/)
    .nullable(),
  /** Path below the folder with `/`, or the object's name. */
  name: z.string().min(1).max(1024).refine(staysInside, 'expected a path below the folder'),
  sizeBytes: wholeNumber,
  /** Below 0 before 1970. */
  modifiedMillis: z.number().min(-Number.MAX_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
  /** SHA-256 of the model file; null: flows without verdicts. */
  model: sha256.nullable(),
})
export type Job = Readonly<z.infer<typeof job>>

/** Written for people and other programs; only whether there is one is read. */
export interface Done {
  readonly format: 1
  readonly id: string
  readonly name: string
  readonly packets: number
  readonly flows: number
  readonly novel: number
  readonly days: number
  /** What was wrong with the capture, if it was cut short or damaged; its flows up to there are in the results. */
  readonly damage: string | null
  readonly seconds: number
  readonly worker: string
}

const failed = z.strictObject({
  format: z.literal(1),
  id,
  name: z.string().max(1024),
  reason: z.string().max(1000),
  worker: z.string().max(300),
})
export type Failed = Readonly<z.infer<typeof failed>>

/** A message that is not what this version writes. */
export class MessageError extends OddFlowError {
  override readonly name = 'MessageError'
}

/** Also checks that the id is that of this capture, since it names the results. */
export function readJob(bytes: Uint8Array): Job {
  const { format, id: given, ...rest } = read(job, bytes, 'job')
  const made = jobOf(rest)
  if (made.id === given && format === 1) return made
  throw new MessageError('fleet.message', `job: id: expected ${made.id}, found ${given}`)
}

const readFailed = (bytes: Uint8Array): Failed => read(failed, bytes, 'outcome')
export const write = (message: Job | Done | Failed): string => JSON.stringify(message)

const MAXIMUM_MESSAGE_BYTES = 64 * 1024

function read<T>(schema: z.ZodType<T>, bytes: Uint8Array, what: string): T {
  if (bytes.length > MAXIMUM_MESSAGE_BYTES) {
    throw new MessageError(
      'fleet.message',
      `${what}: ${bytes.length} bytes, at most ${MAXIMUM_MESSAGE_BYTES}`,
    )
  }
  const value = jsonOf(bytes)
  if (value === undefined) throw new MessageError('fleet.message', `${what}: not JSON`)
  return check(schema, value, what)
}

/** undefined where it is no JSON. */
export function jsonOf(data: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(data))
  } catch {
    return undefined
  }
}

function check<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new MessageError('fleet.message', `${what}: ${issue!.path.join('.') || 'message'}: ${issue!.message}`)
}

function staysInside(name: string): boolean {
  return !name.includes('\0') && !name.split('/').some((part) => part === '' || part === '.' || part === '..')
}

export type Capture = Omit<Job, 'format' | 'id'>

/** The same capture, unchanged, under the same model has the same id. */
export function idOf({ bucket, name, sizeBytes, modifiedMillis, model }: Capture): string {
  const identity = JSON.stringify([bucket, name, sizeBytes, modifiedMillis, model])
  return createHash('sha256').update(identity).digest('hex').slice(0, 32)
}

/** Throws MessageError for a name that no job can have. */
export function jobOf(capture: Capture): Job {
  return check(job, { format: 1, id: idOf(capture), ...capture }, 'cannot be queued')
}

export interface ServerOptions {
  /** nats://host:port or tls://host:port, also with user:password@ or token@; several, with commas, for a cluster. */
  readonly server: string
  /** Credentials file, as `nsc` writes them. */
  readonly creds?: string
  /** Seed of an nkey. */
  readonly seed?: string
  /** Certificate authority of the server, PEM. */
  readonly ca?: string
}

export interface Archive {
  readonly connection: NatsConnection
  readonly client: JetStreamClient
  readonly manager: JetStreamManager
  readonly models: ObjectStore
  /** Throws OddFlowError if there is no such store. */
  bucket(name: string): Promise<ObjectStore>
  /** Creates a stream, or brings it up to date. In a cluster, three servers have each message. */
  addStream(config: Partial<StreamConfig> & { readonly name: string }): Promise<void>
  /** The queue, shared by all workers. */
  queue(): Promise<Consumer>
  close(): Promise<void>
}

/** Connects and creates what is missing. Throws OddFlowError if the server does not answer or has no JetStream. */
export async function openArchive(options: ServerOptions): Promise<Archive> {
  const { servers, login } = readServers(options.server)
  // else the client goes on in the clear where a server of tls:// offers no TLS
  const isEncrypted = options.ca !== undefined || servers.some((server) => server.startsWith('tls://'))
  const shown = servers.join(',')
  const connection = await naming(shown, () =>
    connectLimited({
      servers,
      ...login,
      onRefused: (reason) => process.stderr.write(`${shown}: ${reason}; the connection was closed\n`),
      name: 'oddflow-fleet',
      // a worker outlives any absence of the server
      maxReconnectAttempts: -1,
      ...(options.creds === undefined
        ? {}
        : { authenticator: credsAuthenticator(onPath(options.creds, bytesIn)) }),
      ...(options.seed === undefined
        ? {}
        : { authenticator: nkeyAuthenticator(onPath(options.seed, seedIn)) }),
      ...(isEncrypted
        ? { tls: options.ca === undefined ? {} : { ca: onPath(options.ca, bytesIn).toString() } }
        : {}),
    }),
  )
  try {
    return await naming(shown, () => prepare(connection))
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** As `connect` of the client, which sets a transport without limits. */
function connectLimited(options: ConnectionOptions & NatsLimitOptions): Promise<NatsConnection> {
  setTransportFactory({
    factory: () => limitNatsTransport(new NodeTransport(), () => performance.now()),
    dnsResolveFn: nodeResolveHost,
  })
  return NatsConnectionImpl.connect(options)
}

/** The servers without the user that their URLs name: the client does not read it there, and no message may show it. */
function readServers(given: string): {
  servers: string[]
  login: { user?: string; pass?: string; token?: string }
} {
  let login = {}
  const servers = given.split(',').map((each) => {
    const [, scheme = '', user, host = ''] = /^([a-z]+:\/\/)?(?:(.*)@)?(.*)$/i.exec(each.trim()) ?? []
    if (user !== undefined) login = loginOf(user)
    return `${scheme.toLowerCase()}${host}`
  })
  return { servers, login }
}

function loginOf(text: string): { user: string; pass: string } | { token: string } {
  const colon = text.indexOf(':')
  try {
    if (colon < 0) return { token: decodeURIComponent(text) }
    return {
      user: decodeURIComponent(text.slice(0, colon)),
      pass: decodeURIComponent(text.slice(colon + 1)),
    }
  } catch {
    throw new UsageError('--server: a % in the user or the password must be written as %25')
  }
}

async function prepare(connection: NatsConnection): Promise<Archive> {
  const manager = await jetstreamManager(connection)
  const client = jetstream(connection)
  const replicas = connection.info?.cluster === undefined ? 1 : REPLICAS
  const addStream: Archive['addStream'] = async (given) => {
    const config = { ...given, num_replicas: replicas }
    try {
      await manager.streams.add(config)
    } catch (error) {
      if (!(error instanceof JetStreamApiError && error.code === OTHER_CONFIGURATION)) throw error
      await manager.streams.update(config.name, config)
    }
  }
  await addStream({
    name: JOBS,
    subjects: [jobSubject('*')],
    retention: RetentionPolicy.Workqueue,
    max_msgs_per_subject: 1,
    discard: DiscardPolicy.New,
    discard_new_per_subject: true,
  })
  for (const [name, subject] of [
    [DONE, doneSubject('*')],
    [FAILED, failedSubject('*')],
  ] as const) {
    await addStream({ name, subjects: [subject], max_msgs_per_subject: 1 })
  }
  await manager.consumers.add(JOBS, {
    durable_name: WORKERS,
    ack_policy: AckPolicy.Explicit,
    ack_wait: ACK_WAIT_MILLIS * 1e6,
    max_deliver: -1,
  })
  const stores = new Objm(client)
  return {
    connection,
    client,
    manager,
    models: await stores.create(MODELS, { replicas }),
    addStream,
    async bucket(name) {
      try {
        return await stores.open(name)
      } catch (error) {
        if (isServerAway(error)) throw error
        throw new OddFlowError('fleet.bucket', `object store ${name}: ${wordsOf(error)}`)
      }
    },
    queue: () => client.consumers.get(JOBS, WORKERS),
    close: () => connection.close(),
  }
}

/** The last message of a subject, or null. */
export async function lastMessage(
  { manager }: Archive,
  stream: string,
  subject: string,
): Promise<Uint8Array | null> {
  const message = await manager.streams.getMessage(stream, { last_by_subj: subject })
  return message?.data ?? null
}

const bytesIn = (path: string): Buffer => readFileSync(path)
const seedIn = (path: string): Uint8Array => new TextEncoder().encode(readFileSync(path, 'utf8').trim())

/** Runs `work` on each item, at most `limit` at a time; the results are in the items' order. */
export async function mapWithLimit<Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  let next = 0
  const run = async (): Promise<void> => {
    while (next < items.length) {
      const i = next++
      results[i] = await work(items[i]!)
    }
  }
  await Promise.all(Array.from({ length: limit }, run))
  return results
}

/** Runs `use` on a file's path. Throws FileError. */
export function onPath<T>(path: string, use: (path: string) => T): T {
  try {
    return use(path)
  } catch (error) {
    throw fileError('read', path, error)
  }
}

async function naming<T>(server: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof FileError) throw error
    throw new OddFlowError('fleet.server', `${server}: ${wordsOf(error)}`)
  }
}

/** The server did not answer; an answer that says no is not this. */
export const isServerAway = (error: unknown): boolean =>
  [ConnectionError, RequestError, TimeoutError].some((kind) => error instanceof kind)

/** An error of the client in one line. */
export function wordsOf(error: unknown): string {
  const { message, cause } = error as Error
  const said = [message, (cause as Error | undefined)?.message].find(
    (text) => text !== undefined && text !== '',
  )
  return (said ?? String(error)).split('\n', 1)[0]!
}

export type Status = Awaited<ReturnType<typeof readStatus>>

/** How many captures wait, are being scored, are done or were set aside. */
export async function readStatus({ manager }: Archive) {
  const [done, failed, queue] = await Promise.all([
    manager.streams.info(DONE),
    manager.streams.info(FAILED),
    manager.consumers.info(JOBS, 'workers'),
  ])
  const { messages, first_ts, last_ts } = done.state
  const seconds = (Date.parse(String(last_ts)) - Date.parse(String(first_ts))) / 1000
  return {
    // not the messages of the stream: a killed server may keep some whose acknowledgment it has
    waiting: queue.num_pending,
    inProgress: queue.num_ack_pending,
    done: messages,
    failed: failed.state.messages,
    /** Between the first and the last outcome; null with fewer than two. */
    capturesPerSecond: messages > 1 && seconds > 0 ? (messages - 1) / seconds : null,
  }
}

/** The captures set aside last, at most `count`. */
export async function lastFailed({ manager }: Archive, count: number): Promise<Failed[]> {
  const { first_seq, last_seq } = (await manager.streams.info(FAILED)).state
  const found: Failed[] = []
  for (let seq = last_seq; seq >= first_seq && seq > 0 && found.length < count; seq--) {
    try {
      const message = await manager.streams.getMessage(FAILED, { seq })
      if (message !== null) found.push(readFailed(message.data))
    } catch {
      // a number whose message was replaced, or one that this version does not read
    }
  }
  return found
}

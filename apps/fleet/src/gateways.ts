/**
 * Gateways: their events in one stream and their last status in another, on subjects of each gateway (the agent's output
 * `nats`), and the keys by which the server tells them apart.
 */
import { writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { JetStreamApiError, type StreamConfig } from '@nats-io/jetstream'
import { nkeys } from '@nats-io/transport-node'
import { fileError, isFleetName, modelPermissions, UsageError } from '@oddflow/program'
import { z } from 'zod'
import { type Archive, lastMessage } from './archive.js'

export const EVENTS = 'oddflow-gateways'
const STATUSES = 'oddflow-status'
const DAY_NANOS = 86_400_000_000_000
const DAYS_KEPT = 90
/** The oldest events of a gateway go first, so that one that floods the server takes nothing from the others. */
const EVENTS_PER_GATEWAY = 100_000
const MAXIMUM_STATUS_BYTES = 65_536
/** An event that comes again within this time is dropped by its id. The server keeps these ids in memory. */
const DUPLICATE_NANOS = 3_600_000_000_000
/** Between looks for new events. */
const LOOK_MILLIS = 500
/** Statuses that are fetched at a time. */
const IN_FLIGHT = 64
/** The server's code for a stream that has another configuration. */
const OTHER_CONFIGURATION = 10058

const eventSubject = (gateway: string): string => `oddflow.gateway.${gateway}.event`
const statusSubject = (gateway: string): string => `oddflow.gateway.${gateway}.status`

/** What a gateway may do on the server; everything else is denied. */
const permissionsOf = (gateway: string, group: string | null) => {
  const models = modelPermissions(gateway, group)
  return {
    publish: [eventSubject(gateway), statusSubject(gateway), ...models.publish],
    subscribe: [`_INBOX.${gateway}.>`, ...models.subscribe],
  }
}

/** Creates the streams, or brings them up to date. In a cluster three servers have each message. */
export async function prepareGateways({ connection, manager }: Archive): Promise<void> {
  const shared = {
    max_age: DAYS_KEPT * DAY_NANOS,
    num_replicas: connection.info?.cluster === undefined ? 1 : 3,
  }
  const streams: (Partial<StreamConfig> & { readonly name: string })[] = [
    {
      ...shared,
      name: EVENTS,
      subjects: [eventSubject('*')],
      max_msgs_per_subject: EVENTS_PER_GATEWAY,
      duplicate_window: DUPLICATE_NANOS,
    },
    {
      ...shared,
      name: STATUSES,
      subjects: [statusSubject('*')],
      max_msgs_per_subject: 1,
      max_msg_size: MAXIMUM_STATUS_BYTES,
    },
  ]
  for (const stream of streams) {
    try {
      await manager.streams.add(stream)
    } catch (error) {
      if (!(error instanceof JetStreamApiError && error.code === OTHER_CONFIGURATION)) throw error
      await manager.streams.update(stream.name, stream)
    }
  }
}

const text = z.string().max(2000)
const count = z.number().min(0)
/** As the agent writes it (apps/agent/src/outputs/output.ts); what a gateway sends is checked and bounded. */
const status = z.object({
  format: z.literal(1),
  at: text,
  version: text,
  model: text.nullable(),
  isWell: z.boolean(),
  reasons: z.array(text).max(64),
  residentBytes: count,
  counters: z.record(z.string().max(64), count),
  openIncidents: z.record(z.string().max(64), count).nullable(),
  deviceCounts: z.record(z.string().max(64), count).nullable(),
  devices: z.array(
    z.object({ key: text, name: text, state: text, incidentsToday: count, lastIncident: text }),
  ),
})
export type GatewayStatus = Readonly<z.infer<typeof status>>

export function readStatus(data: Uint8Array): GatewayStatus | null {
  const parsed = status.safeParse(jsonOf(data))
  return parsed.success ? parsed.data : null
}

export interface Gateway {
  readonly name: string
  readonly events: number
  /** ISO 8601; null where there is none. */
  readonly lastEvent: string | null
  readonly status: GatewayStatus | null
}

export async function listGateways(archive: Archive): Promise<Gateway[]> {
  const { manager } = archive
  const countsOf = async (stream: string): Promise<ReadonlyMap<string, number>> => {
    const { state } = await manager.streams.info(stream, { subjects_filter: '>' })
    return new Map(Object.entries(state.subjects ?? {}).map(([subject, n]) => [gatewayOf(subject), n]))
  }
  const [events, statuses] = await Promise.all([countsOf(EVENTS), countsOf(STATUSES)])
  const names = [...new Set([...events.keys(), ...statuses.keys()])].sort()
  const gateways: Gateway[] = []
  let next = 0
  const run = async (): Promise<void> => {
    while (next < names.length) {
      const i = next++
      const name = names[i]!
      const last = await manager.streams.getMessage(EVENTS, { last_by_subj: eventSubject(name) })
      const told = await lastMessage(archive, STATUSES, statusSubject(name))
      gateways[i] = {
        name,
        events: events.get(name) ?? 0,
        lastEvent: last?.time.toISOString() ?? null,
        status: told === null ? null : readStatus(told),
      }
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, run))
  return gateways
}

const gatewayOf = (subject: string): string => subject.split('.')[2]!

export interface GatewayEvent {
  readonly gateway: string
  readonly event: Readonly<Record<string, unknown>>
}

const event = z.looseObject({ timestamp: z.string() })

/**
 * Stored events, the oldest first, then with `follow` those to come until `stop` is aborted. What is no event is skipped.
 * Read one by one, which servers before 2.10 can do too.
 */
export async function* readEvents(
  { manager }: Archive,
  { gateway, follow }: { readonly gateway?: string; readonly follow?: boolean },
  stop: AbortSignal,
): AsyncGenerator<GatewayEvent> {
  const subject = eventSubject(gateway ?? '*')
  for (let seq = 1; !stop.aborted; ) {
    // the client's types lack the subject, which the server takes since 2.9
    const request = { seq, next_by_subj: subject }
    const message = await manager.streams.getMessage(EVENTS, request)
    if (message === null) {
      if (follow !== true) return
      await pause(LOOK_MILLIS, undefined, { signal: stop }).catch(() => undefined)
      continue
    }
    seq = message.seq + 1
    const read = readEvent(message.subject, message.data)
    if (read !== null) yield read
  }
}

function readEvent(subject: string, data: Uint8Array): GatewayEvent | null {
  const parsed = event.safeParse(jsonOf(data))
  return parsed.success ? { gateway: gatewayOf(subject), event: parsed.data } : null
}

/** undefined where it is no JSON. */
function jsonOf(data: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(data))
  } catch {
    return undefined
  }
}

/**
 * Makes the key of a gateway, writes its seed to a new file that only its owner may read, and returns the user for the
 * server's configuration: the right to write this gateway's events, status and state of its model, to read the models that are
 * offered to it and its group, and to receive the answers, and nothing else.
 */
export function enroll(name: string, seedFile: string, group: string | null): string {
  for (const each of group === null ? [name] : [name, group]) {
    if (!isFleetName(each)) {
      throw new UsageError(`${each}: expected at most 63 lowercase letters, digits and hyphens`)
    }
  }
  const key = nkeys.createUser()
  try {
    writeFileSync(seedFile, `${new TextDecoder().decode(key.getSeed())}\n`, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    throw fileError('write', seedFile, error)
  }
  const { publish, subscribe } = permissionsOf(name, group)
  return `{ nkey: ${key.getPublicKey()}, permissions: ${JSON.stringify({ publish, subscribe })} }`
}

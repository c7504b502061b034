/**
 * Gateways: their events in one stream and their last status in another, on subjects of each gateway (the agent's output
 * `nats`), and what each of them may do on the server.
 */
import { modelPermissions } from '@oddflow/program'
import { z } from 'zod'
import { type Archive, DAY_NANOS, jsonOf, lastMessage, mapWithLimit, rest } from './archive.js'

export const EVENTS = 'oddflow-gateways'
export const STATUSES = 'oddflow-status'
const DAYS_KEPT = 90
const MAXIMUM_STATUS_BYTES = 65_536
/** Far more than an agent writes. The server gives a stored message in base64, and clients here take messages of 1 MiB. */
const MAXIMUM_EVENT_BYTES = 524_288
/** An event that comes again within this time is dropped by its id. The server keeps these ids in memory. */
const DUPLICATE_NANOS = 3_600_000_000_000
/** Between looks for new events. */
const LOOK_MILLIS = 500
/** Statuses that are fetched at a time. */
const IN_FLIGHT = 64

export const eventSubject = (gateway: string): string => `oddflow.gateway.${gateway}.event`
export const statusSubject = (gateway: string): string => `oddflow.gateway.${gateway}.status`

/** What a gateway may do on the server; everything else is denied. */
export const permissionsOf = (gateway: string, group: string | null) => {
  const models = modelPermissions(gateway, group)
  return {
    publish: [eventSubject(gateway), statusSubject(gateway), ...models.publish],
    subscribe: [`_INBOX.${gateway}.>`, ...models.subscribe],
  }
}

/** What the account of the streams shares with that of the gateways: requests and publications to it, and announcements from it. */
export const sharedSubjects = () => {
  const models = modelPermissions('*', '*')
  return {
    services: [eventSubject('*'), statusSubject('*'), ...models.publish],
    streams: models.subscribe,
  }
}

/** Creates the streams, or brings them up to date. Without a limit of events: a full disk refuses, and loses nothing. */
export async function prepareGateways({ addStream }: Archive): Promise<void> {
  await addStream({
    name: EVENTS,
    subjects: [eventSubject('*')],
    max_msg_size: MAXIMUM_EVENT_BYTES,
    max_age: DAYS_KEPT * DAY_NANOS,
    duplicate_window: DUPLICATE_NANOS,
  })
  await addStream({
    name: STATUSES,
    subjects: [statusSubject('*')],
    max_msgs_per_subject: 1,
    max_msg_size: MAXIMUM_STATUS_BYTES,
    max_age: DAYS_KEPT * DAY_NANOS,
  })
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
  return mapWithLimit(names, IN_FLIGHT, async (name) => {
    const last = await manager.streams.getMessage(EVENTS, { last_by_subj: eventSubject(name) })
    const told = await lastMessage(archive, STATUSES, statusSubject(name))
    return {
      name,
      events: events.get(name) ?? 0,
      lastEvent: last?.time.toISOString() ?? null,
      status: told === null ? null : readStatus(told),
    }
  })
}

export const gatewayOf = (subject: string): string => subject.split('.')[2]!

interface GatewayEvent {
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
      await rest(LOOK_MILLIS, stop)
      continue
    }
    seq = message.seq + 1
    const parsed = event.safeParse(jsonOf(message.data))
    if (parsed.success) yield { gateway: gatewayOf(message.subject), event: parsed.data }
  }
}

/**
 * What the page and the metrics show: the last status of each gateway, the latest incidents, and the kinds of incidents
 * that many gateways have at once. Followed from the streams; memory is bounded by the number of gateways.
 */
import { AckPolicy, type ConsumerConfig, DeliverPolicy } from '@nats-io/jetstream'
import { z } from 'zod'
import { type Archive, jsonOf, rest, WAIT_SCALE } from './archive.js'
import {
  EVENTS,
  eventSubject,
  type GatewayStatus,
  gatewayOf,
  readStatus,
  STATUSES,
  statusSubject,
} from './gateways.js'

/** A gateway whose last status is older is silent: three are missing. */
const SILENT_MILLIS = 180_000
/** "At once". */
export const WINDOW_MILLIS = 3_600_000
const LATEST_INCIDENTS = 50
/** A gateway with more kinds than these is not what it says, and its further kinds are left out. */
const KINDS_PER_GATEWAY = 32
/** Agents know three; each that a gateway makes up would be a series of the metrics. */
const LEVELS = 8
const CONSUMER_NANOS = 60_000_000_000
const RETRY_MILLIS = 1000

const short = z.string().max(64)
const incidentEvent = z.object({
  oddflow: z.object({
    summary: z.string().max(2000).optional(),
    incident: z.object({ change: short, kind: short, level: short }),
  }),
})

export interface GatewayView {
  readonly name: string
  readonly state: 'well' | 'ill' | 'silent' | 'never reported'
  readonly status: GatewayStatus | null
  readonly receivedMillis: number | null
}

interface SeenIncident {
  readonly atMillis: number
  readonly gateway: string
  readonly kind: string
  readonly level: string
  readonly summary: string
}

export type FleetView = ReturnType<typeof followFleet>

const ORDER = ['silent', 'ill', 'never reported', 'well'] as const

/** Follows the streams until `stop` is aborted. @param enrolled - names of gateways that may not have reported yet. */
export function followFleet(
  archive: Archive,
  enrolled: () => readonly string[],
  stop: AbortSignal,
  tell: (line: string) => void,
) {
  const statuses = new Map<string, { readonly status: GatewayStatus; readonly receivedMillis: number }>()
  /** When each gateway last had an incident of each kind. */
  const kinds = new Map<string, Map<string, number>>()
  const incidents: SeenIncident[] = []
  const opened = new Map<string, number>()

  const lastOfEach = { deliver_policy: DeliverPolicy.LastPerSubject }
  void follow(archive, STATUSES, statusSubject('*'), lastOfEach, stop, tell, (message) => {
    const status = readStatus(message.data)
    const receivedMillis = message.atMillis
    // without devices, which nothing here shows: most of its bytes
    if (status !== null) {
      statuses.set(gatewayOf(message.subject), { status: { ...status, devices: [] }, receivedMillis })
    }
  })
  const since = new Date(Date.now() - WINDOW_MILLIS).toISOString()
  const start = { deliver_policy: DeliverPolicy.StartTime, opt_start_time: since }
  void follow(archive, EVENTS, eventSubject('*'), start, stop, tell, ({ subject, data, atMillis }) => {
    const parsed = incidentEvent.safeParse(jsonOf(data))
    if (!parsed.success) return
    const { summary = '', incident } = parsed.data.oddflow
    const { change, kind, level } = incident
    if (change !== 'opened') return
    const gateway = gatewayOf(subject)
    if (opened.has(level) || opened.size < LEVELS) opened.set(level, (opened.get(level) ?? 0) + 1)
    incidents.unshift({ atMillis, gateway, kind, level, summary })
    incidents.length = Math.min(incidents.length, LATEST_INCIDENTS)
    const own = kinds.get(gateway) ?? new Map<string, number>()
    for (const [each, lastMillis] of own) if (lastMillis < atMillis - WINDOW_MILLIS) own.delete(each)
    if (own.has(kind) || own.size < KINDS_PER_GATEWAY) own.set(kind, atMillis)
    kinds.set(gateway, own)
  })

  return {
    /** The latest first. */
    incidents: incidents as readonly SeenIncident[],
    /** Incidents that were opened since the start, by level. */
    opened: opened as ReadonlyMap<string, number>,
    /** Those that need a look first. */
    gateways(nowMillis: number): GatewayView[] {
      const names = new Set([...enrolled(), ...statuses.keys()])
      const views = [...names].map((name): GatewayView => {
        const { status, receivedMillis } = statuses.get(name) ?? { status: null, receivedMillis: null }
        const state =
          receivedMillis === null
            ? 'never reported'
            : nowMillis - receivedMillis > SILENT_MILLIS
              ? 'silent'
              : status?.isWell === true
                ? 'well'
                : 'ill'
        return { name, state, status, receivedMillis }
      })
      return views.sort(
        (a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || (a.name < b.name ? -1 : 1),
      )
    },
    /** Kinds with the gateways that had one within the window, sorted; the most widespread first. */
    kinds(nowMillis: number) {
      const gatewaysOf = new Map<string, string[]>()
      for (const [gateway, own] of kinds) {
        for (const [kind, lastMillis] of own) {
          if (nowMillis - lastMillis > WINDOW_MILLIS) continue
          const found = gatewaysOf.get(kind)
          if (found === undefined) gatewaysOf.set(kind, [gateway])
          else found.push(gateway)
        }
      }
      return [...gatewaysOf]
        .map(([kind, gateways]) => ({ kind, gateways: gateways.sort() }))
        .sort((a, b) => b.gateways.length - a.gateways.length || (a.kind < b.kind ? -1 : 1))
    },
  }
}

interface StreamMessage {
  readonly subject: string
  readonly data: Uint8Array
  readonly atMillis: number
}

/** Reads on where it stopped when the server was away. */
async function follow(
  { manager, client }: Archive,
  stream: string,
  subject: string,
  start: Partial<ConsumerConfig>,
  stop: AbortSignal,
  tell: (line: string) => void,
  take: (message: StreamMessage) => void,
): Promise<void> {
  let sequence = 0
  let isTold = false
  while (!stop.aborted) {
    try {
      const { name } = await manager.consumers.add(stream, {
        ack_policy: AckPolicy.None,
        inactive_threshold: CONSUMER_NANOS,
        mem_storage: true,
        num_replicas: 1,
        filter_subject: subject,
        ...(sequence === 0
          ? start
          : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: sequence + 1 }),
      })
      const consumer = await client.consumers.get(stream, name)
      const messages = await consumer.consume({ abort_on_missing_resource: true })
      const onStop = (): void => messages.stop()
      stop.addEventListener('abort', onStop, { once: true })
      if (stop.aborted) onStop()
      isTold = false
      for await (const message of messages) {
        sequence = message.seq
        const atMillis = Number(message.timestampNanos / 1_000_000n)
        take({ subject: message.subject, data: message.data, atMillis })
      }
    } catch (error) {
      if (stop.aborted) return
      if (!isTold) tell(`${stream}: ${(error as Error).message}; reading on when the server answers`)
      isTold = true
    }
    await rest(RETRY_MILLIS * WAIT_SCALE, stop)
  }
}

/**
 * Gateways: their events in one stream, on a subject of each gateway (the agent's output `nats`), and the keys by which the
 * server tells them apart.
 */
import { writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { nkeys } from '@nats-io/transport-node'
import { fileError, UsageError } from '@oddflow/program'
import { z } from 'zod'
import type { Archive } from './archive.js'

export const EVENTS = 'oddflow-gateways'
const DAY_NANOS = 86_400_000_000_000
const DAYS_KEPT = 90
/** An event that comes again within this time is dropped by its id. The server keeps these ids in memory. */
const DUPLICATE_NANOS = 3_600_000_000_000
/** Between looks for new events. */
const LOOK_MILLIS = 500

const eventSubject = (gateway: string): string => `oddflow.gateway.${gateway}.event`

/** Creates the stream, if it is missing. */
export async function prepareGateways({ manager }: Archive): Promise<void> {
  await manager.streams.add({
    name: EVENTS,
    subjects: [eventSubject('*')],
    max_age: DAYS_KEPT * DAY_NANOS,
    duplicate_window: DUPLICATE_NANOS,
  })
}

export interface Gateway {
  readonly name: string
  readonly events: number
  /** ISO 8601. */
  readonly lastEvent: string
}

export async function listGateways({ manager }: Archive): Promise<Gateway[]> {
  const { state } = await manager.streams.info(EVENTS, { subjects_filter: eventSubject('*') })
  const gateways: Gateway[] = []
  for (const [subject, events] of Object.entries(state.subjects ?? {})) {
    const last = await manager.streams.getMessage(EVENTS, { last_by_subj: subject })
    if (last === null) continue
    gateways.push({ name: subject.split('.')[2]!, events, lastEvent: last.time.toISOString() })
  }
  return gateways.sort((a, b) => (a.name < b.name ? -1 : 1))
}

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
  try {
    const parsed = event.safeParse(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(data)))
    return parsed.success ? { gateway: subject.split('.')[2]!, event: parsed.data } : null
  } catch {
    return null
  }
}

/**
 * Makes the key of a gateway, writes its seed to a new file that only its owner may read, and returns the user for the
 * server's configuration: the right to write this gateway's events and to receive the answers, and nothing else.
 */
export function enroll(name: string, seedFile: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(name)) {
    throw new UsageError(`${name}: expected at most 63 lowercase letters, digits and hyphens`)
  }
  const key = nkeys.createUser()
  try {
    writeFileSync(seedFile, `${new TextDecoder().decode(key.getSeed())}\n`, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    throw fileError('write', seedFile, error)
  }
  return `{ nkey: ${key.getPublicKey()}, permissions: { publish: ["${eventSubject(name)}"], subscribe: ["_INBOX.${name}.>"] } }`
}

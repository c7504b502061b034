/**
 * RecentAlerts: what the dashboard lists, kept over a restart in `recent-alerts.json` in the state folder.
 *
 * A list to look at, not a record: alerts are safe in the spool and the EVE file. So it is written at most twice a
 * minute and at the end, and a kill costs it what came since. What is read back is checked as far as the page
 * looks into it, and bounded as the feed is.
 */
import { join } from 'node:path'
import { FormatError } from '@oddflow/core'
import * as v from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import { readStateOrSetAside, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'
import type { AlertEvent, NoticeEvent } from '../page/api.js'
import type { AlertFeed } from './alert-feed.js'

export interface RecentAlerts {
  /** To be called every second or so. */
  tick(): void
  /** Keeps what is new. Never rejects. */
  save(): Promise<void>
}

const KIND = 'oddflow-recent-alerts'
const TICKS_BETWEEN = 30

export function createRecentAlerts(
  files: FileSystem,
  folder: string,
  feed: AlertFeed,
  log: Pick<Log, 'warn'>,
): RecentAlerts {
  let kept = feed.since(0).next
  let ticks = 0
  let isTroubled = false
  let saving: Promise<void> = Promise.resolve()
  const write = async (): Promise<void> => {
    const { json, next } = feed.since(0)
    if (next === kept) return
    kept = next
    try {
      await files.makeFolder(folder)
      await writeState(files, pathIn(folder), { kind: KIND, version: 1, alerts: JSON.parse(json) })
      isTroubled = false
    } catch (error) {
      if (!isTroubled)
        log.warn(`${pathIn(folder)}: ${(error as Error).message}; the dashboard’s list is not kept`)
      isTroubled = true
    }
  }
  const save = (): Promise<void> => {
    ticks = 0
    saving = saving.then(write)
    return saving
  }
  return {
    tick() {
      if (++ticks >= TICKS_BETWEEN) void save()
    },
    save,
  }
}

/** Lines as the feed takes them, the oldest first. Rejects with the error of the file system. */
export async function readRecentAlerts(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<Uint8Array[]> {
  const alerts = (await readStateOrSetAside(files, pathIn(folder), decodeRecentAlerts, log)) ?? []
  return alerts.map((alert) => new TextEncoder().encode(JSON.stringify(alert)))
}

const count = v.pipe(v.number(), v.minValue(0))
const number = v.nullable(v.number())

/** Of an event, what the page looks into; the rest is kept as it is. */
const AlertSchema: v.GenericSchema<unknown, AlertEvent> = v.looseObject({
  timestamp: v.string(),
  alert: v.looseObject({ signature: v.string() }),
  oddflow: v.looseObject({
    id: v.string(),
    rule: v.string(),
    score: number,
    threshold: number,
    summary: v.string(),
    reason: v.exactOptional(v.picklist(['features', 'whole', 'rule', 'no-comparison'])),
    device: v.looseObject({
      mac: v.nullable(v.string()),
      address: v.string(),
      name: v.exactOptional(v.string()),
    }),
    flow: v.looseObject({
      protocol: v.string(),
      source: v.string(),
      sourcePort: count,
      destination: v.string(),
      destinationPort: count,
      packets: count,
      bytes: count,
    }),
    rarity: v.nullable(v.looseObject({ atMost: v.number(), flows: count })),
    features: v.array(v.looseObject({ name: v.string(), unit: v.string(), value: number, nearest: number })),
    shadow: v.exactOptional(v.looseObject({ score: number, threshold: v.number(), novel: v.boolean() })),
    lostInWindow: count,
    evidence: v.exactOptional(v.string()),
    evidencePackets: v.exactOptional(v.looseObject({ kept: count, of: count, later: count })),
    folded: v.exactOptional(v.looseObject({ count, peers: count, services: count })),
  }),
})

/** An event of the agent itself has no flow. */
const NoticeSchema: v.GenericSchema<unknown, NoticeEvent> = v.looseObject({
  timestamp: v.string(),
  alert: v.looseObject({ signature: v.string() }),
  oddflow: v.looseObject({
    id: v.string(),
    rule: v.string(),
    summary: v.string(),
    flow: v.exactOptional(v.never()),
  }),
})
const isOfFlow = (event: unknown): boolean =>
  (event as { oddflow?: { flow?: unknown } } | null)?.oddflow?.flow !== undefined
const EventSchema = v.lazy<v.GenericSchema<unknown, AlertEvent | NoticeEvent>>((event) =>
  isOfFlow(event) ? AlertSchema : NoticeSchema,
)

/** Throws FormatError that names the field. */
function decodeRecentAlerts(value: unknown): readonly (AlertEvent | NoticeEvent)[] {
  const parsed = v.safeParse(
    v.object({ kind: v.literal(KIND), version: v.literal(1), alerts: v.array(EventSchema) }),
    value,
    { abortEarly: true },
  )
  if (parsed.success) return parsed.output.alerts
  const [issue] = parsed.issues
  throw new FormatError('recent-alerts', `${v.getDotPath(issue) ?? 'it'}: ${issue.message}`)
}

function pathIn(folder: string): string {
  return join(folder, 'recent-alerts.json')
}

import { join } from 'node:path'
import * as v from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import {
  createKeeper,
  defineState,
  type Keeper,
  readStateOrSetAside,
  writeState,
} from '../files/state-file.js'
import type { Log } from '../log.js'

/**
 * RecentAlerts: what the dashboard lists, kept over a restart in `recent-alerts.json`. A list to look at, not a record: it is
 * written at most twice a minute and at the end. A file that is read is checked as far as the page uses it.
 */

const TICKS_BETWEEN = 30

export function createRecentAlerts(
  files: FileSystem,
  folder: string,
  feed: AlertFeed,
  log: Pick<Log, 'info' | 'warn'>,
): Keeper {
  return createKeeper({
    what: 'the dashboard’s list is',
    ticksBetween: TICKS_BETWEEN,
    changes: () => feed.since(0).next,
    savedChanges: feed.since(0).next,
    log,
    write: () => writeState(files, pathIn(folder), RECENT.encode({ alerts: JSON.parse(feed.since(0).json) })),
  })
}

/** Lines as the feed takes them, the oldest first. Rejects with FileError. */
export async function readRecentAlerts(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<Uint8Array[]> {
  const kept = await readStateOrSetAside(files, pathIn(folder), RECENT.decode, log)
  return (kept?.alerts ?? []).map((alert) => new TextEncoder().encode(JSON.stringify(alert)))
}

const count = v.pipe(v.number(), v.minValue(0))
const number = v.nullable(v.number())

/** The fields that a loose object names, without the others. */
type Named<T> = T extends readonly (infer Each)[]
  ? readonly Named<Each>[]
  : T extends object
    ? { readonly [Key in keyof T as string extends Key ? never : Key]: Named<T[Key]> }
    : T

/** An event of the EVE file, as far as the page looks into it; the rest is kept as it is. */
export type AlertEvent = Named<v.InferOutput<typeof AlertSchema>>

const AlertSchema = v.looseObject({
  timestamp: v.string(),
  alert: v.looseObject({ signature: v.string() }),
  oddflow: v.looseObject({
    id: v.string(),
    rule: v.string(),
    score: number,
    /** null where no model was asked. */
    threshold: number,
    summary: v.string(),
    /** What the sentence is about; absent from alerts that an earlier version has kept. */
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
    /** `value` or `nearest` is null where the flow, or the nearest normal one, has no such feature. */
    features: v.array(v.looseObject({ name: v.string(), unit: v.string(), value: number, nearest: number })),
    /** The verdict of the model as it was trained, if it was updated since. */
    shadow: v.exactOptional(v.looseObject({ score: number, threshold: v.number(), novel: v.boolean() })),
    lostInWindow: count,
    evidence: v.exactOptional(v.string()),
    /** Packets in that file: up to the verdict, of all packets that the flow had then, and after it. */
    evidencePackets: v.exactOptional(v.looseObject({ kept: count, of: count, later: count })),
    folded: v.exactOptional(v.looseObject({ count, peers: count, services: count })),
  }),
})

/** An event about the agent itself, without a flow, or about an incident. */
export type NoticeEvent = Named<v.InferOutput<typeof NoticeSchema>>

const NoticeSchema = v.looseObject({
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
const EventSchema = v.lazy((event) => (isOfFlow(event) ? AlertSchema : NoticeSchema))

const RECENT = defineState('recent-alerts', 1, v.object({ alerts: v.array(EventSchema) }))

function pathIn(folder: string): string {
  return join(folder, 'recent-alerts.json')
}

export type ScoreHistory = ReturnType<typeof createScoreHistory>
export type ScoreMinute = ReturnType<ScoreHistory['minutes']>[number]

const MINUTE_MICROS = 60_000_000
const MINUTES = 120
const SAMPLE = 32

function emptyMinute(number: number) {
  return { number, flows: 0, novel: 0, lowest: Infinity, scored: 0, stride: 1, sample: [] as number[] }
}

/**
 * How far from the threshold the flows of the last two hours were, by minutes of the packets' time: the number of verdicts and
 * of novel ones, the lowest decision (score − threshold), and a sample of decisions for their median: the first ones, then
 * every second, every fourth and so on, so that it spreads over the minute without chance.
 */
export function createScoreHistory() {
  /** Ascending; a late packet's minute may be missing, and then counts with the next. */
  const minutes: ReturnType<typeof emptyMinute>[] = []

  const minuteOf = (number: number) => {
    const last = minutes.at(-1)
    if (last !== undefined && number <= last.number) {
      return minutes.find((minute) => minute.number >= number) ?? last
    }
    const minute = emptyMinute(number)
    minutes.push(minute)
    while (minutes.length > MINUTES || minutes[0].number <= number - MINUTES) minutes.shift()
    return minute
  }
  return {
    /** @param decision - score − threshold; null where another rule decided. */
    note(atMicros: number, novel: boolean, decision: number | null): void {
      const minute = minuteOf(Math.floor(atMicros / MINUTE_MICROS))
      minute.flows++
      if (novel) minute.novel++
      if (decision === null) return
      if (decision < minute.lowest) minute.lowest = decision
      if (minute.scored++ % minute.stride !== 0) return
      minute.sample.push(decision)
      if (minute.sample.length <= SAMPLE) return
      minute.sample = minute.sample.filter((_, i) => i % 2 === 0)
      minute.stride *= 2
    },
    clockSet(byMicros: number): void {
      const byMinutes = Math.round(byMicros / MINUTE_MICROS)
      for (const minute of minutes) minute.number += byMinutes
    },
    /** Each with its start; `lowest` and `median` are null where no flow of the minute had a score. */
    minutes: () =>
      minutes.map(({ number, flows, novel, lowest, sample }) => ({
        atMicros: number * MINUTE_MICROS,
        flows,
        novel,
        lowest: sample.length === 0 ? null : lowest,
        median: sample.length === 0 ? null : [...sample].sort((a, b) => a - b)[sample.length >> 1],
      })),
  }
}

export type AlertFeed = ReturnType<typeof createAlertFeed>

const MAXIMUM_ALERTS = 100
const MAXIMUM_BYTES = 524_288

/**
 * The last alerts, as they were encoded for the outputs, bounded in number and in bytes.
 * @param known - those of an earlier run, the oldest first.
 */
export function createAlertFeed(known: readonly Uint8Array[] = []) {
  const lines: Uint8Array[] = []
  let first = 0
  let bytes = 0
  const add = (line: Uint8Array): void => {
    lines.push(line)
    bytes += line.length
    while (lines.length > MAXIMUM_ALERTS || (bytes > MAXIMUM_BYTES && lines.length > 1)) {
      bytes -= lines[0].length
      lines.shift()
      first++
    }
  }
  for (const line of known) add(line)
  return {
    add,
    /** Alerts from number `from` on, or what there is of them, as a JSON array; `next` is the number to ask for next. */
    since(from: number): { json: string; next: number } {
      const next = first + lines.length
      // a page from before a restart has a number beyond the last, and starts from the first
      const begin = from > next ? 0 : Math.max(0, from - first)
      const decoder = new TextDecoder()
      const texts = lines.slice(begin).map((line) => decoder.decode(line))
      return { json: `[${texts.join(',')}]`, next }
    },
  }
}

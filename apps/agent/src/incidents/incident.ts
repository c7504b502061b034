/**
 * Incident: the unusual flows and facts of one device in a stretch of time, as one thing that a person can read and answer.
 *
 * Plain data, as the state folder keeps it and as commands show it. Times are those of packets. Its words are the program's own,
 * with addresses and the name that a person or the device gives it.
 */

import { jsonLine } from '@oddflow/program'
import * as v from 'valibot'
import { eveAlert, eventHead, eventId, eveTime, type Signature } from '../alerts/eve.js'
import type { PeerName } from '../devices/peer-names.js'
import type { FileSystem } from '../files/file-system.js'
import { createKeeper, defineState, type Keeper } from '../files/state-file.js'
import type { Log } from '../log.js'
import { INCIDENT_KINDS } from '../page/kinds.js'
import type { NoticeEvent } from '../web/alerts.js'
import type { IncidentRows } from './incident-rows.js'
import type { IncidentBook } from './incidents.js'

export const INCIDENT_LEVELS = ['low', 'medium', 'high'] as const
export type IncidentLevel = (typeof INCIDENT_LEVELS)[number]

/** Up to 2200, so that a later time is valid too; before 1970 if a clock was set back to then. */
const LATEST_MICROS = 7_258_118_400_000_000
export const time = v.pipe(v.number(), v.safeInteger(), v.minValue(-LATEST_MICROS), v.maxValue(LATEST_MICROS))
/** Sums stay safe integers. */
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.maxValue(2 ** 50))
/** Longer texts cannot be read back. */
export const MAXIMUM_TEXT = 1000
const text = v.pipe(v.string(), v.maxLength(MAXIMUM_TEXT))
const evidence = v.pipe(v.number(), v.finite(), v.minValue(0), v.maxValue(2 ** 50))

const FactSchema = v.object({
  rule: text,
  /** Of the device that it is about. */
  key: text,
  /** Alerts by this rule. */
  count,
  firstMicros: time,
  lastMicros: time,
  /** The latest sentence. */
  fact: text,
})

/** More contacts or facts than these are not told apart. */
export const MAXIMUM_CONTACTS = 32
export const MAXIMUM_FACTS = 16
/** Limits of gathering and open incidents, and of finished ones. */
export const MAXIMUM_ACTIVE = 256
export const MAXIMUM_OVER = 200
const contacts = v.pipe(
  v.array(v.object({ peer: text, service: text, alerts: count })),
  v.maxLength(MAXIMUM_CONTACTS),
)

const IncidentSchema = v.object({
  /** 32 hexadecimal digits, the same over restarts. */
  id: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/)),
  /** `gathering`: not enough for an incident yet, and nothing was said of it. */
  state: v.picklist(['gathering', 'open', 'over']),
  /** Of the device: its MAC address, or its address. */
  key: text,
  device: v.object({
    mac: v.nullable(text),
    address: text,
    name: v.exactOptional(text),
    group: v.exactOptional(text),
  }),
  kind: v.picklist(INCIDENT_KINDS),
  level: v.picklist(INCIDENT_LEVELS),
  beginMicros: time,
  /** Of the last flow or fact. */
  endMicros: time,
  /** As it has faded up to `endMicros`; and without fading. */
  evidence,
  totalEvidence: evidence,
  /** As it was last reported; null before. */
  reported: v.nullable(
    v.object({
      kind: v.picklist(INCIDENT_KINDS),
      level: v.picklist(INCIDENT_LEVELS),
      evidence,
      /** How many kinds of facts open an incident by themselves (seriousKinds). */
      kinds: v.exactOptional(count),
    }),
  ),
  /** Times that it was reported. */
  reports: count,
  /** Unusual flows. */
  flows: count,
  /** How rare the most unusual of them is among normal ones; null where no flow had a score. */
  rarity: v.nullable(v.object({ atMost: v.number(), flows: count })),
  /** By the device, in unusual flows. */
  sentBytes: count,
  receivedBytes: count,
  facts: v.pipe(v.array(FactSchema), v.maxLength(MAXIMUM_FACTS)),
  contacts,
  /** A sentence for people. */
  summary: text,
  /** What sets the most unusual flow apart. */
  reasons: v.pipe(v.array(text), v.maxLength(4)),
})

export type Incident = v.InferOutput<typeof IncidentSchema>

/** An incident that gathers, with no flow and no fact yet. */
export function emptyIncident({
  id,
  key,
  device,
  beginMicros,
  endMicros,
}: Pick<Incident, 'id' | 'key' | 'device' | 'beginMicros' | 'endMicros'>): Incident {
  return {
    id,
    state: 'gathering',
    key,
    device,
    kind: 'unusual-flows',
    level: 'low',
    beginMicros,
    endMicros,
    evidence: 0,
    totalEvidence: 0,
    reported: null,
    reports: 0,
    flows: 0,
    rarity: null,
    sentBytes: 0,
    receivedBytes: 0,
    facts: [],
    contacts: [],
    summary: '',
    reasons: [],
  }
}

const isDistinct = (values: readonly string[]): boolean => new Set(values).size === values.length
const activeOf = (incidents: readonly Incident[]): Incident[] =>
  incidents.filter(({ state }) => state !== 'over')
const IncidentsSchema = v.pipe(
  v.array(IncidentSchema),
  v.maxLength(MAXIMUM_ACTIVE + MAXIMUM_OVER),
  v.check(
    (all) => activeOf(all).length <= MAXIMUM_ACTIVE,
    `expected at most ${MAXIMUM_ACTIVE} that are not over`,
  ),
  v.check((all) => isDistinct(all.map(({ id }) => id)), 'expected each id once'),
  v.check(
    (all) => isDistinct(activeOf(all).map(({ key }) => key)),
    'expected one that is not over for each device',
  ),
  v.everyItem(
    ({ beginMicros, endMicros, evidence, totalEvidence }) =>
      beginMicros <= endMicros && evidence <= totalEvidence,
    'expected a begin before the end, and not more evidence than there was in all',
  ),
)

export const INCIDENTS = defineState(
  'incidents',
  1,
  v.pipe(
    v.object({ incidents: IncidentsSchema }),
    v.transform(({ incidents }) => incidents),
  ),
)

/** What happened to it, for outputs. */
export type IncidentChange = 'opened' | 'worse' | 'over'

const SIGNATURES: Readonly<Record<IncidentChange, Signature>> = {
  opened: [1_790_050, 'incident opened'],
  worse: [1_790_051, 'incident became worse'],
  over: [1_790_052, 'incident over'],
}

const SEVERITIES: Readonly<Record<IncidentLevel, number>> = { high: 1, medium: 2, low: 3 }

/** One line of JSON without its line feed. @param iface - the interface's name, null for a file. @param names - of its contacts */
export function encodeIncidentEvent(
  incident: Incident,
  change: IncidentChange,
  iface: string | null,
  names: readonly PeerName[] = [],
): Uint8Array {
  const { id, kind, level, device, beginMicros, endMicros, totalEvidence, summary } = incident
  const event = {
    ...eventHead(endMicros, iface),
    event_type: 'incident',
    alert: eveAlert(SIGNATURES[change], 'Anomalous traffic', SEVERITIES[level]),
    oddflow: {
      // one for each report, so that a receiver that counts nothing twice keeps them all
      id: eventId(`${id} ${change} ${incident.reports}`),
      rule: 'incident',
      summary,
      ...(names.length === 0 ? {} : { names }),
      incident: {
        id,
        change,
        kind,
        level,
        device,
        begin: eveTime(beginMicros),
        end: eveTime(endMicros),
        seconds: Math.round((endMicros - beginMicros) / 1_000_000),
        evidence: Math.round(10 * totalEvidence) / 10,
        flows: incident.flows,
        sentBytes: incident.sentBytes,
        receivedBytes: incident.receivedBytes,
        facts: incident.facts.map(({ rule, key, count: times, firstMicros, lastMicros, fact }) => ({
          rule,
          device: key,
          count: times,
          first: eveTime(firstMicros),
          last: eveTime(lastMicros),
          fact,
        })),
        contacts: incident.contacts,
        reasons: incident.reasons,
      },
    },
  }
  // what the page looks into
  const checked: NoticeEvent = event
  return new TextEncoder().encode(jsonLine(checked))
}

/**
 * Incidents in the state folder: `incidents.json` with its copy, and `incident-rows.json`. Open incidents keep their ids over a restart.
 * A report is written within a second, other evidence within a minute.
 */

const TICKS_BETWEEN = 60

export function createIncidentKeeper(
  book: Pick<IncidentBook, 'all' | 'changes' | 'reports'>,
  rows: Pick<IncidentRows, 'keepOnly' | 'write'>,
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'info' | 'warn'>,
): Keeper {
  let savedReports = 0
  const keeper = createKeeper({
    what: 'incidents are',
    ticksBetween: TICKS_BETWEEN,
    changes: () => book.changes,
    savedChanges: 0,
    log,
    async write() {
      const { reports } = book
      const all = book.all()
      rows.keepOnly(all)
      await rows.write(files, folder)
      await INCIDENTS.writeTwice(files, folder, { incidents: all })
      savedReports = reports
    },
  })
  return {
    tick: () => keeper.tick(book.reports !== savedReports),
    save: keeper.save,
    get isTroubled() {
      return keeper.isTroubled
    },
  }
}

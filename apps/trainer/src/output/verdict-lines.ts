/**
 * Verdicts as lines: a table to read, JSON lines or CSV to process. Numbers are written so that reading them
 * gives the same float64.
 */

import { describeOrder } from '@oddflow/capture'
import { plural } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import type { FlowCounters } from '@oddflow/flows'
import {
  checkWritable,
  createLineWriter,
  jsonLine,
  type LineWriter,
  printable,
  type Rarity,
  rarityText,
  scoreRarity,
  UsageError,
} from '@oddflow/program'
import type { GroupKind, ScoredGroup } from '../commands/score.js'
import { type InputKind, note } from '../inputs.js'
import { type CaptureRead, describeView, sumUnsupported } from '../pipeline/read-packets.js'
import { endpoint, type FlowFacts, type InputVerdict, type VerdictCounts } from '../pipeline/verdict-store.js'

export function describeVerdicts(counts: readonly VerdictCounts[], kind: InputKind): string {
  const sum = (key: keyof VerdictCounts): number => counts.reduce((total, c) => total + c[key], 0)
  const total = sum('total')
  const what = kind === 'rows' ? plural(total, 'row') : plural(total, 'flow record')
  if (kind === 'rows') return `${what}: ${sum('novel')} novel`
  const rules = [
    `${sum('novelByScore')} of ${sum('byScore')} by score`,
    `${sum('novelOnePacket')} of ${plural(sum('onePacket'), 'one-packet flow')} by service`,
  ]
  const byRule = sum('onePacket') === 0 ? '' : ` (${rules.join(', ')})`
  const notJudged = sum('notJudged')
  return `${what}: ${sum('novel')} novel${byRule}${notJudged > 0 ? `; ${notJudged} not judged (without a row)` : ''}`
}

/** @param reads what was read, by which link types that are not supported are named */
export function describePackets(counters: FlowCounters, reads: readonly CaptureRead[]): string {
  const dropped = Object.entries(counters.dropped) as [string, number][]
  const types = Object.entries(sumUnsupported(reads)).map(([name, n]) => `${n} ${name}`)
  const lost = dropped
    .map(
      ([reason, n]) =>
        `${n} ${reason}${reason === 'link-type-unsupported' && types.length > 0 ? ` (${types.join(', ')})` : ''}`,
    )
    .join(', ')
  const parts = [`${plural(counters.packets, 'packet')}: ${counters.packetsInFlows} in flows`]
  if (lost !== '') parts.push(`not in flows: ${lost}`)
  if (counters.remainders > 0) {
    parts.push(
      `${plural(counters.remainderPackets, 'packet')} left over at the end of ${plural(counters.remainders, 'long flow')}`,
    )
  }
  if (counters.timestampBackwards > 0) {
    parts.push(
      `${plural(counters.timestampBackwards, 'packet')} earlier than the packet before (treated as simultaneous)`,
    )
  }
  parts.push(...describeOrder(counters))
  if (counters.evictedFlows > 0)
    parts.push(`${plural(counters.evictedFlows, 'flow')} ended early for lack of memory`)
  return parts.join('; ')
}

/** What became of the packets, and what the view made of them; nothing for feature rows. */
export function notePackets(counters: FlowCounters | null, reads: readonly CaptureRead[]): void {
  if (counters !== null) note(describePackets(counters, reads))
  const seen = describeView(reads)
  if (seen !== null) note(seen)
}

/** Which scores are novel, and which way they point. */
export function describeThreshold({ threshold }: SavedModel): string {
  return `novel: a score of ${threshold.value.toPrecision(6)} or lower; the lower, the more unusual`
}

/** The level that makes a group novel, and what the number of training groups can promise. */
export function describeGroupLevel({ groups }: SavedModel, kind: GroupKind): string {
  const level = groups?.[kind]
  if (level === null || level === undefined) return ''
  return `novel: a ${kind} with a score above ${level.level.toFixed(3)}, which none of ${level.groups} training ${kind}s exceeds; the higher, the more unusual (flows score the other way round); at most about 1 in ${level.groups + 1} normal ${kind}s exceeds it`
}

/** As checkWritable; throws UsageError where "-" is a terminal. */
export function checkModelOutput(path: string, taken: readonly string[]): void {
  if (path !== '-') checkWritable(path, taken)
  else if (process.stdout.isTTY) {
    throw new UsageError(
      '--output -: a model file is bytes, and standard output is a terminal; name a file, or redirect it',
    )
  }
}

/** For the text beside a model that goes to `path`: on standard error if the model is on standard output. */
export function tellingWriter(path: string): LineWriter {
  return createLineWriter(path === '-' ? 2 : 1)
}

type Format = 'table' | 'json' | 'csv'

interface ItemWriter<Item> {
  write(item: Item): void
}

/** How items of one kind stand in each format. */
interface ItemForm<Item> {
  readonly json: (item: Item) => Record<string, unknown>
  /** Of CSV: names of what JSON has. */
  readonly columns: readonly string[]
  readonly table: readonly (readonly [head: string, width: number, text: (item: Item) => string])[]
  /** The table's head is written without a row too. */
  readonly isHeadFirst?: true
}

interface Why {
  readonly reasons: readonly string[]
  readonly rarity: Rarity | null
}

/** @param why columns of JSON and CSV, and a line under a row of the table that has reasons. @param one what a row is */
function createWriter<Item>(
  format: Format,
  out: LineWriter,
  { json, columns, table, isHeadFirst }: ItemForm<Item>,
  why?: (item: Item) => Why,
  one?: 'flow' | 'row',
): ItemWriter<Item> {
  if (format === 'json') return { write: (item) => out.line(jsonLine({ ...json(item), ...why?.(item) })) }
  if (format === 'csv') {
    out.line([...columns, ...(why === undefined ? [] : ['reasons', 'rarity'])].join(','))
    return {
      write(item) {
        const values = json(item)
        const { reasons, rarity } = why?.(item) ?? {}
        const more = reasons === undefined ? [] : [reasons.join('; '), rarity?.atMost]
        out.line([...columns.map((column) => values[column]), ...more].map(csvField).join(','))
      },
    }
  }
  const row = (texts: readonly string[]): void =>
    out.line(texts.map((text, i) => text.padEnd(table[i][1])).join('  '))
  let isBegun = false
  const begin = (): void => {
    if (!isBegun) row(table.map(([head]) => head))
    isBegun = true
  }
  if (isHeadFirst) begin()
  return {
    write(item) {
      begin()
      row(table.map(([, , text]) => text(item)))
      const { reasons = [], rarity = null } = why?.(item) ?? {}
      const rare = rarity === null ? null : rarityText(rarity, one)
      if (reasons.length > 0)
        out.line(`${' '.repeat(9)}${[...reasons, ...(rare === null ? [] : [rare])].join('; ')}`)
    },
  }
}

/** @param explained the model whose reasons stand beside novel verdicts; null for verdicts alone. */
export function createVerdictWriter(
  format: Format,
  kind: InputKind,
  out: LineWriter,
  explained: SavedModel | null = null,
): ItemWriter<InputVerdict> {
  const [form, one] = kind === 'rows' ? ([ROWS, 'row'] as const) : ([FLOWS, 'flow'] as const)
  if (explained === null) return createWriter(format, out, form)
  const why = (verdict: InputVerdict): Why => ({
    reasons: reasonsOf(verdict),
    rarity: rarityOf(verdict, explained),
  })
  return createWriter(format, out, form, why, one)
}

export const createGroupWriter = (format: Format, out: LineWriter): ItemWriter<ScoredGroup> =>
  createWriter(format, out, GROUPS)

/** The object of one JSON line. */
export function verdictJson(verdict: InputVerdict): Record<string, unknown> {
  const { score, decision, novel, rule, input, row, flow } = verdict
  return { score, decision, novel, rule, ...(flow ?? { input, row }) }
}

/** Why a verdict is novel, in words; nothing where it is not. */
function reasonsOf({ novel, rule, explain }: InputVerdict): readonly string[] {
  if (!novel) return []
  if (rule === 'one-packet') return ['training had no single-packet flow to this service']
  const found = explain?.()
  if (found === undefined || found.reason === 'no-comparison') {
    return ['unlike normal flows; the model stores no normal flow for comparison']
  }
  return found.reasons.length === 0 ? ['unlike normal flows as a whole'] : found.reasons
}

function rarityOf({ novel, score }: InputVerdict, saved: SavedModel): Rarity | null {
  return novel && score !== null ? scoreRarity(saved, score) : null
}

const verdictWord = (novel: boolean): string => (novel ? 'NOVEL' : 'normal')

const ROWS: ItemForm<InputVerdict> = {
  json: verdictJson,
  columns: ['score', 'decision', 'novel', 'rule', 'input', 'row'],
  table: [
    ['verdict', 7, ({ novel }) => verdictWord(novel)],
    ['score', 12, ({ score }) => scoreText(score)],
    ['row', 8, ({ row }) => String(row)],
    ['input', 0, ({ input }) => printable(input)],
  ],
}

const FLOW_COLUMNS = [
  ...['score', 'decision', 'novel', 'rule', 'capture', 'protocol', 'source', 'sourcePort', 'destination'],
  ...['destinationPort', 'startMicros', 'durationMicros', 'packets', 'bytes', 'piece'],
]
const ends = ({ source, sourcePort, destination, destinationPort }: FlowFacts): string =>
  `${endpoint(source, sourcePort)} → ${endpoint(destination, destinationPort)}`

const FLOWS: ItemForm<InputVerdict> = {
  json: verdictJson,
  columns: FLOW_COLUMNS,
  table: [
    ['verdict', 7, ({ rule, novel }) => (rule === 'not-judged' ? 'unknown' : verdictWord(novel))],
    ['score', 12, ({ rule, score }) => (rule === 'one-packet' ? 'one packet' : scoreText(score))],
    ['protocol', 8, ({ flow }) => flow!.protocol],
    // a long flow is judged piece by piece; 1 is its first
    ['piece', 5, ({ flow }) => String(flow!.piece + 1)],
    ['packets', 7, ({ flow }) => String(flow!.packets)],
    ['bytes', 9, ({ flow }) => String(flow!.bytes)],
    ['seconds', 10, ({ flow }) => (flow!.durationMicros / 1e6).toFixed(6)],
    ['start (UTC)', 23, ({ flow }) => timeText(flow!.startMicros)],
    ['flow', 0, ({ flow }) => ends(flow!)],
  ],
}

const GROUPS: ItemForm<ScoredGroup> = {
  json: (group) => ({ ...group }),
  columns: ['group', 'capture', 'device', 'flows', 'unusual', 'score', 'novel'],
  isHeadFirst: true,
  table: [
    ['verdict', 7, ({ novel }) => verdictWord(novel)],
    ['score', 8, ({ score }) => score.toFixed(3)],
    ['flows', 8, ({ flows }) => String(flows)],
    ['unusual', 8, ({ unusual }) => String(unusual)],
    [
      'capture or device',
      0,
      ({ device, capture }) => (device === null ? '' : `${device} in `) + printable(capture),
    ],
  ],
}

/** RFC 4180 quoting. A leading = + - @ in a name would be a formula in a spreadsheet, so a quote goes before. */
function csvField(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value !== 'string') return String(value)
  const text = /^[=+\-@\t\r]/.test(value) && value !== '-' ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function scoreText(score: number | null): string {
  return score === null ? '–' : score.toPrecision(6)
}

/** A time that no calendar has is shown as its number. */
export function timeText(micros: number): string {
  const date = new Date(micros / 1000)
  return Number.isNaN(date.getTime()) ? String(micros) : date.toISOString().replace('T', ' ').replace('Z', '')
}

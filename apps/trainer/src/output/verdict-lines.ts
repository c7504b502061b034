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
import { endpoint, type InputVerdict, type VerdictCounts } from '../pipeline/verdict-store.js'

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

interface VerdictWriter {
  write(verdict: InputVerdict): void
}

/** @param explained the model whose reasons stand beside novel verdicts; null for verdicts alone. */
export function createVerdictWriter(
  format: 'table' | 'json' | 'csv',
  kind: InputKind,
  out: LineWriter,
  explained: SavedModel | null = null,
): VerdictWriter {
  if (format === 'json') return { write: (v) => out.line(jsonLine(verdictJson(v, explained))) }
  const rows = kind === 'rows'
  if (format === 'csv') {
    const columns = rows ? ROW_COLUMNS : FLOW_COLUMNS
    out.line([...columns, ...(explained === null ? [] : WHY_COLUMNS)].join(','))
    return {
      write(v) {
        const values = verdictJson(v)
        const why = explained === null ? [] : [reasonsOf(v).join('; '), rarityOf(v, explained)?.atMost]
        out.line([...columns.map((column) => values[column]), ...why].map(csvField).join(','))
      },
    }
  }
  let started = false
  return {
    write(verdict) {
      if (!started) {
        started = true
        out.line(
          rows
            ? tableLine(['verdict', 'score', 'row', 'input'], ROW_WIDTHS)
            : tableLine(FLOW_HEAD, FLOW_WIDTHS),
        )
      }
      out.line(rows ? rowTableLine(verdict) : flowTableLine(verdict))
      if (explained === null || !verdict.novel) return
      const rarity = rarityOf(verdict, explained)
      const rare = rarity === null ? null : rarityText(rarity, rows ? 'row' : 'flow')
      const words = [...reasonsOf(verdict), ...(rare === null ? [] : [rare])]
      out.line(`${' '.repeat(FLOW_WIDTHS[0] + 2)}${words.join('; ')}`)
    },
  }
}

export function createGroupWriter(
  format: 'table' | 'json' | 'csv',
  out: LineWriter,
): { write(group: ScoredGroup): void } {
  if (format === 'json') return { write: (group) => out.line(jsonLine(groupJson(group))) }
  if (format === 'csv') {
    out.line(GROUP_COLUMNS.join(','))
    return {
      write(group) {
        const values = groupJson(group)
        out.line(GROUP_COLUMNS.map((column) => csvField(values[column])).join(','))
      },
    }
  }
  out.line(tableLine(['verdict', 'score', 'flows', 'unusual', 'capture or device'], GROUP_WIDTHS))
  return {
    write({ novel, score, flows, unusual, capture, device }) {
      const name = device === null ? printable(capture) : `${device} in ${printable(capture)}`
      out.line(
        tableLine(
          [novel ? 'NOVEL' : 'normal', score.toFixed(3), String(flows), String(unusual), name],
          GROUP_WIDTHS,
        ),
      )
    },
  }
}

function groupJson(found: ScoredGroup): Record<string, unknown> {
  const { group, capture, device, flows, unusual, score, novel } = found
  return { group, capture, device, flows, unusual, score, novel }
}

const GROUP_COLUMNS = ['group', 'capture', 'device', 'flows', 'unusual', 'score', 'novel']
const GROUP_WIDTHS = [7, 8, 8, 8]

/** The object of one JSON line. */
export function verdictJson(
  verdict: InputVerdict,
  explained: SavedModel | null = null,
): Record<string, unknown> {
  const { score, decision, novel, rule, input, row, flow } = verdict
  const head = { score, decision, novel, rule }
  const why = explained === null ? {} : { reasons: reasonsOf(verdict), rarity: rarityOf(verdict, explained) }
  return flow === null ? { ...head, input, row, ...why } : { ...head, ...flow, ...why }
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

const WHY_COLUMNS = ['reasons', 'rarity']
const ROW_COLUMNS = ['score', 'decision', 'novel', 'rule', 'input', 'row']
const FLOW_COLUMNS = [
  'score',
  'decision',
  'novel',
  'rule',
  'capture',
  'protocol',
  'source',
  'sourcePort',
  'destination',
  'destinationPort',
  'startMicros',
  'durationMicros',
  'packets',
  'bytes',
  'piece',
]

/** RFC 4180 quoting. A leading = + - @ in a name would be a formula in a spreadsheet, so a quote goes before. */
function csvField(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value !== 'string') return String(value)
  const text = /^[=+\-@\t\r]/.test(value) && value !== '-' ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const ROW_WIDTHS = [7, 12, 8]
const FLOW_HEAD = [
  'verdict',
  'score',
  'protocol',
  'piece',
  'packets',
  'bytes',
  'seconds',
  'start (UTC)',
  'flow',
]
const FLOW_WIDTHS = [7, 12, 8, 5, 7, 9, 10, 23]

function tableLine(cells: readonly string[], widths: readonly number[]): string {
  return cells.map((cell, i) => (i < widths.length ? cell.padEnd(widths[i]) : cell)).join('  ')
}

function rowTableLine({ novel, score, row, input }: InputVerdict): string {
  return tableLine([novel ? 'NOVEL' : 'normal', scoreText(score), String(row), printable(input)], ROW_WIDTHS)
}

function flowTableLine({ novel, score, rule, flow }: InputVerdict): string {
  if (flow === null) return ''
  const verdict = rule === 'not-judged' ? 'unknown' : novel ? 'NOVEL' : 'normal'
  return tableLine(
    [
      verdict,
      rule === 'one-packet' ? 'one packet' : scoreText(score),
      flow.protocol,
      // a long flow is judged piece by piece; 1 is its first
      String(flow.piece + 1),
      String(flow.packets),
      String(flow.bytes),
      (flow.durationMicros / 1e6).toFixed(6),
      timeText(flow.startMicros),
      `${endpoint(flow.source, flow.sourcePort)} → ${endpoint(flow.destination, flow.destinationPort)}`,
    ],
    FLOW_WIDTHS,
  )
}

function scoreText(score: number | null): string {
  return score === null ? '–' : score.toPrecision(6)
}

/** A time that no calendar has is shown as its number. */
export function timeText(micros: number): string {
  const date = new Date(micros / 1000)
  return Number.isNaN(date.getTime()) ? String(micros) : date.toISOString().replace('T', ' ').replace('Z', '')
}

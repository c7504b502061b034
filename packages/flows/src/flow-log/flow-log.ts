/**
 * Flow records for people, as JSON lines or CSV, under the names that flow-log-fields.ts explains. ts and duration
 * are seconds.
 */
import type { FlowRecord } from '../flow-record.js'
import { type FlowLogField, type FlowLogOptions, flowLogFields } from './flow-log-fields.js'

/** One line: field to value, in order. */
export type FlowLogEntry = Record<string, string | number>

/** The fields of a record; plain data, valid as long as one likes. */
export function flowLogEntry(record: FlowRecord, options: FlowLogOptions = {}): FlowLogEntry {
  return entryOf(record, flowLogFields(options))
}

export interface FlowLogFormat {
  /** What comes before the first line; "" for JSON. */
  readonly header: string
  /** A line with its line feed. */
  line(record: FlowRecord): string
}

/**
 * Lines of many records; `json` is an object a line, `csv` is RFC 4180. No text of a field needs quotes or escapes
 * (flow-log-fields.ts), so a line is what stands before each value, and the values.
 */
export function createFlowLogFormat(format: 'json' | 'csv', options: FlowLogOptions = {}): FlowLogFormat {
  const fields = flowLogFields(options)
  const header = format === 'json' ? '' : `${fields.map(({ name }) => name).join(',')}\n`
  const isJson = format === 'json'
  const parts = fields.map((field, i): LinePart => {
    const quote = isJson && field.kind === 'text' ? '"' : ''
    const key = isJson ? `${JSON.stringify(field.name)}:` : ''
    // the quote behind a text stands before what comes next
    const closing = isJson && i > 0 && fields[i - 1].kind === 'text' ? '"' : ''
    const separator = i > 0 ? ',' : isJson ? '{' : ''
    return { before: `${closing}${separator}${key}${quote}`, seconds: isSeconds(field), read: field.read }
  })
  const end = isJson ? (fields[fields.length - 1].kind === 'text' ? '"}\n' : '}\n') : '\n'
  return {
    header,
    line(record) {
      let text = ''
      for (const { before, seconds, read } of parts) {
        const value = read(record)
        text += before + (seconds ? (value as number) / 1_000_000 : value)
      }
      return text + end
    },
  }
}

interface LinePart {
  readonly before: string
  readonly seconds: boolean
  readonly read: FlowLogField['read']
}

/** A JSON line, with its line feed. */
export function formatFlowJsonLine(record: FlowRecord, options: FlowLogOptions = {}): string {
  return createFlowLogFormat('json', options).line(record)
}

/** A CSV line, in the order of formatFlowCsvHeader, with its line feed. */
export function formatFlowCsvLine(record: FlowRecord, options: FlowLogOptions = {}): string {
  return createFlowLogFormat('csv', options).line(record)
}

/** The first line of a CSV file of flow records: names, which depend on the options alone. */
export function formatFlowCsvHeader(options: FlowLogOptions = {}): string {
  return createFlowLogFormat('csv', options).header
}

function entryOf(record: FlowRecord, fields: readonly FlowLogField[]): FlowLogEntry {
  const entry: FlowLogEntry = {}
  for (const field of fields) entry[field.name] = valueIn(record, field)
  return entry
}

function valueIn(record: FlowRecord, field: FlowLogField): string | number {
  const value = field.read(record)
  return isSeconds(field) ? (value as number) / 1_000_000 : value
}

function isSeconds({ kind }: FlowLogField): boolean {
  return kind === 'time' || kind === 'interval'
}

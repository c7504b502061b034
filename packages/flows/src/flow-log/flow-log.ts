/**
 * Flow records for people, as JSON lines or CSV, under the names that flow-log-fields.ts explains. ts and duration
 * are seconds.
 */
import type { FlowRecord } from '../flow-record.js'
import { type FlowLogField, type FlowLogOptions, flowLogFields } from './flow-log-fields.js'

/** One line: field to value, in order, without those that the record has not. */
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
    const separator = i > 0 ? ',' : isJson ? '{' : ''
    const isLeftOut = isJson && field.isOptional
    return {
      before: `${separator}${key}${quote}`,
      after: quote,
      seconds: isSeconds(field),
      isLeftOut,
      read: field.read,
    }
  })
  const end = isJson ? '}\n' : '\n'
  return {
    header,
    line(record) {
      let text = ''
      for (const { before, after, seconds, isLeftOut, read } of parts) {
        const value = read(record)
        if (isLeftOut && value === '') continue
        text += before + (seconds ? secondsText(value as number) : value) + after
      }
      return text + end
    },
  }
}

/** Always six decimals: programs that guess a column's type from its first lines see no whole numbers. */
function secondsText(micros: number): string {
  const whole = Math.trunc(micros / 1_000_000)
  const sign = micros < 0 && whole === 0 ? '-' : ''
  return `${sign}${whole}.${String(Math.abs(micros - 1_000_000 * whole)).padStart(6, '0')}`
}

interface LinePart {
  readonly before: string
  readonly after: string
  /** Where there is no value. */
  readonly isLeftOut: boolean
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
  for (const field of fields) {
    const value = valueIn(record, field)
    if (!field.isOptional || value !== '') entry[field.name] = value
  }
  return entry
}

function valueIn(record: FlowRecord, field: FlowLogField): string | number {
  const value = field.read(record)
  return isSeconds(field) ? (value as number) / 1_000_000 : value
}

function isSeconds({ kind }: FlowLogField): boolean {
  return kind === 'time' || kind === 'interval'
}

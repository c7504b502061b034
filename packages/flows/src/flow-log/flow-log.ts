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

/** Lines of many records; `json` is an object a line, `csv` is RFC 4180, in which no value needs quotes. */
export function createFlowLogFormat(format: 'json' | 'csv', options: FlowLogOptions = {}): FlowLogFormat {
  const fields = flowLogFields(options)
  return format === 'json'
    ? { header: '', line: (record) => `${JSON.stringify(entryOf(record, fields))}\n` }
    : {
        header: `${fields.map(({ name }) => name).join(',')}\n`,
        line: (record) => `${fields.map((field) => valueIn(record, field)).join(',')}\n`,
      }
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

function valueIn(record: FlowRecord, { kind, read }: FlowLogField): string | number {
  const value = read(record)
  return kind === 'time' || kind === 'interval' ? (value as number) / 1_000_000 : value
}

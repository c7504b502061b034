/** Flow records as JSON lines, CSV, a structured NumPy array or Parquet. */
import {
  createFlowLogFormat,
  type FlowLogField,
  type FlowLogOptions,
  type FlowRecord,
  flowLogFields,
} from '@oddflow/flows'
import { openWholeFile, UsageError, type WholeFile } from '@oddflow/program'
import { createParquetWriter } from '@oddflow/program/parquet'
import { VERSION } from './inputs.js'

/**
 * A structured NumPy array (NEP 1, version 1.0): times as datetime64[us], intervals as float64 seconds, counts as uint64,
 * texts as bytes of a fixed length. The header names the number of records, so it is written last over its first draft.
 */

const BATCH_RECORDS = 4096

/** Wide enough for any number of records. */
const SHAPE_DIGITS = 16

const createNpyFlowWriter: FlowWriterFactory = (file, options) => {
  if (!file.canPatch) {
    throw new UsageError(
      `${file.path}: .npy names the number of records in front, which a pipe cannot take; give a regular file, or .jsonl`,
    )
  }
  const fields = flowLogFields(options)
  const recordBytes = fields.reduce((sum, field) => sum + bytesOf(field), 0)
  const batch = new Uint8Array(BATCH_RECORDS * recordBytes)
  const view = new DataView(batch.buffer)
  let count = 0
  let held = 0
  file.write(npyHeader(fields, 0))
  const flush = (): void => {
    file.write(batch.subarray(0, held * recordBytes))
    held = 0
  }
  return {
    write(record) {
      let at = held * recordBytes
      for (const field of fields) {
        put(view, batch, at, field, record)
        at += bytesOf(field)
      }
      held++
      count++
      if (held === BATCH_RECORDS) flush()
    },
    finish() {
      flush()
      file.patch(npyHeader(fields, count), 0)
    },
  }
}

function bytesOf({ kind, maximumLength }: FlowLogField): number {
  return kind === 'text' ? maximumLength : 8
}

function put(
  view: DataView,
  bytes: Uint8Array,
  at: number,
  { kind, maximumLength, read }: FlowLogField,
  record: FlowRecord,
): void {
  const value = read(record)
  if (typeof value === 'string') {
    for (let i = 0; i < maximumLength; i++) bytes[at + i] = i < value.length ? value.charCodeAt(i) : 0
  } else if (kind === 'time') view.setBigInt64(at, BigInt(value), true)
  else if (kind === 'interval') view.setFloat64(at, value / 1_000_000, true)
  else view.setBigUint64(at, BigInt(value), true)
}

/** Of one length whatever the count. */
function npyHeader(fields: readonly FlowLogField[], count: number): Uint8Array {
  const descr = fields.map((field) => `('${field.name}', '${dtypeOf(field)}')`).join(', ')
  const shape = `(${count},)`.padEnd(SHAPE_DIGITS + 3)
  const text = `{'descr': [${descr}], 'fortran_order': False, 'shape': ${shape}, }`
  const length = 64 * Math.ceil((10 + text.length + 1) / 64)
  const out = Buffer.alloc(length, ' ')
  out.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0])
  out.writeUInt16LE(length - 10, 8)
  out.write(text, 10, 'latin1')
  out[length - 1] = 0x0a
  return out
}

function dtypeOf({ kind, maximumLength }: FlowLogField): string {
  switch (kind) {
    case 'time':
      return '<M8[us]'
    case 'interval':
      return '<f8'
    case 'count':
      return '<u8'
    case 'text':
      return `|S${maximumLength}`
  }
}

const createParquetFlowWriter: FlowWriterFactory = (file, options) =>
  createParquetWriter(file, flowLogFields({ ...options, everyField: true }), `oddflow ${VERSION}`)

/** Lines are gathered into writes of at most this many bytes. */
const BUFFER_BYTES = 256 * 1024

function createTextFlowWriter(format: 'json' | 'csv'): FlowWriterFactory {
  return (file, options) => {
    const { header, line } = createFlowLogFormat(format, options)
    const buffer = Buffer.allocUnsafe(BUFFER_BYTES)
    // all of it is ASCII: a character is a byte
    let held = buffer.write(header, 'latin1')
    const flush = (): void => {
      file.write(buffer.subarray(0, held))
      held = 0
    }
    return {
      write(record) {
        const text = line(record)
        if (held + text.length > BUFFER_BYTES) flush()
        held += buffer.write(text, held, 'latin1')
      },
      finish: flush,
    }
  }
}

/** Writes flow records into a file, in memory that does not grow with their number. */

interface FlowWriter {
  /** The record is borrowed. */
  write(record: FlowRecord): void
  /** Writes what is left; the file is complete after. */
  finish(): void
}

type FlowWriterFactory = (file: WholeFile, options: FlowLogOptions) => FlowWriter

const BY_NAME: readonly (readonly [RegExp, FlowWriterFactory])[] = [
  [/\.jsonl$/i, createTextFlowWriter('json')],
  [/\.csv$/i, createTextFlowWriter('csv')],
  [/\.parquet$/i, createParquetFlowWriter],
  [/\.npy$/i, createNpyFlowWriter],
]

/** Throws UsageError for a name that says no format. */
export function flowWriterFor(path: string): FlowWriterFactory {
  if (path === '-') return createTextFlowWriter('json')
  const found = BY_NAME.find(([name]) => name.test(path))
  if (found === undefined) {
    throw new UsageError(
      `--output ${path}: expected - for JSON lines on standard output, or a name that ends in .jsonl, .csv, .parquet or .npy`,
    )
  }
  return found[1]
}

/** Runs `work` on a file that is whole when it returns, and not there when it throws. */
export async function intoWholeFile<T>(path: string, work: (file: WholeFile) => Promise<T>): Promise<T> {
  const file = openWholeFile(path)
  try {
    const result = await work(file)
    file.commit()
    return result
  } finally {
    file.abandon()
  }
}

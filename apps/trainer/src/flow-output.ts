/** Flow records as JSON lines, CSV, a structured NumPy array or Parquet. */
import { gzipSync } from 'node:zlib'
import {
  createFlowLogFormat,
  type FlowLogField,
  type FlowLogFieldKind,
  type FlowLogOptions,
  type FlowRecord,
  flowLogFields,
} from '@oddflow/flows'
import { openWholeFile, UsageError, type WholeFile } from '@oddflow/program'
import { ByteWriter } from 'hyparquet-writer'
import { writePageHeader } from 'hyparquet-writer/src/datapage.js'
import { writeMetadata } from 'hyparquet-writer/src/metadata.js'
import { VERSION } from './version.js'

/**
 * Flow records as a structured NumPy array (NEP 1, version 1.0): `numpy.load(file)['id.orig_h']` is a column.
 *
 * A record is its fields one behind the other without padding: times as datetime64[us], intervals as float64
 * seconds, counts as uint64, texts as bytes of a fixed length, padded with zeros. The header names the number of
 * records and stands in front of them, so it is written last, over the room that was kept for it; what cannot be
 * written twice (a pipe) is refused.
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

/**
 * Flow records as Apache Parquet: a row group at a time, so that memory is that of one group and a few hundred bytes of
 * directory for each.
 *
 * Times are UTC timestamps of microseconds, intervals doubles of seconds, counts 64-bit integers, texts strings. The
 * columns are the same whatever the options, with nulls where a record has no value. A column chunk is one page of plain
 * values and gzip: most bytes are hashes, which no other encoding makes smaller. hyparquet-writer writes headers and
 * directory; its columns of JavaScript values took ten times as long as these bytes.
 */

type FileMetaData = Parameters<typeof writeMetadata>[1]
type SchemaElement = FileMetaData['schema'][number]
type ColumnChunk = FileMetaData['row_groups'][number]['columns'][number]

const GROUP_ROWS = 32_768
const CODEC = 'GZIP'
/** As small as at higher levels to 2 %, in less than half their time. */
const GZIP_LEVEL = 1

const createParquetFlowWriter: FlowWriterFactory = (file, options) => {
  const fields = flowLogFields({ ...options, everyField: true })
  const schema = schemaOf(fields)
  const columns = fields.map((field, i) => new ParquetColumn(field, schema[i + 1].type as ParquetType))
  const bytes = new ByteWriter()
  const groups: FileMetaData['row_groups'] = []
  let rows = 0
  let total = 0
  bytes.appendUint32(PARQUET_MAGIC)
  const drain = (): void => {
    file.write(bytes.getBytes())
    // `offset` goes on counting from the file's beginning
    bytes.index = 0
  }
  const writeGroup = (): void => {
    if (rows === 0) return
    const start = bytes.offset
    const chunks = columns.map((column) => column.writeChunk(bytes, rows))
    groups.push({
      columns: chunks,
      total_byte_size: chunks.reduce(
        (sum, { meta_data }) => sum + (meta_data?.total_uncompressed_size ?? 0n),
        0n,
      ),
      num_rows: BigInt(rows),
      total_compressed_size: BigInt(bytes.offset - start),
    })
    drain()
    total += rows
    rows = 0
  }
  return {
    write(record) {
      for (const column of columns) column.add(rows, record)
      if (++rows === GROUP_ROWS) writeGroup()
    },
    finish() {
      writeGroup()
      writeMetadata(bytes, {
        version: 2,
        created_by: `oddflow ${VERSION}`,
        schema,
        num_rows: BigInt(total),
        row_groups: groups,
        // the writer counts them itself
        metadata_length: 0,
      })
      bytes.appendUint32(PARQUET_MAGIC)
      drain()
    },
  }
}

/** "PAR1". */
const PARQUET_MAGIC = 0x31524150

/** The values of one column in one row group, as the file has them before compression. */
class ParquetColumn {
  readonly #field: FlowLogField
  readonly #type: ParquetType
  readonly #bytes: Buffer
  readonly #view: DataView
  #used = 0
  /** A bit for each row that has a value. */
  readonly #present = new Uint8Array(GROUP_ROWS / 8)
  #nulls = 0
  #minimum = Number.POSITIVE_INFINITY
  #maximum = Number.NEGATIVE_INFINITY

  constructor(field: FlowLogField, type: ParquetType) {
    this.#field = field
    this.#type = type
    this.#bytes = Buffer.alloc(GROUP_ROWS * (type === 'BYTE_ARRAY' ? 4 + field.maximumLength : 8))
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset)
  }

  add(row: number, record: FlowRecord): void {
    const { kind, isOptional, read } = this.#field
    const value = read(record)
    if (isOptional) {
      if (value === '') {
        this.#nulls++
        return
      }
      this.#present[row >> 3] |= 1 << (row & 7)
    }
    const at = this.#used
    if (typeof value === 'string') {
      this.#view.setUint32(at, value.length, true)
      this.#bytes.write(value, at + 4, 'latin1')
      this.#used += 4 + value.length
      return
    }
    if (value < this.#minimum) this.#minimum = value
    if (value > this.#maximum) this.#maximum = value
    if (kind === 'interval') this.#view.setFloat64(at, value / 1_000_000, true)
    else {
      // two halves: a BigInt takes longer than all else here
      this.#view.setUint32(at, value, true)
      this.#view.setInt32(at + 4, Math.floor(value / 2 ** 32), true)
    }
    this.#used += 8
  }

  /** Writes page header and page, and begins the next group. */
  writeChunk(into: ByteWriter, rows: number): ColumnChunk {
    const levels = this.#field.isOptional ? this.#levels(rows) : NO_BYTES
    const page = gzipSync(this.#bytes.subarray(0, this.#used), { level: GZIP_LEVEL })
    const offset = into.offset
    const unpacked = levels.length + this.#used
    writePageHeader(into, {
      type: 'DATA_PAGE_V2',
      uncompressed_page_size: unpacked,
      compressed_page_size: levels.length + page.length,
      data_page_header_v2: {
        num_values: rows,
        num_nulls: this.#nulls,
        num_rows: rows,
        encoding: 'PLAIN',
        definition_levels_byte_length: levels.length,
        repetition_levels_byte_length: 0,
        is_compressed: true,
      },
    })
    const headerBytes = into.offset - offset
    into.appendBytes(levels)
    into.appendBytes(page)
    const chunk: ColumnChunk = {
      file_offset: 0n,
      meta_data: {
        type: this.#type,
        encodings: this.#field.isOptional ? ['PLAIN', 'RLE'] : ['PLAIN'],
        path_in_schema: [this.#field.name],
        codec: CODEC,
        num_values: BigInt(rows),
        total_uncompressed_size: BigInt(headerBytes + unpacked),
        total_compressed_size: BigInt(into.offset - offset),
        data_page_offset: BigInt(offset),
        statistics: this.#statistics(),
      },
    }
    this.#used = 0
    this.#nulls = 0
    this.#present.fill(0)
    this.#minimum = Number.POSITIVE_INFINITY
    this.#maximum = Number.NEGATIVE_INFINITY
    return chunk
  }

  /** Which rows have a value: one run where all or none have, else a bit each (the format's RLE/bit-packing hybrid). */
  #levels(rows: number): Uint8Array {
    const isOneRun = this.#nulls === 0 || this.#nulls === rows
    const levels = new ByteWriter()
    if (isOneRun) {
      levels.appendVarInt(rows << 1)
      levels.appendUint8(this.#nulls === 0 ? 1 : 0)
    } else {
      const groupsOfEight = (rows + 7) >> 3
      levels.appendVarInt((groupsOfEight << 1) | 1)
      levels.appendBytes(this.#present.subarray(0, groupsOfEight))
    }
    return levels.getBytes()
  }

  /** By which readers pass over row groups. */
  #statistics(): { null_count: bigint; min_value?: Bound; max_value?: Bound } {
    const nulls = { null_count: BigInt(this.#nulls) }
    if (this.#minimum > this.#maximum) return nulls
    const bound = (value: number): Bound =>
      this.#field.kind === 'interval' ? value / 1_000_000 : BigInt(value)
    return { ...nulls, min_value: bound(this.#minimum), max_value: bound(this.#maximum) }
  }
}

type Bound = number | bigint
type ParquetType = NonNullable<SchemaElement['type']>

const NO_BYTES = new Uint8Array(0)

function schemaOf(fields: readonly FlowLogField[]): SchemaElement[] {
  const columns = fields.map(
    ({ name, kind, isOptional }): SchemaElement => ({
      name,
      repetition_type: isOptional ? 'OPTIONAL' : 'REQUIRED',
      ...TYPES[kind],
    }),
  )
  return [{ name: 'flows', num_children: fields.length }, ...columns]
}

const TYPES: Readonly<Record<FlowLogFieldKind, Omit<SchemaElement, 'name'>>> = {
  time: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MICROS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
  interval: { type: 'DOUBLE' },
  count: { type: 'INT64' },
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
}

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

/**
 * FlowWriter: flow records into a file, one at a time, in memory that does not grow with their number. Which format
 * it is, the file's name says.
 */

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

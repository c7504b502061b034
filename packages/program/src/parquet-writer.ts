/**
 * Rows as Apache Parquet, a row group at a time. A column chunk is one page of plain values and gzip, since most bytes
 * are hashes, which no encoding makes smaller. hyparquet-writer writes headers and directory; its columns of
 * JavaScript values took ten times as long.
 */
import { gzipSync } from 'node:zlib'
import type { FlowLogFieldKind } from '@oddflow/flows'
import { ByteWriter } from 'hyparquet-writer'
import { writePageHeader } from 'hyparquet-writer/src/datapage.js'
import { writeMetadata } from 'hyparquet-writer/src/metadata.js'
import type { WholeFile } from './files.js'

type FileMetaData = Parameters<typeof writeMetadata>[1]
type SchemaElement = FileMetaData['schema'][number]
type ColumnChunk = FileMetaData['row_groups'][number]['columns'][number]

const GROUP_ROWS = 32_768
/** Room at first, doubled as needed: many files of few rows may be open. */
const FIRST_ROWS = 256
const CODEC = 'GZIP'
/** As small as at higher levels to 2 %, in less than half their time. */
const GZIP_LEVEL = 1

/** A column: a field of a flow log, or one with the same shape. */
export interface ParquetColumn<Row> {
  readonly name: string
  readonly kind: FlowLogFieldKind | 'number' | 'truth' | 'utf8'
  /** Bytes of the longest text; 0 for numbers. */
  readonly maximumLength: number
  /** Whether a row may have no value, for which `read` returns an empty text. */
  readonly isOptional: boolean
  /** Microseconds for times and intervals; 0 or 1 for the kind `truth`, which is not optional. */
  readonly read: (row: Row) => string | number
}

/** A Parquet file that is written row by row. */
export interface ParquetFile<Row> {
  /** The row is borrowed. */
  write(row: Row): void
  /** Writes the rest; the file is then complete. */
  finish(): void
}

/** Writes rows to a file that is otherwise empty. */
export function createParquetWriter<Row>(
  file: WholeFile,
  fields: readonly ParquetColumn<Row>[],
  createdBy: string,
): ParquetFile<Row> {
  const schema = schemaOf(fields)
  const columns = fields.map((field, i) => new ColumnWriter(field, schema[i + 1]!.type as ParquetType))
  const bytes = new ByteWriter()
  const groups: FileMetaData['row_groups'] = []
  let rows = 0
  let total = 0
  bytes.appendUint32(PARQUET_MAGIC)
  const drain = (): void => {
    file.write(bytes.getBytes())
    // `offset` continues counting from the file's beginning
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
    write(row) {
      for (const column of columns) column.add(rows, row)
      if (++rows === GROUP_ROWS) writeGroup()
    },
    finish() {
      writeGroup()
      writeMetadata(bytes, {
        version: 2,
        created_by: createdBy,
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
class ColumnWriter<Row> {
  readonly #field: ParquetColumn<Row>
  readonly #type: ParquetType
  #bytes: Buffer
  #view: DataView
  /** Bytes that one value may take. */
  readonly #most: number
  #used = 0
  /** A bit for each row that has a value. */
  readonly #present = new Uint8Array(GROUP_ROWS / 8)
  #nulls = 0
  #minimum = Number.POSITIVE_INFINITY
  #maximum = Number.NEGATIVE_INFINITY

  constructor(field: ParquetColumn<Row>, type: ParquetType) {
    this.#field = field
    this.#type = type
    this.#most = type === 'BYTE_ARRAY' ? 4 + field.maximumLength : 8
    this.#bytes = Buffer.alloc(FIRST_ROWS * this.#most)
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset)
  }

  add(index: number, row: Row): void {
    const { kind, isOptional, read } = this.#field
    const value = read(row)
    if (isOptional) {
      if (value === '') {
        this.#nulls++
        return
      }
      this.#present[index >> 3]! |= 1 << (index & 7)
    }
    if (this.#used + this.#most > this.#bytes.length) this.#grow()
    const at = this.#used
    if (typeof value === 'string') {
      const length = this.#bytes.write(value, at + 4, kind === 'utf8' ? 'utf8' : 'latin1')
      this.#view.setUint32(at, length, true)
      this.#used += 4 + length
      return
    }
    if (kind === 'truth') {
      // a bit each, in the order of rows
      if ((index & 7) === 0) this.#bytes[this.#used++] = 0
      this.#bytes[this.#used - 1]! |= value << (index & 7)
      return
    }
    if (value < this.#minimum) this.#minimum = value
    if (value > this.#maximum) this.#maximum = value
    if (kind === 'interval') this.#view.setFloat64(at, value / 1_000_000, true)
    else if (kind === 'number') this.#view.setFloat64(at, value, true)
    else {
      // two halves: a BigInt takes longer than all else here
      this.#view.setUint32(at, value, true)
      this.#view.setInt32(at + 4, Math.floor(value / 2 ** 32), true)
    }
    this.#used += 8
  }

  #grow(): void {
    const bytes = Buffer.alloc(2 * this.#bytes.length)
    this.#bytes.copy(bytes)
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset)
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
    const { kind } = this.#field
    const bound = (value: number): Bound => {
      if (kind === 'number') return value
      return kind === 'interval' ? value / 1_000_000 : BigInt(value)
    }
    return { ...nulls, min_value: bound(this.#minimum), max_value: bound(this.#maximum) }
  }
}

type Bound = number | bigint
type ParquetType = NonNullable<SchemaElement['type']>

const NO_BYTES = new Uint8Array(0)

function schemaOf<Row>(fields: readonly ParquetColumn<Row>[]): SchemaElement[] {
  const columns = fields.map(
    ({ name, kind, isOptional }): SchemaElement => ({
      name,
      repetition_type: isOptional ? 'OPTIONAL' : 'REQUIRED',
      ...TYPES[kind],
    }),
  )
  return [{ name: 'flows', num_children: fields.length }, ...columns]
}

const TEXT = {
  type: 'BYTE_ARRAY',
  converted_type: 'UTF8',
  logical_type: { type: 'STRING' },
} as const

const TYPES: Readonly<Record<ParquetColumn<never>['kind'], Omit<SchemaElement, 'name'>>> = {
  time: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MICROS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
  interval: { type: 'DOUBLE' },
  count: { type: 'INT64' },
  text: TEXT,
  utf8: TEXT,
  number: { type: 'DOUBLE' },
  truth: { type: 'BOOLEAN' },
}

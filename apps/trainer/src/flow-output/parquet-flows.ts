/**
 * Flow records as Apache Parquet, by hyparquet-writer: a row group at a time, so that memory is that of one group
 * and a few hundred bytes of directory for each.
 *
 * Times are UTC timestamps of microseconds, intervals doubles of seconds, counts 64-bit integers, texts strings;
 * no column has nulls.
 */
import { type FlowLogField, type FlowLogFieldKind, flowLogFields } from '@oddflow/flows'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import { VERSION } from '../version.js'
import type { FlowWriterFactory } from './flow-writer.js'

type SchemaElement = ConstructorParameters<typeof ParquetWriter>[0]['schema'][number]

const GROUP_ROWS = 32_768

export const createParquetFlowWriter: FlowWriterFactory = (file, options) => {
  const fields = flowLogFields(options)
  const bytes = new ByteWriter()
  const parquet = new ParquetWriter({
    writer: bytes,
    schema: schemaOf(fields),
    createdBy: `oddflow ${VERSION}`,
  })
  let columns = fields.map((): (string | number | bigint | null)[] => [])
  const drain = (): void => {
    file.write(bytes.getBytes())
    // `offset` goes on counting from the file's beginning
    bytes.index = 0
  }
  const writeGroup = (): void => {
    if (columns[0].length === 0) return
    const columnData = fields.map(({ name }, i) => ({ name, data: columns[i] }))
    parquet.write({ columnData, rowGroupSize: GROUP_ROWS })
    drain()
    columns = fields.map(() => [])
  }
  return {
    write(record) {
      fields.forEach((field, i) => {
        columns[i].push(parquetValue(field, field.read(record)))
      })
      if (columns[0].length === GROUP_ROWS) writeGroup()
    },
    finish() {
      writeGroup()
      parquet.finish()
      drain()
    },
  }
}

function parquetValue(
  { kind, isOptional }: FlowLogField,
  value: string | number,
): string | number | bigint | null {
  if (typeof value === 'string') return isOptional && value === '' ? null : value
  return kind === 'interval' ? value / 1_000_000 : BigInt(value)
}

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

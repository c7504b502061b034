/** Rows and flows as callers of the library have them. */

import { formatAddress } from '@oddflow/capture'
import {
  ArgumentError,
  asMatrix,
  createMatrix,
  type FlowContract,
  type Matrix,
  type MatrixLike,
  matrixOf,
} from '@oddflow/core'
import { copyFlowRecord, type EndReason, type FlowRecord, protocolName } from '@oddflow/flows'
import { macText } from '@oddflow/program'

/**
 * Feature rows: an array of rows, a Matrix record, a Matrix of ml-matrix, or all numbers in one typed array, row after
 * row.
 */
export type Rows = readonly ArrayLike<number>[] | Matrix | MatrixLike | Float64Array | Float32Array

const EXPECTED =
  'rows such as [[1, 2], [3, 4]], a Matrix, a typed array with its number of columns, or flows of readFlows'

/**
 * Copies what is no Matrix record yet. Throws ArgumentError that names the argument `rows`.
 * @param columns of a typed array, which has none itself
 */
export function matrixFrom(rows: unknown, columns: number | undefined): Matrix {
  if (rows instanceof Float64Array || rows instanceof Float32Array) return matrixOfNumbers(rows, columns)
  if (Array.isArray(rows)) return matrixOfRows(rows)
  if (isObject(rows) && 'get' in rows && 'columns' in rows) return asMatrix(rows as unknown as MatrixLike)
  if (isObject(rows) && 'data' in rows && 'rows' in rows && 'cols' in rows) {
    if (!(rows.data instanceof Float64Array)) {
      throw new ArgumentError(`rows.data: expected a Float64Array, found ${describe(rows.data)}`, 'rows')
    }
    return asMatrix(rows as unknown as Matrix)
  }
  throw new ArgumentError(`rows: expected ${EXPECTED}, found ${describe(rows)}`, 'rows')
}

function matrixOfNumbers(numbers: Float64Array | Float32Array, columns: number | undefined): Matrix {
  const found = `found a ${describe(numbers)}`
  if (columns === undefined) {
    throw new ArgumentError(`columns: expected the number of columns of the typed array, ${found}`, 'columns')
  }
  if (!Number.isSafeInteger(columns) || columns < 1) {
    throw new ArgumentError(
      `columns: expected a whole number of 1 or more, found ${describe(columns)}`,
      'columns',
    )
  }
  if (numbers.length % columns !== 0) {
    throw new ArgumentError(`rows: expected a multiple of ${columns} numbers, ${found}`, 'rows')
  }
  return matrixOf(numbers.length / columns, columns, Float64Array.from(numbers))
}

function matrixOfRows(rows: readonly unknown[]): Matrix {
  const [first] = rows
  if (rows.length > 0 && !isRow(first)) {
    throw new ArgumentError(`rows: expected ${EXPECTED}, found an array of ${describe(first)}`, 'rows')
  }
  const cols = (first as ArrayLike<number> | undefined)?.length ?? 0
  const data = new Float64Array(rows.length * cols)
  for (const [i, row] of rows.entries()) {
    if (!isRow(row) || row.length !== cols) {
      const found = isRow(row) ? String(row.length) : describe(row)
      throw new ArgumentError(`rows[${i}]: expected ${cols} numbers as in rows[0], found ${found}`, 'rows')
    }
    for (let j = 0; j < cols; j++) {
      const value: unknown = row[j]
      if (typeof value !== 'number') {
        throw new ArgumentError(`rows[${i}][${j}]: expected a number, found ${describe(value)}`, 'rows')
      }
      data[i * cols + j] = value
    }
  }
  return matrixOf(rows.length, cols, data)
}

function isRow(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || value instanceof Float64Array || value instanceof Float32Array
}

/** Throws ArgumentError for options that are no object, or for one that has no meaning here. */
export function checkOptionNames(options: unknown, known: readonly string[]): void {
  if (!isObject(options)) {
    throw new ArgumentError(`options: expected an object, found ${describe(options)}`, 'options')
  }
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown !== undefined) {
    throw new ArgumentError(`${unknown}: no such option; expected some of ${known.join(', ')}`, unknown)
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** A value that was found where another was expected, in a few words. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)
  if (typeof value === 'function') return 'a function'
  if (typeof value !== 'object' || value === null) return String(value)
  const name: unknown = value.constructor?.name
  const length = 'length' in value && typeof value.length === 'number' ? ` of ${value.length}` : ''
  return typeof name !== 'string' || name === '' || name === 'Object' ? 'an object' : `${name}${length}`
}

/** A flow as users of the library see it. */

/** One end of a flow. */
export interface FlowEnd {
  /** IPv4 or IPv6 address as text. */
  readonly address: string
  /** Port; of ICMP the type or the code. */
  readonly port: number
  /** MAC address as text, null where the link has none. */
  readonly mac: string | null
  /** Packets that this end sent. */
  readonly packets: number
  /** Bytes that this end sent: the sum of the lengths in the IP headers. */
  readonly bytes: number
}

/** A flow, or one piece of a flow that lasts longer than the active timeout. */
export type Flow = { readonly [Field in keyof CapturedFlow]: CapturedFlow[Field] }

/** What a flow was made of, and under which contract. */
export interface FlowOrigin {
  readonly record: FlowRecord
  readonly contract: FlowContract
}

/** A Flow that keeps its record, which a verdict and training need. */
export class CapturedFlow {
  /** Number of the source that the flow is from, from 0. */
  readonly source: number
  /** 0 for the first piece of a flow, 1 for the next. */
  readonly piece: number
  /** "tcp", "udp", "icmp", "icmpv6" or "sctp". */
  readonly protocol: string
  /** Time of the first packet, microseconds since 1970. */
  readonly startMicros: number
  /** From the first packet to the last, microseconds. */
  readonly durationMicros: number
  /** The end that sent the first packet. */
  readonly initiator: FlowEnd
  readonly responder: FlowEnd
  /** VLAN identifier, 0 where there is none. */
  readonly vlan: number
  readonly endReason: EndReason
  /** The numbers that a model scores; null where the model's feature set has none for this flow. */
  readonly features: Float64Array | null
  readonly #origin: FlowOrigin

  /** @param borrowed - is copied. */
  constructor(borrowed: FlowRecord, contract: FlowContract) {
    const record = copyFlowRecord(borrowed)
    this.source = record.captureIndex
    this.piece = record.pieceIndex
    this.protocol = protocolName(record.protocol)
    this.startMicros = record.startMicros
    this.durationMicros = record.durationMicros
    this.initiator = {
      address: formatAddress(record.initiatorAddress, 0, record.ipVersion),
      port: record.initiatorPort,
      mac: macText(record.initiatorMac),
      packets: record.initiatorPackets,
      bytes: record.initiatorIpBytes,
    }
    this.responder = {
      address: formatAddress(record.responderAddress, 0, record.ipVersion),
      port: record.responderPort,
      mac: macText(record.responderMac),
      packets: record.responderPackets,
      bytes: record.responderIpBytes,
    }
    this.vlan = record.vlan
    this.endReason = record.endReason
    this.features = record.row
    this.#origin = { record, contract }
  }

  /** undefined for anything that `readFlows` did not make. */
  static originOf(value: unknown): FlowOrigin | undefined {
    if (typeof value !== 'object' || value === null || !(#origin in value)) return undefined
    return value.#origin
  }
}

/** Every k-th row of a stream of unknown length, at most `limit`: when it is full, every other row goes and k doubles. */

export class RowSample {
  readonly #width: number
  readonly #limit: number
  #rows: Float64Array[] = []
  #step = 1
  #seen = 0

  constructor(width: number, limit: number) {
    this.#width = width
    this.#limit = limit
  }

  /** Copies the row when it is one of those kept. */
  add(row: Float64Array): void {
    if (this.#seen++ % this.#step !== 0) return
    if (this.#rows.length === this.#limit) {
      this.#rows = this.#rows.filter((_, i) => i % 2 === 0)
      this.#step *= 2
      if ((this.#seen - 1) % this.#step !== 0) return
    }
    this.#rows.push(row.slice())
  }

  matrix(): Matrix {
    return rowMatrix(this.#rows, this.#width)
  }
}

/** Rows of one width, one after another. */
export function rowMatrix(rows: readonly Float64Array[], width: number): Matrix {
  const matrix = createMatrix(rows.length, width)
  rows.forEach((row, i) => {
    matrix.data.set(row, i * width)
  })
  return matrix
}

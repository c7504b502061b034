/**
 * Reading .npy: rows of features, and labels.
 *
 * Every element type here widens to float64 without loss (64-bit integers beyond 2^53 are refused), so there
 * is one result type. It takes 8 bytes an element: at most eight times the file, for labels of one byte.
 */
import { readLittleEndian } from '../little-endian.js'
import { type Matrix, matrixOf } from '../matrix.js'
import { decodeNpyHeader, refuseNpy } from './header.js'

export interface NpyArray {
  /** As the file has it: `<f8`, `<f4`, `<i8`, … */
  readonly dtype: string
  /** One or two sizes. */
  readonly shape: readonly number[]
  /** Row-major. */
  readonly data: Float64Array
}

const WIDTHS: ReadonlyMap<string, number> = new Map([
  ['<f8', 8],
  ['<f4', 4],
  ['<i8', 8],
  ['<u8', 8],
  ['<i4', 4],
  ['<u4', 4],
  ['<i2', 2],
  ['<u2', 2],
  ['|i1', 1],
  ['|u1', 1],
  ['|b1', 1],
])

/** Reads an array of one or two dimensions. Throws FormatError with the field and byte offset. */
export function decodeNpy(bytes: Uint8Array): NpyArray {
  const { dtype, shape, dataStart } = decodeNpyHeader(bytes)
  const width = WIDTHS.get(dtype)
  if (width === undefined) throw refuseNpy(describeDtype(dtype), dataStart, 'descr')
  if (shape.length < 1 || shape.length > 2) {
    throw refuseNpy(`expected one or two dimensions, found ${shape.length}`, dataStart, 'shape')
  }
  const size = shape.reduce((product, length) => product * length, 1)
  const found = bytes.length - dataStart
  if (size * width !== found) {
    throw refuseNpy(
      `expected ${size * width} bytes for shape (${shape.join(', ')}) of ${dtype}, found ${found}`,
      dataStart,
      'shape',
    )
  }
  const buffer = readLittleEndian(bytes, dataStart, bytes.length, width)
  return { dtype, shape, data: widen(dtype, buffer, dataStart) }
}

/** Reads feature rows: two dimensions, float64 or float32. Throws FormatError. */
export function decodeNpyMatrix(bytes: Uint8Array): Matrix {
  const { dtype, shape, data } = decodeNpy(bytes)
  if (dtype !== '<f8' && dtype !== '<f4') {
    throw refuseNpy(
      `expected rows of <f8 or <f4, found ${dtype}; save rows.astype('<f8') instead`,
      0,
      'descr',
    )
  }
  const [rows, cols] = shape
  if (rows === undefined || cols === undefined) {
    throw refuseNpy(`expected two dimensions (rows, features), found (${shape.join(', ')},)`, 0, 'shape')
  }
  return matrixOf(rows, cols, data)
}

function widen(dtype: string, buffer: ArrayBuffer, dataStart: number): Float64Array {
  switch (dtype) {
    case '<f8':
      return new Float64Array(buffer)
    case '<f4':
      return Float64Array.from(new Float32Array(buffer))
    case '<i4':
      return Float64Array.from(new Int32Array(buffer))
    case '<u4':
      return Float64Array.from(new Uint32Array(buffer))
    case '<i2':
      return Float64Array.from(new Int16Array(buffer))
    case '<u2':
      return Float64Array.from(new Uint16Array(buffer))
    case '|i1':
      return Float64Array.from(new Int8Array(buffer))
    case '<i8':
      return widenLong(new BigInt64Array(buffer), dataStart)
    case '<u8':
      return widenLong(new BigUint64Array(buffer), dataStart)
    default:
      return Float64Array.from(new Uint8Array(buffer))
  }
}

function widenLong(source: BigInt64Array | BigUint64Array, dataStart: number): Float64Array {
  const out = new Float64Array(source.length)
  for (let i = 0; i < source.length; i++) {
    const value = Number(source[i])
    if (!Number.isSafeInteger(value)) {
      throw refuseNpy(
        `element ${i}: ${source[i]} is too large for a float64 to hold exactly`,
        dataStart + 8 * i,
        'data',
      )
    }
    out[i] = value
  }
  return out
}

function describeDtype(dtype: string): string {
  const name = JSON.stringify(dtype).slice(0, 40)
  if (dtype.includes('O')) return `${name} holds pickled Python objects, which are never loaded`
  if (dtype.startsWith('>')) return `${name} is big-endian; save rows.astype('<f8') instead`
  return `expected dtype ${[...WIDTHS.keys()].join(', ')}, found ${name}`
}

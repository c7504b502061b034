/**
 * The header of a .npy file (NumPy enhancement proposal 1; numpy/lib/format.py).
 *
 *     \x93NUMPY, version (1, 2 or 3 and a zero), the dictionary's length (2 bytes in version 1, else 4,
 *     little-endian), then a Python literal such as
 *     {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }
 *     padded with spaces and ended by a newline so that the numbers start at a multiple of 64 bytes.
 *
 * The literal is matched for exactly these three keys, in any order and spacing; nothing is evaluated. Fortran order,
 * pickled objects, structured and big-endian types are refused by name.
 */

import { readLittleEndian, writeLittleEndian } from './bytes.js'
import { FormatError } from './errors.js'
import { type Matrix, matrixOf } from './matrix.js'

/** Writes .npy with the bytes of numpy.save: version 1.0, float64 in C order. Throws ArgumentError for a bad matrix. */
export function encodeNpy(matrix: Matrix): Uint8Array<ArrayBuffer> {
  const { rows, cols, data } = matrixOf(matrix.rows, matrix.cols, matrix.data)
  const out = new Uint8Array(NPY_HEADER_BYTES + data.byteLength)
  out.set(encodeNpyHeader(rows, cols))
  writeLittleEndian(data, out, NPY_HEADER_BYTES)
  return out
}

/** Length of the header of every two-dimensional float64 file: shapes fit its first 128 bytes. */
export const NPY_HEADER_BYTES = 128

function encodeNpyHeader(rows: number, cols: number): Uint8Array<ArrayBuffer> {
  const text = `{'descr': '<f8', 'fortran_order': False, 'shape': (${rows}, ${cols}), }`
  const out = new Uint8Array(NPY_HEADER_BYTES).fill(0x20)
  out.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, NPY_HEADER_BYTES - 10, 0])
  for (let i = 0; i < text.length; i++) out[10 + i] = text.charCodeAt(i)
  out[NPY_HEADER_BYTES - 1] = 0x0a
  return out
}

interface NpyHeader {
  readonly dtype: string
  readonly shape: readonly number[]
  /** Where the numbers start. */
  readonly dataStart: number
}

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]

/** NumPy itself distrusts headers longer than 10,000 bytes. */
const MAXIMUM_HEADER_BYTES = 10_000

function decodeNpyHeader(bytes: Uint8Array): NpyHeader {
  for (let i = 0; i < MAGIC.length; i++) {
    if (bytes[i] !== MAGIC[i]) throw refuseNpy('expected the file to start with \\x93NUMPY', i, 'magic')
  }
  if (bytes.length < 12) throw refuseNpy('the file ends inside its header', bytes.length, 'header')
  const major = bytes[6]!
  if (major < 1 || major > 3 || bytes[7] !== 0) {
    throw refuseNpy(`expected version 1.0, 2.0 or 3.0, found ${major}.${bytes[7]}`, 6, 'version')
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, 12)
  const start = major === 1 ? 10 : 12
  const length = major === 1 ? view.getUint16(8, true) : view.getUint32(8, true)
  if (length > MAXIMUM_HEADER_BYTES) {
    throw refuseNpy(
      `expected a header of at most ${MAXIMUM_HEADER_BYTES} bytes, found ${length}`,
      8,
      'header length',
    )
  }
  if (start + length > bytes.length)
    throw refuseNpy('the file ends inside its header', bytes.length, 'header')
  let text = ''
  for (let i = start; i < start + length; i++) {
    // the three keys need no more than ASCII; anything else falls through to the refusals below
    text += String.fromCharCode(bytes[i]!)
  }
  return { ...readDictionary(text, start), dataStart: start + length }
}

const ENTRY =
  /\s*(?:'([a-z_]+)'|"([a-z_]+)")\s*:\s*(?:(?:'([^'\\]*)'|"([^"\\]*)"|(True|False)|\(([\d,\s]*)\))\s*(?:,|(?=\}))|(\[))/y

function readDictionary(text: string, start: number): { dtype: string; shape: number[] } {
  const fail = (message: string, at: number, field: string): never => {
    throw refuseNpy(message, start + at, field)
  }
  const opening = /\s*\{/y
  if (!opening.test(text)) fail('expected the header to be a dictionary', 0, 'header')
  let at = opening.lastIndex
  let dtype: string | undefined
  let shape: number[] | undefined
  let fortran: string | undefined
  for (;;) {
    const closing = /\s*\}\s*$/y
    closing.lastIndex = at
    if (closing.test(text)) break
    ENTRY.lastIndex = at
    const match = ENTRY.exec(text)
    if (match === null)
      return fail(`cannot read the header at ${quote(text.slice(at, at + 20))}`, at, 'header')
    const key = match[1] ?? match[2] ?? ''
    const word = match[3] ?? match[4]
    if (key === 'descr' && dtype === undefined) {
      if (match[7] !== undefined) return fail('structured dtypes are not rows of numbers', at, 'descr')
      if (word === undefined) return fail('expected descr to be text', at, 'descr')
      dtype = word
    } else if (key === 'fortran_order' && fortran === undefined && match[5] !== undefined) {
      fortran = match[5]
      if (fortran === 'True')
        return fail(
          'the array is in Fortran order; save numpy.ascontiguousarray(rows) instead',
          at,
          'fortran_order',
        )
    } else if (key === 'shape' && shape === undefined && match[6] !== undefined) {
      shape = readShape(match[6])
      if (shape === undefined) return fail(`cannot read the shape (${quote(match[6])})`, at, 'shape')
    } else {
      return fail(`unexpected ${quote(key)} in the header`, at, key)
    }
    at = ENTRY.lastIndex
  }
  if (dtype === undefined) return fail('the header has no descr', at, 'descr')
  if (fortran === undefined) return fail('the header has no fortran_order', at, 'fortran_order')
  if (shape === undefined) return fail('the header has no shape', at, 'shape')
  return { dtype, shape }
}

/** `3, 2`, `3,` or nothing: the inside of a Python tuple. */
function readShape(inside: string): number[] | undefined {
  const fields = inside.split(',').map((field) => field.trim())
  if (fields.length > 1 && fields.at(-1) === '') fields.pop()
  else if (fields.length === 1) return fields[0] === '' ? [] : undefined
  const shape = fields.map(Number)
  const good = fields.every((field, i) => /^\d+$/.test(field) && Number.isSafeInteger(shape[i]))
  return good ? shape : undefined
}

function refuseNpy(message: string, offsetBytes: number, field: string): FormatError {
  return new FormatError('npy', message, { offsetBytes, field })
}

function quote(text: string): string {
  return JSON.stringify(text).slice(0, 60)
}

/** An array of one or two dimensions. Every element type widens to float64 without loss (beyond 2^53 it is refused). */
export interface NpyArray {
  /** As the file has it: `<f8`, `<f4`, `<i8`, … */
  readonly dtype: string
  /** One or two sizes. */
  readonly shape: readonly number[]
  /** Row-major. */
  readonly data: Float64Array
}

interface ElementArray {
  readonly BYTES_PER_ELEMENT: number
  new (buffer: ArrayBuffer): Iterable<number> | BigInt64Array | BigUint64Array
}

const ARRAYS: ReadonlyMap<string, ElementArray> = new Map<string, ElementArray>([
  ['<f8', Float64Array],
  ['<f4', Float32Array],
  ['<i8', BigInt64Array],
  ['<u8', BigUint64Array],
  ['<i4', Int32Array],
  ['<u4', Uint32Array],
  ['<i2', Int16Array],
  ['<u2', Uint16Array],
  ['|i1', Int8Array],
  ['|u1', Uint8Array],
  ['|b1', Uint8Array],
])

/** Reads an array of one or two dimensions. Throws FormatError with the field and byte offset. */
export function decodeNpy(bytes: Uint8Array): NpyArray {
  const { dtype, shape, dataStart } = decodeNpyHeader(bytes)
  const elements = ARRAYS.get(dtype)
  if (elements === undefined) throw refuseNpy(describeDtype(dtype), dataStart, 'descr')
  const width = elements.BYTES_PER_ELEMENT
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
  const values = new elements(readLittleEndian(bytes, dataStart, bytes.length, width))
  if (values instanceof Float64Array) return { dtype, shape, data: values }
  const isLong = values instanceof BigInt64Array || values instanceof BigUint64Array
  return { dtype, shape, data: isLong ? widenLong(values, dataStart) : Float64Array.from(values) }
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
  return `expected dtype ${[...ARRAYS.keys()].join(', ')}, found ${name}`
}

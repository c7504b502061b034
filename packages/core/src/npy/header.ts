/**
 * The header of a .npy file (NumPy enhancement proposal 1; numpy/lib/format.py).
 *
 *     \x93NUMPY, version (1, 2 or 3 and a zero), the dictionary's length (2 bytes in version 1, else 4,
 *     little-endian), then a Python literal such as
 *     {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }
 *     padded with spaces and ended by a newline so that the numbers start at a multiple of 64 bytes.
 *
 * The literal is read by a matcher for exactly these three keys, in any order and spacing; nothing is
 * evaluated. What the format has beyond plain rows is refused by name: Fortran order, pickled objects,
 * structured and big-endian types.
 */
import { FormatError } from '../errors.js'

export interface NpyHeader {
  readonly dtype: string
  readonly shape: readonly number[]
  /** Where the numbers start. */
  readonly dataStart: number
}

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]

/** NumPy itself distrusts headers longer than 10,000 bytes. */
const MAXIMUM_HEADER_BYTES = 10_000

export function decodeNpyHeader(bytes: Uint8Array): NpyHeader {
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

export function refuseNpy(message: string, offsetBytes: number, field: string): FormatError {
  return new FormatError('npy', message, { offsetBytes, field })
}

function quote(text: string): string {
  return JSON.stringify(text).slice(0, 60)
}

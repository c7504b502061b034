import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import {
  decodeNpy,
  decodeNpyMatrix,
  encodeNpy,
  FormatError,
  matrixFromRows,
  matrixOf,
  NPY_HEADER_BYTES,
} from '../../src/index.js'
import { hasNumpy, python } from '../python.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-npy-'))
afterAll(() => rmSync(folder, { recursive: true }))

const shared = process.env.ODDFLOW_SHARED ?? fileURLToPath(new URL('../../../../../shared', import.meta.url))
const paperRows = join(shared, 'data/paper')
const hasPaperRows = existsSync(paperRows)
if (!hasPaperRows) console.warn('ODDFLOW_SHARED is absent: the published feature rows are skipped')

/** A file put together here from the description in NEP 1. */
function build(dictionary: string, data: Uint8Array = new Uint8Array(0), major = 1): Uint8Array {
  const text = Buffer.from(`${dictionary}\n`, 'latin1')
  const length = Buffer.alloc(major === 1 ? 2 : 4)
  if (major === 1) length.writeUInt16LE(text.length)
  else length.writeUInt32LE(text.length)
  return Buffer.concat([Buffer.of(0x93), Buffer.from('NUMPY'), Buffer.of(major, 0), length, text, data])
}

const dictionary = (descr: string, shape: string): string =>
  `{'descr': '${descr}', 'fortran_order': False, 'shape': ${shape}, }`
const bytesOf = (array: { buffer: ArrayBufferLike }): Uint8Array => new Uint8Array(array.buffer)

function refusal(bytes: Uint8Array, read: (bytes: Uint8Array) => unknown = decodeNpy): FormatError {
  try {
    read(bytes)
  } catch (error) {
    if (error instanceof FormatError) return error
    throw error
  }
  throw new Error('it was read')
}

describe('npy', () => {
  it('round trips any matrix bit for bit', () => {
    fc.assert(
      fc.property(fc.nat(5), fc.nat(5), fc.infiniteStream(fc.double()), (rows, cols, numbers) => {
        const matrix = matrixOf(
          rows,
          cols,
          Float64Array.from({ length: rows * cols }, () => numbers.next().value as number),
        )
        expect(decodeNpyMatrix(encodeNpy(matrix))).toEqual(matrix)
      }),
    )
  })

  it.each<[string, ArrayBufferView, number[]]>([
    ['<f8', Float64Array.of(1.5, -0), [1.5, -0]],
    ['<f4', Float32Array.of(0.1, 3), [Math.fround(0.1), 3]],
    ['<i8', BigInt64Array.of(-1n, 2n ** 53n - 1n), [-1, 2 ** 53 - 1]],
    ['<u8', BigUint64Array.of(0n, 9n), [0, 9]],
    ['<i4', Int32Array.of(-5, 5), [-5, 5]],
    ['<u4', Uint32Array.of(4294967295, 5), [4294967295, 5]],
    ['<i2', Int16Array.of(-5, 5), [-5, 5]],
    ['<u2', Uint16Array.of(65535, 5), [65535, 5]],
    ['|i1', Int8Array.of(-1, 1), [-1, 1]],
    ['|u1', Uint8Array.of(255, 1), [255, 1]],
    ['|b1', Uint8Array.of(1, 0), [1, 0]],
  ])('widens %s without loss', (descr, array, expected) => {
    const { data, shape, dtype } = decodeNpy(build(dictionary(descr, '(2,)'), bytesOf(array)))
    expect({ data: [...data], shape, dtype }).toEqual({ data: expected, shape: [2], dtype: descr })
  })

  it.each([1, 2, 3])('reads version %d.0 and headers in other spellings', (major) => {
    const data = bytesOf(Float64Array.of(1, 2))
    for (const text of [
      `{"shape":(1,2),"descr":"<f8",'fortran_order':False}`,
      `{'fortran_order': False , 'shape': ( 1 , 2, ), 'descr': '<f8',}      `,
    ]) {
      expect(decodeNpyMatrix(build(text, data, major))).toEqual(matrixFromRows([[1, 2]]))
    }
  })

  it.each<[string, Uint8Array, RegExp, string]>([
    ['nothing', new Uint8Array(0), /start with/, 'magic'],
    ['text', Buffer.from('1,2,3\n4,5,6\n'), /start with/, 'magic'],
    ['version 4', build(dictionary('<f8', '(1,)'), new Uint8Array(8), 4), /found 4\.0/, 'version'],
    [
      'Fortran order',
      build(`{'descr': '<f8', 'fortran_order': True, 'shape': (1,), }`),
      /ascontiguousarray/,
      'fortran_order',
    ],
    ['pickled objects', build(dictionary('|O', '(1,)')), /pickled/, 'descr'],
    [
      'structured types',
      build(`{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }`),
      /structured/,
      'descr',
    ],
    ['big-endian numbers', build(dictionary('>f8', '(1,)')), /big-endian/, 'descr'],
    ['float16', build(dictionary('<f2', '(1,)')), /found "<f2"/, 'descr'],
    ['complex numbers', build(dictionary('<c16', '(1,)')), /found "<c16"/, 'descr'],
    ['text arrays', build(dictionary('<U8', '(1,)')), /found "<U8"/, 'descr'],
    ['a type from the prototype', build(dictionary('constructor', '(1,)')), /found "constructor"/, 'descr'],
    [
      'no dimension',
      build(dictionary('<f8', '()'), new Uint8Array(8)),
      /one or two dimensions, found 0/,
      'shape',
    ],
    ['three dimensions', build(dictionary('<f8', '(1, 1, 1)'), new Uint8Array(8)), /found 3/, 'shape'],
    [
      'a shape that is no tuple',
      build(dictionary('<f8', '(3)'), new Uint8Array(24)),
      /cannot read the shape/,
      'shape',
    ],
    ['a negative shape', build(dictionary('<f8', '(-1,)')), /cannot read/, 'header'],
    ['a huge shape', build(dictionary('<f8', '(99999999999999999999,)')), /cannot read the shape/, 'shape'],
    [
      'a shape whose product overflows',
      build(dictionary('<f8', '(9007199254740991, 9007199254740991)')),
      /expected 6\.4/,
      'shape',
    ],
    [
      'too few bytes',
      build(dictionary('<f8', '(2, 2)'), new Uint8Array(31)),
      /expected 32 bytes.*found 31/,
      'shape',
    ],
    ['too many bytes', build(dictionary('<f8', '(2, 2)'), new Uint8Array(33)), /found 33/, 'shape'],
    ['a missing key', build(`{'descr': '<f8', 'shape': (1,), }`), /no fortran_order/, 'fortran_order'],
    ['an unknown key', build(`{'descr': '<f8', 'evil': 'x', }`), /unexpected "evil"/, 'evil'],
    ['a repeated key', build(`{'descr': '<f8', 'descr': '<f4', }`), /unexpected "descr"/, 'descr'],
    ['an expression', build(`{'descr': __import__('os'), }`), /cannot read the header/, 'header'],
    ['no dictionary', build('hello'), /dictionary/, 'header'],
    [
      'a long header',
      build(`{${' '.repeat(20_000)}}`, new Uint8Array(0), 2),
      /at most 10000/,
      'header length',
    ],
  ])('refuses %s', (_, bytes, message, field) => {
    const error = refusal(bytes)
    expect(error.message).toMatch(message)
    expect(error.field).toBe(field)
    expect(error.offsetBytes).toBeTypeOf('number')
  })

  it('refuses 64-bit numbers that float64 cannot hold, and says where', () => {
    const bytes = build(dictionary('<i8', '(2,)'), bytesOf(BigInt64Array.of(1n, 2n ** 53n)))
    expect(refusal(bytes)).toMatchObject({ offsetBytes: bytes.length - 8, field: 'data' })
  })

  it('takes only rows of floats as a matrix', () => {
    expect(refusal(build(dictionary('<f8', '(1,)'), new Uint8Array(8)), decodeNpyMatrix).message).toMatch(
      'two dimensions',
    )
    expect(refusal(build(dictionary('<i4', '(1, 1)'), new Uint8Array(4)), decodeNpyMatrix).message).toMatch(
      '<i4',
    )
  })

  it('answers every truncation with a FormatError and every changed byte with that or a value', () => {
    const bytes = encodeNpy(
      matrixFromRows([
        [1, 2],
        [3, 4],
      ]),
    )
    for (let length = 0; length < bytes.length; length++) refusal(bytes.subarray(0, length))
    for (let i = 0; i < bytes.length; i++) {
      for (let value = 0; value < 256; value++) {
        const bad = bytes.slice()
        bad[i] = value
        try {
          decodeNpyMatrix(bad)
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError)
        }
      }
    }
  })

  it('reads a Buffer at an odd offset and copies', () => {
    const shifted = Buffer.concat([Buffer.of(0), encodeNpy(matrixFromRows([[1, 2]]))]).subarray(1)
    const matrix = decodeNpyMatrix(shifted)
    shifted.fill(0)
    expect(matrix).toEqual(matrixFromRows([[1, 2]]))
  })

  it('has room in its header for the largest shape there is', () => {
    const widest = `{'descr': '<f8', 'fortran_order': False, 'shape': (${Number.MAX_SAFE_INTEGER}, ${Number.MAX_SAFE_INTEGER}), }`
    expect(10 + widest.length + 1).toBeLessThanOrEqual(NPY_HEADER_BYTES)
  })

  it.skipIf(!hasNumpy)('writes the bytes that numpy.save writes', () => {
    const path = join(folder, 'numpy.npy')
    python('-c', 'import numpy, sys; numpy.save(sys.argv[1], numpy.arange(6.0).reshape(2, 3) / 7)', path)
    const matrix = matrixFromRows([
      [0, 1 / 7, 2 / 7],
      [3 / 7, 4 / 7, 5 / 7],
    ])
    expect(Buffer.from(encodeNpy(matrix))).toEqual(readFileSync(path))
    writeFileSync(path, encodeNpy(matrixOf(0, 4, new Float64Array(0))))
    expect(python('-c', 'import numpy, sys; print(numpy.load(sys.argv[1]).shape)', path)).toBe('(0, 4)\n')
  })

  it.skipIf(!hasPaperRows)('reads every published feature file, and writes those bytes again', () => {
    let files = 0
    for (const set of readdirSync(paperRows)) {
      for (const name of readdirSync(join(paperRows, set)).filter((file) => file.endsWith('.npy'))) {
        const bytes = readFileSync(join(paperRows, set, name))
        const { dtype, shape, data } = decodeNpy(bytes)
        if (dtype === '<f8' && shape.length === 2) {
          const again = encodeNpy(matrixOf(shape[0]!, shape[1]!, data))
          expect(Buffer.compare(again, bytes), `${set}/${name}`).toBe(0)
        }
        files++
      }
    }
    expect(files).toBeGreaterThan(50)
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { csvPieces } from '../../src/csv.js'
import {
  ArgumentError,
  decodeCsvRows,
  encodeCsvRows,
  FormatError,
  matrixFromRows,
  matrixOf,
} from '../../src/index.js'

const read = (text: string) => decodeCsvRows(Buffer.from(text))

const matrices = fc
  .tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 }))
  .chain(([rows, cols]) =>
    fc
      .array(fc.double({ noNaN: true, noDefaultInfinity: true }), {
        minLength: rows * cols,
        maxLength: rows * cols,
      })
      .map((numbers) => matrixOf(rows, cols, Float64Array.from(numbers))),
  )

describe('csv', () => {
  it('round trips every finite number exactly, wherever the text is cut into pieces', () => {
    const piece = 65_536
    fc.assert(
      fc.property(matrices, fc.integer({ min: -200, max: 2 }), fc.boolean(), (matrix, beyond, named) => {
        const long = 'é'.padStart(piece + beyond, 'a')
        const names = Array.from({ length: matrix.cols }, (_, j) => (j === 0 ? long : `température${j}`))
        expect(decodeCsvRows(encodeCsvRows(matrix, names))).toEqual({ columnNames: names, matrix })
        if (!named) expect(decodeCsvRows(encodeCsvRows(matrix))).toEqual({ columnNames: null, matrix })
      }),
    )
  })

  it('takes headers, CRLF, a byte order mark, blanks, a missing last line break and blank lines at the end', () => {
    const expected = matrixFromRows([
      [1, -2.5],
      [3e-3, 4],
    ])
    expect(read('\ufeffiat1,"size 1"\r\n1, -2.5\r\n+.3e-2 ,4.')).toEqual({
      columnNames: ['iat1', 'size 1'],
      matrix: expected,
    })
    expect(read('1,-2.5\n3e-3,4\n\n \n').matrix).toEqual(expected)
    expect(read('# iat,size\n1,-2.5\n0.003,4\n').columnNames).toEqual(['# iat', 'size'])
  })

  it.each([
    ['', 'line 1: expected at least one row'],
    ['a,b\n', 'line 1: expected at least one row'],
    ['\n\n', 'line 2: expected at least one row'],
    ['1,2\n3\n', 'line 2: expected 2 fields as in the first line, found 1'],
    ['1,2\n3,4,\n', 'line 2: expected 2 fields as in the first line, found 3'],
    ['1,2\n\n3,4\n', 'line 2: the line is blank'],
    ['1,x\n', 'line 1: column 2: expected a finite number, found "x"'],
    ['a,b\n1,2\na,b\n', 'line 3: column 1: expected a finite number, found "a"'],
    ['1,nan\n', 'column 2'],
    ['1,2\n1,inf\n', 'line 2: column 2'],
    ['1,2\n1,1e999\n', 'line 2: column 2'],
    ['1,2\n0x10,1\n', 'line 2: column 1'],
    ['1,2\n1_000,1\n', 'line 2: column 1'],
    ['1,2\n,1\n', 'line 2: column 1: expected a finite number, found ""'],
    ['1,2\n"1",2\n', 'line 2: column 1'],
    ['1;2\n3;4\n', 'line 2: column 1'],
    ['1 2\n3 4\n', 'line 2: column 1'],
  ])('refuses %j', (text, message) => {
    expect(() => read(text)).toThrow(FormatError)
    expect(() => read(text)).toThrow(message)
  })

  it('refuses bytes that are not text, and a line without end', () => {
    expect(() => decodeCsvRows(Uint8Array.of(0x31, 0x0a, 0xff, 0xfe))).toThrow('not UTF-8')
    expect(() => decodeCsvRows(Uint8Array.of(0x31, 0xc3))).toThrow('not UTF-8')
    expect(() => decodeCsvRows(new Uint8Array(3_000_000).fill(0x31))).toThrow('longer than')
  })

  it('throws nothing but FormatError, whatever the bytes', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 200 }),
          fc.array(fc.constantFrom(...'01.,e-+\n\r "x')).map((c) => Buffer.from(c.join(''))),
        ),
        (bytes) => {
          try {
            const { matrix } = decodeCsvRows(bytes)
            expect(matrix.data.every(Number.isFinite)).toBe(true)
            expect(matrix.data.length).toBe(matrix.rows * matrix.cols)
          } catch (error) {
            expect(error).toBeInstanceOf(FormatError)
          }
        },
      ),
      { numRuns: sampleCount(2000) },
    )
  })

  it('grows over many rows and writes them in pieces', () => {
    const matrix = matrixOf(
      5000,
      3,
      Float64Array.from({ length: 15_000 }, (_, i) => i / 7),
    )
    const pieces = [...csvPieces(matrix)]
    expect(pieces.length).toBeGreaterThan(1)
    expect(read(pieces.join('')).matrix).toEqual(matrix)
  })

  it.each([
    ['numbers that are not finite', () => encodeCsvRows(matrixFromRows([[Number.NaN]]))],
    ['too few names', () => encodeCsvRows(matrixFromRows([[1, 2]]), ['a'])],
    ['a name that is a number', () => encodeCsvRows(matrixFromRows([[1]]), ['1'])],
    ['a name with a comma', () => encodeCsvRows(matrixFromRows([[1]]), ['a,b'])],
  ])('does not write %s', (_, call) => {
    expect(call).toThrow(ArgumentError)
  })
})

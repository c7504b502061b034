/**
 * Rows of numbers as comma-separated text. No CSV library: none says which line and column is no number without a
 * costly callback per field. Reading is strict; the first line names the columns if none of its fields is a number.
 * Memory is 8 bytes a number, and one line.
 */

import { createUtf8Decoder, encodeUtf8 } from './bytes.js'
import { ArgumentError, FormatError } from './errors.js'
import { checkFinite, type Matrix, matrixOf } from './matrix.js'

const ROWS_A_PIECE = 256

/**
 * Yields the text piece by piece; lines end with \n. A number has the shortest form that reads back as the same float64
 * (ECMAScript's, and -0). Throws ArgumentError at a number that is not finite.
 */
export function* csvPieces(matrix: Matrix, columnNames?: readonly string[]): Generator<string> {
  const { rows, cols, data } = matrixOf(matrix.rows, matrix.cols, matrix.data)
  checkFinite(matrix)
  if (columnNames !== undefined) yield headerLine(columnNames, cols)
  for (let first = 0; first < rows; first += ROWS_A_PIECE) {
    let text = ''
    const end = Math.min(first + ROWS_A_PIECE, rows)
    for (let i = first; i < end; i++) {
      for (let j = 0; j < cols; j++) {
        const value = data[i * cols + j]!
        text += (j === 0 ? '' : ',') + (Object.is(value, -0) ? '-0' : value)
      }
      text += '\n'
    }
    yield text
  }
}

/** The whole file as UTF-8. */
export function encodeCsvRows(matrix: Matrix, columnNames?: readonly string[]): Uint8Array<ArrayBuffer> {
  const pieces = Array.from(csvPieces(matrix, columnNames), encodeUtf8)
  const out = new Uint8Array(pieces.reduce((total, piece) => total + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    out.set(piece, at)
    at += piece.length
  }
  return out
}

/** A header must read back as one: names that are numbers, or hold what splits a line, are refused. */
function headerLine(columnNames: readonly string[], cols: number): string {
  if (columnNames.length !== cols) {
    throw new ArgumentError(`columnNames: expected ${cols} names, found ${columnNames.length}`, 'columnNames')
  }
  for (const name of columnNames) {
    if (!/^[A-Za-z_][^,"\r\n]*$/.test(name)) {
      throw new ArgumentError(
        `columnNames: expected a letter first and no comma, quotation mark or line break, found ${JSON.stringify(name)}`,
        'columnNames',
      )
    }
  }
  return `${columnNames.join(',')}\n`
}

/** Rows of numbers from CSV, n × D. */
export interface CsvRows {
  /** Column names when the text had a header line. */
  readonly columnNames: readonly string[] | null
  readonly matrix: Matrix
}

/** Longest line: 65,535 numbers of 30 characters. */
const MAXIMUM_LINE_LENGTH = 2_000_000

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/

/** Pieces, so that the text never stands in memory as a whole. */
const PIECE_BYTES = 1 << 16

/** The lines of a file without their line ends. An unfinished last line is one; an empty one is not. */
function* linesOf(bytes: Uint8Array): Generator<string> {
  const decoder = createUtf8Decoder()
  let lineNumber = 1
  let pending = ''
  for (let at = 0; at <= bytes.length; at += PIECE_BYTES) {
    const isLast = at + PIECE_BYTES > bytes.length
    try {
      pending += decoder.decode(bytes.subarray(at, at + PIECE_BYTES), { stream: !isLast })
    } catch {
      throw refuse(lineNumber, 'the text is not UTF-8')
    }
    const lines = pending.split('\n')
    pending = lines.pop()!
    yield* lines
    lineNumber += lines.length
    if (pending.length > MAXIMUM_LINE_LENGTH) {
      throw refuse(lineNumber, `the line is longer than ${MAXIMUM_LINE_LENGTH} characters`)
    }
  }
  if (pending !== '') yield pending
}

/** Reads a whole file. Throws FormatError that names the line and the column, both counted from 1. */
export function decodeCsvRows(bytes: Uint8Array): CsvRows {
  let lineNumber = 0
  let blankLine = 0
  let columnNames: string[] | null = null
  let cols = -1
  let rows = 0
  let data = new Float64Array(1024)
  for (const text of linesOf(bytes)) {
    lineNumber++
    let line = text.endsWith('\r') ? text.slice(0, -1) : text
    if (lineNumber === 1 && line.startsWith('\ufeff')) line = line.slice(1)
    if (line.trim() === '') {
      blankLine ||= lineNumber
      continue
    }
    if (blankLine !== 0) throw refuse(blankLine, 'the line is blank')
    const fields = line.split(',')
    if (cols === -1) {
      cols = fields.length
      if (fields.every((field) => !NUMBER.test(field.trim()))) {
        columnNames = fields.map((field) => field.trim().replace(/^"(.*)"$/, '$1'))
        continue
      }
    }
    if (fields.length !== cols) {
      throw refuse(lineNumber, `expected ${cols} fields as in the first line, found ${fields.length}`)
    }
    if ((rows + 1) * cols > data.length) {
      const grown = new Float64Array(Math.max(data.length * 2, cols))
      grown.set(data)
      data = grown
    }
    for (let j = 0; j < cols; j++) {
      const field = fields[j]!.trim()
      const value = NUMBER.test(field) ? Number(field) : Number.NaN
      if (!Number.isFinite(value)) {
        const shown = JSON.stringify(field.slice(0, 40))
        throw refuse(lineNumber, `column ${j + 1}: expected a finite number, found ${shown}`)
      }
      data[rows * cols + j] = value
    }
    rows++
  }
  if (rows === 0) throw refuse(Math.max(lineNumber, 1), 'expected at least one row of numbers')
  return { columnNames, matrix: matrixOf(rows, cols, data.slice(0, rows * cols)) }
}

function refuse(line: number, message: string): FormatError {
  return new FormatError('csv', `line ${line}: ${message}`, { field: `line ${line}` })
}

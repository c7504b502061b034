/**
 * Writing rows of numbers as comma-separated text, each number in the shortest form that reads back as the
 * same float64 (ECMAScript's own; negative zero, which that form loses, is written out).
 */
import { ArgumentError } from '../errors.js'
import { checkFinite, type Matrix, matrixOf } from '../matrix.js'
import { encodeUtf8 } from '../utf8.js'

const ROWS_A_PIECE = 256

/** Yields the text piece by piece; lines end with \n. Throws ArgumentError at a number that is not finite. */
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

/**
 * Feature rows from a .npy or .csv file, checked to be finite.
 */
import { checkFinite, DataError, decodeCsvRows, decodeNpyMatrix, type Matrix } from '@oddflow/core'
import { inFile, readFileBounded } from '@oddflow/program'

/** One buffer's worth: 100 million numbers as text, more as .npy. */
const MAXIMUM_ROWS_BYTES = 2 ** 31 - 1

/** Throws FileError, FormatError or DataError; each message begins with the file's name. */
export function readRows(path: string): Matrix {
  const bytes = readFileBounded(path, { maximumBytes: MAXIMUM_ROWS_BYTES })
  let matrix: Matrix
  try {
    matrix = /\.npy$/i.test(path) ? decodeNpyMatrix(bytes) : decodeCsvRows(bytes).matrix
    checkFinite(matrix, 'rows')
  } catch (error) {
    throw inFile(path, error)
  }
  if (matrix.rows === 0 || matrix.cols === 0) {
    throw new DataError(`${path}: no rows in it; expected at least one row of numbers`)
  }
  return matrix
}

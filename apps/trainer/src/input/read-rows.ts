/**
 * Feature rows from a .npy or .csv file, checked to be finite.
 */
import {
  checkFinite,
  DataError,
  decodeCsvRows,
  decodeNpyMatrix,
  FormatError,
  type Matrix,
  OddFlowError,
} from '@oddflow/core'
import { readFileBounded } from './read-file.js'

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

/** Puts the file's name before the message of an error of ours, and what to do after it. */
export function inFile(path: string, error: unknown, advice = ''): unknown {
  if (!(error instanceof OddFlowError)) return error
  const message = `${path}: ${error.message}${advice}`
  const place = {
    ...(error.offsetBytes === undefined ? {} : { offsetBytes: error.offsetBytes }),
    ...(error.field === undefined ? {} : { field: error.field }),
  }
  return error instanceof FormatError
    ? new FileFormatError(error.code, message, place)
    : new OddFlowError(error.code, message, place)
}

class FileFormatError extends OddFlowError {
  override readonly name = 'FormatError'
}

/**
 * Feature rows from a .npy or .csv file, checked to be finite.
 */
import {
  ContractMismatchError,
  type CsvRows,
  checkFinite,
  columnLabel,
  DataError,
  decodeCsvRows,
  decodeNpyMatrix,
  type FeatureContract,
  featureColumns,
  isFeatureLabel,
  type Matrix,
} from '@oddflow/core'
import { inFile, readFileBounded } from '@oddflow/program'

/** One buffer's worth: 100 million numbers as text, more as .npy. */
const MAXIMUM_ROWS_BYTES = 2 ** 31 - 1

/** Throws FileError, FormatError or DataError; each message begins with the file's name. */
export function readRows(path: string): Matrix {
  return readTable(path).matrix
}

/**
 * The rows of a file, made under `contract` as far as can be seen: their width, and the names of a .csv's columns where
 * its first line names features. Throws ContractMismatchError, and what `readRows` throws.
 */
export function readRowsUnder(contract: FeatureContract, path: string): Matrix {
  const { matrix, columnNames } = readTable(path)
  if (matrix.cols !== contract.dimension) {
    throw new ContractMismatchError(
      `${path}: rows of ${matrix.cols} numbers, but the model was trained on rows of ${contract.dimension}; ${ADVICE}`,
    )
  }
  const names = columnNames ?? []
  // a model of bare rows does not know what they were called, and other names are not ours to judge
  if (contract.featureSet === 'rows' || names.length === 0 || !names.every(isFeatureLabel)) return matrix
  const wanted = featureColumns(contract).map(columnLabel)
  const at = names.findIndex((name, i) => name !== wanted[i])
  if (at < 0) return matrix
  throw new ContractMismatchError(
    `${path}: column ${at + 1} is ${names[at]}, but the model's is ${wanted[at]}; ${ADVICE}`,
  )
}

const ADVICE = 'use rows made under its feature contract (oddflow extract --model)'

function readTable(path: string): CsvRows {
  const bytes = readFileBounded(path, { maximumBytes: MAXIMUM_ROWS_BYTES })
  let table: CsvRows
  try {
    table = /\.npy$/i.test(path)
      ? { columnNames: null, matrix: decodeNpyMatrix(bytes) }
      : decodeCsvRows(bytes)
    checkFinite(table.matrix, 'rows')
  } catch (error) {
    throw inFile(path, error)
  }
  if (table.matrix.rows === 0 || table.matrix.cols === 0) {
    throw new DataError(`${path}: no rows in it; expected at least one row of numbers`)
  }
  if (table.columnNames?.[0] === '' && countsRows(table.matrix)) {
    throw new DataError(
      `${path}: the first column has no name and counts the rows, so it is a table's index and no feature: remove it (pandas: to_csv(…, index=False))`,
    )
  }
  return table
}

/** Whether the first column is 0, 1, 2, … or 1, 2, 3, … */
function countsRows({ rows, cols, data }: Matrix): boolean {
  const [first] = data
  if (first !== 0 && first !== 1) return false
  for (let i = 0; i < rows; i++) if (data[i * cols] !== first + i) return false
  return true
}

/**
 * Feature rows from a .npy or .csv file, checked to be finite.
 */
import {
  ArgumentError,
  type ColumnFacts,
  ContractMismatchError,
  type CsvRows,
  checkFinite,
  columnLabel,
  DataError,
  decodeCsvRows,
  decodeNpyMatrix,
  type FeatureContract,
  FLOW_SUMMARY_DIMENSION,
  featureColumns,
  isFeatureLabel,
  type Matrix,
  summaryFacts,
} from '@oddflow/core'
import { inFile, readFileBounded } from '@oddflow/program'

/** One buffer's worth: 100 million numbers as text, more as .npy. */
const MAXIMUM_ROWS_BYTES = 2 ** 31 - 1

/** Throws FileError, FormatError or DataError; each message begins with the file's name. */
export function readRows(path: string): Matrix {
  return readTable(path).matrix
}

export interface TrainingRows {
  /** One a file, of one width. */
  readonly parts: readonly Matrix[]
  /** Where the files name their columns, and these are of flow summaries. */
  readonly columns: ColumnFacts | null
}

/** Files of rows to train on. Throws what `readRows` throws, and ArgumentError where they are of different kinds. */
export function readTrainingRows(files: readonly string[], warn: (message: string) => void): TrainingRows {
  const tables = files.map(readTable)
  const [first] = tables
  const columns = summaryFacts(first.columnNames ?? [])
  tables.forEach(({ matrix, columnNames }, i) => {
    if (matrix.cols !== first.matrix.cols) {
      throw new ArgumentError(
        `${files[i]}: rows of ${matrix.cols} numbers, but ${files[0]} has rows of ${first.matrix.cols}; train on rows of one kind`,
      )
    }
    const { categoryColumn } = summaryFacts(columnNames ?? []) ?? { categoryColumn: null }
    if (categoryColumn !== (columns?.categoryColumn ?? null)) {
      const [named, other] = categoryColumn === null ? [files[0], files[i]] : [files[i], files[0]]
      throw new ArgumentError(
        `${other}: its service column is missing, or in another place than in ${named}; train on rows of one kind, each .csv with its line of names`,
      )
    }
    if (columnNames === null && endsWithServices(matrix)) {
      warn(
        `${files[i]}: its last column looks like the service of flow summaries, but without a line of names it counts as a number: train on the .csv that extract writes, or on the captures`,
      )
    }
  })
  return { parts: tables.map(({ matrix }) => matrix), columns }
}

/** Whether rows are as wide as flow summaries, and the last number of each is 100,000 × a protocol, and a port. */
function endsWithServices({ rows, cols, data }: Matrix): boolean {
  if (cols !== FLOW_SUMMARY_DIMENSION) return false
  for (let i = 0; i < rows; i++) {
    const code = data[(i + 1) * cols - 1]
    if (!Number.isInteger(code) || ![1, 6, 17, 58, 132].includes(Math.floor(code / 100_000))) return false
  }
  return true
}

/**
 * The rows of a file, made under `contract` as far as can be seen: their width, and the names of a .csv's columns where
 * its first line names features. Throws ContractMismatchError, and what `readRows` throws.
 */
export function readRowsUnder(contract: FeatureContract, path: string): Matrix {
  return readTableUnder(contract, path).matrix
}

/** As `readRowsUnder`, with the names that a .csv's first line has. */
export function readTableUnder(contract: FeatureContract, path: string): CsvRows {
  const table = readTable(path)
  const { matrix, columnNames } = table
  if (matrix.cols !== contract.dimension) {
    throw new ContractMismatchError(
      `${path}: rows of ${matrix.cols} numbers, but the model was trained on rows of ${contract.dimension}; ${adviceFor(contract)}`,
    )
  }
  const names = columnNames ?? []
  // a model of bare rows does not know what they were called, and other names are not ours to judge
  if (contract.featureSet === 'rows' || names.length === 0 || !names.every(isFeatureLabel)) return table
  const wanted = featureColumns(contract).map(columnLabel)
  const at = names.findIndex((name, i) => name !== wanted[i])
  if (at < 0) return table
  throw new ContractMismatchError(
    `${path}: column ${at + 1} is ${names[at]}, but the model's is ${wanted[at]}; ${adviceFor(contract)}`,
  )
}

/** What rows to use instead. A model of bare rows cannot make any. */
function adviceFor({ featureSet }: FeatureContract): string {
  return featureSet === 'rows'
    ? 'give rows with the columns that it was trained on, in the same order'
    : 'make them of a capture for this model (oddflow extract --model)'
}

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

/**
 * `oddflow-bench compare`: every detector on a user's captures or rows, trained as `oddflow train` trains it
 * (threshold: 1 %). All detectors but the ensemble get standardised columns; the ensemble standardises by itself.
 */
import { readFileSync } from 'node:fs'
import {
  checkFinite,
  concatRows,
  createRng,
  DataError,
  decodeCsvRows,
  decodeNpyMatrix,
  FormatError,
  type Matrix,
  matrixOf,
  OddFlowError,
  shuffleInPlace,
  takeRows,
} from '@oddflow/core'
import {
  DETECTOR_NAMES,
  type DetectorName,
  type DetectorOptions,
  encodeModelFile,
  isDetectorName,
  type SavedModel,
} from '@oddflow/detectors'
import { spread } from '@oddflow/evaluation'
import { UsageError } from '@oddflow/program'
import { Command, Option } from 'commander'
import { numbersOf, readLabels, requireBothClasses } from '../datasets/pools.js'
import { inFile } from '../files.js'
import { note, print } from '../output.js'
import {
  collectFlows,
  compare as compareFlows,
  DEFAULT_VARIANT,
  judgeFlows,
  trainOnFlows,
  trainOnRows,
  variantNamed,
  wholeCapture,
} from '../studies/flows.js'
import { judgeRows } from '../studies/rows.js'
import type { Findings } from '../studies/study.js'
import { measuredCell, renderCsv, renderLatex, renderTable, type Table } from '../tables/table.js'
import { whole, withOptions } from './options.js'

export function compareCommand(): Command {
  const command = new Command('compare')
    .description('compare all detectors on your own captures or rows, in one table')
    .argument('[table]', 'normal and novel rows, .csv or .npy; needs --labels')
    .option(
      '--labels <column|file>',
      'labels of the table: a column of the .csv, or a .npy; 0 is normal, 1 is novel',
    )
    .option('--train <files...>', 'normal captures, or .csv or .npy rows, to train on')
    .option('--normal <files...>', 'other normal captures or rows, to judge')
    .option('--novel <files...>', 'novel captures or rows, to judge')
  return withOptions(command, 'detectors')
    .option('--seeds <count>', 'number of seeds for models and for the split of a table', whole(1, 100), 3)
    .addOption(
      new Option('--format <format>', 'markdown, csv or tex')
        .choices(['markdown', 'csv', 'tex'])
        .default('markdown'),
    )
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench compare --train mon.pcap tue.pcap --normal wed.pcap --novel scan.pcap
  oddflow-bench compare --train train.npy --normal normal.npy --novel novel.npy --detectors ensemble,ocsvm
  oddflow-bench compare flows.csv --labels attack --format tex

A row is one line of finite numbers; each file has as many columns as the others. Half of a table's normal rows,
chosen by the seed, are for training; all other rows are judged. Captures become flow summaries, as in oddflow train.`,
    )
    .action(async (table, options) => {
      process.exitCode = await compare(table, options)
    })
}

const COLUMNS = [
  'AUC',
  'novel found at 1 % of normal',
  'normal flagged',
  'novel flagged',
  'model, kB',
] as const
/** One figure a column. */
type Figures = readonly number[]

interface Comparison {
  /** What was trained on and judged, for the reader. */
  readonly about: string
  measure(detector: DetectorOptions, seed: number): Figures
}

interface CompareOptions {
  readonly labels?: string
  readonly train?: readonly string[]
  readonly normal?: readonly string[]
  readonly novel?: readonly string[]
  readonly detectors?: readonly string[]
  readonly seeds: number
  readonly format: 'markdown' | 'csv' | 'tex'
}

/** Resolves to the exit code: 1 when a detector could not be measured. */
export async function compare(table: string | undefined, options: CompareOptions): Promise<number> {
  const detectors = (options.detectors ?? [...DETECTOR_NAMES].reverse()).map(checkDetector)
  const comparison = await open(table, options)
  const rows = detectors.map((name) => ({
    label: name,
    decimals: 3,
    publishedDecimals: 3,
    cells: cellsOf(comparison, name, options.seeds),
  }))
  const made: Table = {
    id: 'compare',
    caption: 'Detectors on your own data',
    source: null,
    columns: COLUMNS,
    rows,
    notes: [
      comparison.about,
      `Seeds: ${options.seeds}; mean ± standard deviation. Flagged: share of rows at the model's own threshold, set from training data alone for 1 % of normal rows.`,
    ],
    trials: null,
    trialsSha256: null,
  }
  const report = { tables: [made], about: [], trials: [] }
  const text = {
    markdown: () => `${renderTable(made)}\n`,
    csv: () => renderCsv(report),
    tex: () => renderLatex(report),
  }
  for (const line of text[options.format]().trimEnd().split(/\r?\n/)) print(line)
  return rows.some(({ cells }) => cells.some(({ measured }) => measured === null)) ? 1 : 0
}

function checkDetector(name: string): DetectorName {
  if (isDetectorName(name)) return name
  throw new UsageError(`--detectors ${name}: expected names out of ${DETECTOR_NAMES.join(', ')}`)
}

function cellsOf({ measure }: Comparison, name: DetectorName, seeds: number): Table['rows'][number]['cells'] {
  const detector =
    name === 'ensemble' ? { detector: name } : ({ detector: name, scaler: 'standard' } as const)
  try {
    const runs = Array.from({ length: seeds }, (_, i) => measure(detector, i + 1))
    note(`${name}: AUC ${runs.map(([auc]) => auc!.toFixed(3)).join(', ')}`)
    return COLUMNS.map((_, column) => measuredCell(spread(runs.map((run) => run[column]!))))
  } catch (error) {
    // other detectors continue; a bug ends the run
    if (!(error instanceof OddFlowError)) throw error
    note(`${name}: ${error.message}`)
    return COLUMNS.map(() => measuredCell(null, 'failed'))
  }
}

function open(table: string | undefined, options: CompareOptions): Promise<Comparison> | Comparison {
  const { labels, train, normal, novel } = options
  const files = [...(train ?? []), ...(normal ?? []), ...(novel ?? [])]
  if (table !== undefined && labels !== undefined && files.length === 0) return openTable(table, labels)
  if (table !== undefined || labels !== undefined || !train || !normal || !novel) {
    throw new UsageError('expected a table with --labels, or files for --train, --normal and --novel')
  }
  const tables = files.filter((file) => /\.(csv|npy)$/i.test(file))
  if (tables.length === 0) return openCaptures(train, normal, novel)
  if (tables.length === files.length) return openRows(train, normal, novel)
  throw new UsageError(
    `expected captures alone or .csv and .npy rows alone, found ${tables[0]} beside captures`,
  )
}

interface NamedRows {
  readonly matrix: Matrix
  readonly columnNames: readonly string[] | null
}

/** @param hint what is added where a table of words is no table of numbers */
function readTable(path: string, hint = ''): NamedRows {
  return inFile(path, () => {
    const bytes = readFileSync(path)
    if (!/\.csv$/i.test(path)) {
      const matrix = decodeNpyMatrix(bytes)
      checkFinite(matrix, 'rows')
      return { matrix, columnNames: null }
    }
    try {
      return decodeCsvRows(bytes)
    } catch (error) {
      throw error instanceof FormatError ? new DataError(`${error.message}${hint}`) : error
    }
  })
}

const LABEL_HINT = '; all columns must be numbers, and labels 0 (normal) or 1 (novel)'

function openRows(train: readonly string[], normal: readonly string[], novel: readonly string[]): Comparison {
  const [first] = train
  const { cols } = readTable(first!).matrix
  const rowsOf = (files: readonly string[]): Matrix =>
    concatRows(
      files.map((file) => {
        const { matrix } = readTable(file)
        if (matrix.cols === cols) return matrix
        throw new DataError(`${file}: expected rows of ${cols} numbers as in ${first}, found ${matrix.cols}`)
      }),
    )
  const own = { train: rowsOf(train), normal: rowsOf(normal) }
  return compareRows(() => own, rowsOf(novel))
}

function openTable(path: string, labels: string): Comparison {
  const { rows, isNovel } = readLabelled(path, labels)
  const normal = takeRows(rows, numbersOf(isNovel, 0))
  return compareRows(
    (seed) => {
      const half = Math.floor(normal.rows / 2)
      const rng = createRng(seed).fork('split')
      const order = shuffleInPlace(
        Uint32Array.from({ length: normal.rows }, (_, i) => i),
        rng,
      )
      return {
        train: takeRows(normal, order.slice(0, half).sort()),
        normal: takeRows(normal, order.slice(half).sort()),
      }
    },
    takeRows(rows, numbersOf(isNovel, 1)),
  )
}

/** `labels`: a .npy of as many, or the name of a column. */
function readLabelled(path: string, labels: string): { rows: Matrix; isNovel: Float64Array } {
  const { matrix, columnNames } = readTable(path, LABEL_HINT)
  if (/\.npy$/i.test(labels)) {
    const own = readLabels(labels, matrix.rows)
    requireBothClasses(own, labels)
    return { rows: matrix, isNovel: own.data }
  }
  if (columnNames === null) throw new DataError(`${path}: expected a first line that names the columns`)
  const column = columnNames.indexOf(labels)
  if (column < 0) {
    throw new DataError(`${path}: expected a column named ${labels}, found ${columnNames.join(', ')}`)
  }
  const isNovel = Float64Array.from({ length: matrix.rows }, (_, i) => matrix.data[i * matrix.cols + column]!)
  const odd = isNovel.findIndex((label) => label !== 0 && label !== 1)
  if (odd >= 0) {
    throw new DataError(
      `${path}: ${labels}: expected labels 0 (normal) and 1 (novel), found ${isNovel[odd]} in row ${odd + 1}`,
    )
  }
  requireBothClasses(matrixOf(isNovel.length, 1, isNovel), `${path}: ${labels}`)
  const others = matrix.data.filter((_, at) => at % matrix.cols !== column)
  return { rows: matrixOf(matrix.rows, matrix.cols - 1, others), isNovel }
}

function compareRows(
  split: (seed: number) => { readonly train: Matrix; readonly normal: Matrix },
  novel: Matrix,
): Comparison {
  const { train, normal } = split(1)
  return {
    about: `Rows of ${train.cols} numbers: ${train.rows} to train on, ${normal.rows} normal and ${novel.rows} novel to judge.`,
    measure(detector, seed) {
      const { train, normal } = split(seed)
      const saved = trainOnRows(train, detector, seed)
      const isNovel = new Uint8Array(normal.rows + novel.rows).fill(1, normal.rows)
      return figuresOf(judgeRows(saved, concatRows([normal, novel]), isNovel), saved)
    },
  }
}

async function openCaptures(
  train: readonly string[],
  normal: readonly string[],
  novel: readonly string[],
): Promise<Comparison> {
  const recipe = variantNamed(DEFAULT_VARIANT)
  const flowsOf = (files: readonly string[]) => collectFlows(files.map(wholeCapture), recipe)
  const flows = await flowsOf(train)
  const [judged, novelJudged] = [await flowsOf(normal), await flowsOf(novel)]
  return {
    about: `Flow summaries. Captures: ${train.length} to train on, ${normal.length} normal and ${novel.length} novel to judge.`,
    measure(detector, seed) {
      const saved = trainOnFlows(flows, { ...recipe, detector }, seed)
      return figuresOf(compareFlows(judgeFlows(saved, judged), judgeFlows(saved, novelJudged)), saved)
    },
  }
}

const figuresOf = (
  {
    auc,
    found,
    normalFlagged,
    novelFlagged,
  }: Pick<Findings, 'auc' | 'found' | 'normalFlagged' | 'novelFlagged'>,
  saved: SavedModel,
): Figures => [auc, found, normalFlagged, novelFlagged, encodeModelFile(saved).length / 1000]

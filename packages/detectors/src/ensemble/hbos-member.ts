/** The member hbos of an ensemble: histograms of all rows, and of the rows of frequent services. */
import type { Folds, SurpriseWeights } from '../calibration/held-out.js'
import type { EnsembleParameters } from '../detectors/ensemble.js'
import {
  type ColumnHistograms,
  checkHistograms,
  createHistogramViews,
  decodeHistograms,
  encodeHistograms,
  fitHistograms,
  histogramNumbers,
  histogramShares,
  histogramView,
  modalRow,
  takeTables,
  writeHistograms,
} from '../detectors/hbos.js'
import { joinHistograms } from '../detectors/join-histograms.js'
import type { CWriter } from '../export-c/c-text.js'
import { failField, fieldsAt, numbersAt, sizeUpTo } from '../fields.js'
import { vectorTensor } from '../model-file/layout.js'
import {
  checkAscending,
  checkMagnitude,
  type HbosMember,
  indexOf,
  LARGEST_STANDARDISED,
  type MemberFit,
  type MemberKind,
  type MemberTraining,
  type View,
  type ViewExplainer,
} from './ensemble-part.js'

/** Bins of the histograms of all rows. */
const LEAST_BINS = 20
/** So that a model stays small. */
const MOST_BINS = 64
/** Bins of a service's own histograms, and the least number of rows for them. */
const OWN_BINS = 8
const LEAST_OWN_ROWS = 8
/** Only the most frequent services, so that a model stays small. */
const MOST_OWN_TABLES = 20
/** Of a bin, in standard deviations. */
const LEAST_BIN_WIDTH = 0.1

const WHOLE: SurpriseWeights = { body: 1, tail: 1 }
/** Weight of each of two views, which are similar. */
const HALF: SurpriseWeights = { body: 0.5, tail: 0.4 }

export const hbosMember: MemberKind<HbosMember> = {
  viewWeights: (hasServices) => (hasServices ? [HALF, HALF] : [WHOLE]),
  createViews(member, hasServices) {
    const ofAll = createHbosView({ ...member, own: null })
    return hasServices ? [createHbosView(member), ofAll] : [ofAll]
  },
  encode: ({ histograms, own }, prefix) => ({
    metadata: {},
    tensors: {
      ...encodeHistograms(histograms, `${prefix}histograms.`),
      ...(own === null
        ? {}
        : {
            [`${prefix}own.categories`]: vectorTensor(own.categories),
            ...encodeHistograms(own.histograms, `${prefix}own.histograms.`),
          }),
    },
  }),
  decode: (_metadata, file) => ({
    name: 'hbos',
    histograms: decodeHistograms(file, 'histograms.'),
    own: file.has('own.categories')
      ? { categories: file.vector('own.categories'), histograms: decodeHistograms(file, 'own.histograms.') }
      : null,
  }),
  check(value, { bins }, { cols, hasServices }, path) {
    const histograms = checkHistograms(value.histograms, bins, `${path}.histograms`)
    checkTables(histograms, 1, cols, `${path}.histograms`)
    if (value.own === null) return { name: 'hbos', histograms, own: null }
    if (!hasServices) failField(`${path}.own.categories`, 'none, since no column is a category', value.own)
    const own = fieldsAt(value.own, `${path}.own`)
    const categories = numbersAt(own.categories, `${path}.own.categories`)
    sizeUpTo(categories.length, MOST_OWN_TABLES, `${path}.own.categories`)
    checkAscending(categories, `${path}.own.categories`, true)
    const tables = checkHistograms(own.histograms, OWN_BINS, `${path}.own.histograms`)
    checkTables(tables, categories.length, cols, `${path}.own.histograms`)
    return { name: 'hbos', histograms, own: { categories, histograms: tables } }
  },
  spaceNumbers: ({ histograms, own }) =>
    histogramNumbers(histograms) +
    (own === null ? 0 : histogramNumbers(own.histograms) + own.categories.length),
  facts({ histograms, own }) {
    const count = own?.categories.length ?? 0
    const services = count === 0 ? '' : `; ${count} services have histograms of ${OWN_BINS} bins of their own`
    return [{ label: 'hbos', value: `${histograms.bins} bins a column${services}` }]
  },
}

function checkTables(
  { low, high }: HbosMember['histograms'],
  tables: number,
  cols: number,
  path: string,
): void {
  if (low.rows !== tables || low.cols !== cols) {
    failField(path, `${tables} tables of ${cols} columns`, `${low.rows} of ${low.cols}`)
  }
  checkMagnitude(low.data, LARGEST_STANDARDISED, `${path}.low`)
  checkMagnitude(high.data, LARGEST_STANDARDISED, `${path}.high`)
}

// ---- fit

/** The Rice rule, 2 n^(1/3). Fewer than 20 find less, however few the rows are. */
function defaultBins(rows: number): number {
  const cube = (bins: number): number => bins * bins * bins
  let bins = LEAST_BINS
  while (bins < MOST_BINS && cube(bins + 1) <= 8 * rows) bins++
  return bins
}

/** The tables of all folds are made together, because they share nearly all rows. */
export function createHbosFit(
  { rows, categories }: MemberTraining,
  { of: foldOf, count: folds }: Folds,
  kept: Uint32Array,
  { bins: asked }: EnsembleParameters,
): MemberFit {
  const bins = asked ?? defaultBins(kept.length)
  // without each fold, and without none
  const withouts = Array.from({ length: folds + 1 }, (_, fold) => fold)
  const foldsWithout = withouts.map((without) =>
    Array.from({ length: folds }, (_, fold) => fold).filter((fold) => fold !== without),
  )
  const partsOf = (numbers: Uint32Array): Uint32Array[] =>
    Array.from({ length: folds }, (_, fold) => numbers.filter((row) => foldOf[row] === fold))
  const ofAll = fitHistograms(rows, partsOf(kept), foldsWithout, bins, LEAST_BIN_WIDTH)
  const allRows = (without: number): ColumnHistograms => takeTables(ofAll, without, without + 1)
  if (categories === null) {
    return ({ fold }) => ({ name: 'hbos', histograms: allRows(fold ?? folds), own: null })
  }

  const { of, names } = categories
  const sizes = withouts.map(() => new Uint32Array(names.length))
  for (const row of kept) {
    withouts.forEach((without) => {
      if (foldOf[row] !== without) sizes[without]![of[row]!]!++
    })
  }
  const chosen = sizes.map((ofSize) =>
    [...names.keys()]
      .filter((category) => ofSize[category]! >= LEAST_OWN_ROWS)
      .sort((a, b) => ofSize[b]! - ofSize[a]! || a - b)
      .slice(0, MOST_OWN_TABLES)
      .sort((a, b) => names[a]! - names[b]!),
  )
  const union = [...new Set(chosen.flat())]
  const parts = union.flatMap((category) => partsOf(kept.filter((row) => of[row] === category)))
  const placeOf = new Map(union.map((category, place) => [category, place]))
  const tables = chosen.flatMap((ofFold, without) =>
    ofFold.map((category) => foldsWithout[without]!.map((fold) => placeOf.get(category)! * folds + fold)),
  )
  const ofServices = fitHistograms(rows, parts, tables, OWN_BINS, LEAST_BIN_WIDTH)
  return ({ fold }) => {
    const without = fold ?? folds
    const histograms = allRows(without)
    const own = chosen[without]!
    if (own.length === 0) return { name: 'hbos', histograms, own: null }
    const first = chosen.slice(0, without).reduce((sum, { length }) => sum + length, 0)
    return {
      name: 'hbos',
      histograms,
      own: {
        categories: Float64Array.from(own, (category) => names[category]!),
        histograms: takeTables(ofServices, first, first + own.length),
      },
    }
  }
}

// ---- more rows

export function joinHbos(
  { histograms, own }: HbosMember,
  { rows, categories }: MemberTraining,
  numbers: Uint32Array,
  weight: number,
): HbosMember {
  const all = joinHistograms(
    rows,
    [{ old: { histograms, table: 0 }, rows: numbers }],
    weight,
    histograms.bins,
    LEAST_BIN_WIDTH,
  )
  if (categories === null) return { name: 'hbos', histograms: all, own: null }
  const rowsOf = new Map<number, number[]>()
  for (const row of numbers) {
    const name = categories.names[categories.of[row]!]!
    const rowsOfName = rowsOf.get(name) ?? []
    rowsOf.set(name, rowsOfName)
    rowsOfName.push(row)
  }
  const known = own?.categories ?? new Float64Array(0)
  const tables = [...new Set([...known, ...rowsOf.keys()])]
    .map((name) => {
      const at = indexOf(known, name)
      const given = Uint32Array.from(rowsOf.get(name) ?? [])
      const before = at < 0 ? 0 : own!.histograms.rows[at]!
      return {
        name,
        count: before + weight * given.length,
        isOwn: at >= 0 || given.length >= LEAST_OWN_ROWS,
        table: { old: at < 0 ? null : { histograms: own!.histograms, table: at }, rows: given },
      }
    })
    .filter(({ isOwn }) => isOwn)
    .sort((a, b) => b.count - a.count || a.name - b.name)
    .slice(0, MOST_OWN_TABLES)
    .sort((a, b) => a.name - b.name)
  if (tables.length === 0) return { name: 'hbos', histograms: all, own: null }
  return {
    name: 'hbos',
    histograms: all,
    own: {
      categories: Float64Array.from(tables, ({ name }) => name),
      histograms: joinHistograms(
        rows,
        tables.map(({ table }) => table),
        weight,
        OWN_BINS,
        LEAST_BIN_WIDTH,
      ),
    },
  }
}

// ---- views

function createHbosView({ histograms, own }: HbosMember): View {
  const all = createHistogramViews(histograms, LEAST_BIN_WIDTH)
  const services = own === null ? null : createHistogramViews(own.histograms, LEAST_BIN_WIDTH)
  const { cols } = histograms.low
  return (rows, names, out) => {
    for (let i = 0; i < rows.rows; i++) {
      const table = own === null ? -1 : indexOf(own.categories, names[i]!)
      out[i] =
        services === null || table < 0
          ? histogramView(all, 0, rows.data, i * cols)
          : histogramView(services, table, rows.data, i * cols)
    }
  }
}

// ---- explanation

/** One for each view. */
export function explainHbos(member: HbosMember, hasServices: boolean): readonly ViewExplainer[] {
  const ofAll = createHbosExplainer({ ...member, own: null })
  return hasServices ? [createHbosExplainer(member), ofAll] : [ofAll]
}

function createHbosExplainer({ histograms, own }: HbosMember): ViewExplainer {
  const all = createHistogramViews(histograms, LEAST_BIN_WIDTH)
  const services = own === null ? null : createHistogramViews(own.histograms, LEAST_BIN_WIDTH)
  const tableOf = (category: number): number => (own === null ? -1 : indexOf(own.categories, category))
  return {
    share(row, category, _, out) {
      out.fill(0)
      const table = tableOf(category)
      if (services !== null && table >= 0) histogramShares(services, table, row.data, 0, out)
      else histogramShares(all, 0, row.data, 0, out)
    },
    example(_, category) {
      const table = tableOf(category)
      return services !== null && table >= 0 ? modalRow(services, table) : modalRow(all, 0)
    },
  }
}

// ---- C

/** The C texts of its views of the standardized row x. */
export function writeHbosMember(c: CWriter, member: HbosMember, hasServices: boolean): string[] {
  const prefix = 'hbos_'
  const view = writeHistograms(c, member.histograms, LEAST_BIN_WIDTH, prefix)
  const all = `${view}(x, 0)`
  if (!hasServices) return [all]
  if (member.own === null) return [all, all]
  c.need('index_of')
  const services = c.table(`${prefix}services`, 'double', member.own.categories)
  const own = writeHistograms(c, member.own.histograms, LEAST_BIN_WIDTH, `${prefix}own_`)
  c.code(`static inline double $${prefix}service_view(const double *x, double service) {
  const int table = $index_of(${services}, ${member.own.categories.length}, service);
  return table < 0 ? ${all} : ${own}(x, table);
}
`)
  return [`$${prefix}service_view(x, service)`, all]
}

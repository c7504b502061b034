/** Adds rows to histograms whose rows are gone: their bins say where the old rows lay. */
import { createMatrix, exp, type Matrix } from '@oddflow/core'
import {
  binOf,
  type ColumnHistograms,
  countBelow,
  failRange,
  PSEUDO_COUNT,
  UNITS_PER_NAT,
  writeSurprises,
} from './hbos.js'

/** The sources of a new table: an old table, added rows, or both. */
interface JoinedTable {
  readonly old: { readonly histograms: ColumnHistograms; readonly table: number } | null
  /** Numbers of the added rows; may be none if there is an old table. */
  readonly rows: Uint32Array
}

/** Rows of a bin from `from` to `to`, spread evenly; equal ends mean a single value. */
interface Piece {
  readonly from: number
  readonly to: number
  readonly rows: number
}

/** Tables with weighted rows of `rows` added. */
export function joinHistograms(
  rows: Matrix,
  tables: readonly JoinedTable[],
  weight: number,
  bins: number,
  leastWidth: number,
): ColumnHistograms {
  const { cols } = rows
  const low = createMatrix(tables.length, cols)
  const high = createMatrix(tables.length, cols)
  const sizes = Uint32Array.from(tables, ({ old, rows: given }) =>
    Math.round((old === null ? 0 : old.histograms.rows[old.table]!) + weight * given.length),
  )
  const surprises = new Uint16Array(tables.length * cols * (bins + 2))
  const counts = new Float64Array(bins + 2)
  tables.forEach(({ old, rows: given }, t) => {
    const n = sizes[t]!
    for (let j = 0; j < cols; j++) {
      const known = old === null ? null : gridOf(old.histograms, old.table, j, leastWidth)
      const pieces = old === null ? [] : piecesOf(old.histograms, old.table, j, known!)
      const values = Float64Array.from(given, (row) => rows.data[row * cols + j]! + 0).sort()
      const range = rangeOf(pieces, values, weight, n)
      const [from, to] = known === null ? range : widenedGrid(known, range, bins)
      failRange(from, to, j)
      low.data[t * cols + j] = from
      high.data[t * cols + j] = to
      const width = Math.max((to - from) / bins, leastWidth)
      counts.fill(0)
      for (const x of values) counts[binOf(x, from, to, width, bins)]! += weight
      for (const piece of pieces) {
        // an old bin lies in one new bin
        counts[binOf((piece.from + piece.to) / 2, from, to, width, bins)]! += piece.rows
      }
      writeSurprises(counts, n, surprises, (t * cols + j) * (bins + 2))
    }
  })
  return { bins, rows: sizes, low, high, surprises }
}

interface Grid {
  readonly low: number
  readonly high: number
  readonly width: number
}

function gridOf(
  { bins, low, high }: ColumnHistograms,
  table: number,
  column: number,
  leastWidth: number,
): Grid {
  const at = table * low.cols + column
  const [from, to] = [low.data[at]!, high.data[at]!]
  return { low: from, high: to, width: Math.max((to - from) / bins, leastWidth) }
}

/**
 * An old range extended to cover another. Bins double in width as often as needed, and each new edge is an old edge, so
 * no old bin is split.
 */
function widenedGrid(
  { low, high, width }: Grid,
  [least, most]: readonly [number, number],
  bins: number,
): readonly [low: number, high: number] {
  if (least >= low && most <= Math.max(high, low + bins * width)) return [low, high]
  for (let wide = width > 0 ? width : (most - least) / bins; ; wide *= 2) {
    const below = least >= low ? 0 : Math.ceil((low - least) / wide)
    // slightly lower, so that rounding puts no number on an old edge into the bin below
    const from = low - (below + 1e-9) * wide
    const to = from + bins * wide
    if (!(to < Math.max(high, most)) || !Number.isFinite(to)) return [from, to]
  }
}

/** The rows of a table's column, by bin. Rows of the open bins lie half a bin outside the range. */
function piecesOf(
  { bins, rows, low, surprises }: ColumnHistograms,
  table: number,
  column: number,
  { low: from, high: to, width }: Grid,
): Piece[] {
  const at = table * low.cols + column
  const end = Math.max(from + bins * width, to)
  const pieces: Piece[] = []
  for (let b = 0; b < bins + 2; b++) {
    const surprise = surprises[at * (bins + 2) + b]! / UNITS_PER_NAT
    const count = (rows[table]! + PSEUDO_COUNT) * exp(-surprise) - PSEUDO_COUNT
    // what rounding leaves of an empty bin
    if (!(count > 0.01)) continue
    if (b === 0) pieces.push({ from: from - width / 2, to: from - width / 2, rows: count })
    else if (b > bins) pieces.push({ from: end + width / 2, to: end + width / 2, rows: count })
    else {
      const start = from + (b - 1) * width
      pieces.push({ from: start, to: Math.min(start + width, Math.max(to, start)), rows: count })
    }
  }
  return pieces
}

/** The 1 % and 99 % order statistics of n rows, as precisely as the pieces allow. */
function rangeOf(
  pieces: readonly Piece[],
  values: Float64Array,
  weight: number,
  n: number,
): readonly [low: number, high: number] {
  const tail = Math.floor((n - 1) / 100)
  const candidates = Float64Array.from([...values, ...pieces.flatMap(({ from, to }) => [from, to])]).sort()
  const below = (x: number, orAt: boolean): number =>
    weight * countBelow(values, x, orAt) +
    pieces.reduce((sum, { from, to, rows }) => {
      if (from === to) return sum + (from < x || (orAt && from === x) ? rows : 0)
      return sum + rows * Math.min(1, Math.max(0, (x - from) / (to - from)))
    }, 0)
  const total = below(Number.POSITIVE_INFINITY, true)
  const last = candidates.length - 1
  // the first piece that more rows than the tail reach, and the last one at which as many begin
  let low = 0
  let high = last
  while (low < high) {
    const middle = (low + high) >> 1
    if (below(candidates[middle]!, true) > tail) high = middle
    else low = middle + 1
  }
  const from = candidates[low]!
  high = last
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (total - below(candidates[middle]!, false) > tail) low = middle
    else high = middle - 1
  }
  return [from, candidates[low]!]
}

/**
 * Quantiles of the Euclidean distances between all pairs of rows: `pairs` ranks the n(n−1)/2 of different rows (the
 * paper's text), `authors` the full n × n matrix (their code). Linear between neighbouring ranks, as numpy.quantile.
 *
 * Exact, without keeping 12.5 million distances for n = 5,000: a sample of pairs brackets each wanted rank, and one
 * pass counts what lies below and keeps what lies inside. Everything is done on squared distances.
 */
import { ArgumentError, type Matrix, type Rng, sampleWithoutReplacement, takeRows } from '@oddflow/core'
import {
  MemoryLayout,
  PANEL_LANES_F64,
  packPanels,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
} from './simd/simd-kernels.js'
import { DISTANCE_TILE_ROWS, squaredDistances, squaredDistancesOfFour } from './squared-distances.js'

/**
 * The value that would stand at a place after sorting: Hoare's quickselect by median of three, in a tenth of sorting's
 * time for hundreds of thousands.
 */

/** Puts the value of `place` where sorting `values` from `first` up to `last` would, and returns it. */
export function selectValue(values: Float64Array, first: number, last: number, place: number): number {
  let low = first
  let high = last
  while (low < high) {
    const a = values[low]!
    const b = values[(low + high) >>> 1]!
    const c = values[high]!
    const pivot = Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
    let i = low
    let j = high
    while (i <= j) {
      while (values[i]! < pivot) i++
      while (values[j]! > pivot) j--
      if (i <= j) {
        const v = values[i]!
        values[i++] = values[j]!
        values[j--] = v
      }
    }
    if (place <= j) high = j
    else if (place >= i) low = i
    else break
  }
  return values[place]!
}

/**
 * The same among (value, index) pairs in two arrays. The order is by value and then by index, so the pair found does
 * not depend on the order of the input.
 */

/**
 * After the call the pair at `rank` (0 … count − 1) is the one that sorting would put there, with none larger before
 * it and none smaller after it.
 */
export function selectPairs(values: Float64Array, indices: Uint32Array, count: number, rank: number): void {
  let low = 0
  let high = count - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBefore(values, indices, middle, low)) swap(values, indices, middle, low)
    if (isBefore(values, indices, high, low)) swap(values, indices, high, low)
    if (isBefore(values, indices, high, middle)) swap(values, indices, high, middle)
    const pivot = values[middle]!
    const pivotIndex = indices[middle]!
    let i = low
    let j = high
    while (i <= j) {
      while (values[i]! < pivot || (values[i]! === pivot && indices[i]! < pivotIndex)) i++
      while (values[j]! > pivot || (values[j]! === pivot && indices[j]! > pivotIndex)) j--
      if (i <= j) swap(values, indices, i++, j--)
    }
    if (rank <= j) high = j
    else if (rank >= i) low = i
    else return
  }
}

/** Whether pair a comes before pair b. */
function isBefore(values: Float64Array, indices: Uint32Array, a: number, b: number): boolean {
  return values[a]! < values[b]! || (values[a]! === values[b]! && indices[a]! < indices[b]!)
}

function swap(values: Float64Array, indices: Uint32Array, a: number, b: number): void {
  const v = values[a]!
  values[a] = values[b]!
  values[b] = v
  const i = indices[a]!
  indices[a] = indices[b]!
  indices[b] = i
}

/**
 * RankBrackets: order statistics of a stream that can be replayed (Floyd and Rivest, "Expected time bounds for
 * selection", 1975). A sorted sample brackets each rank; one pass counts what is below and keeps what is inside; the
 * counts prove the bracket right or say where to widen it. Values equal to an edge are counted, not kept.
 */

interface Bracket {
  low: number
  high: number
  /** Ranks still wanted in here. */
  ranks: number[]
  below: number
  atLow: number
  atHigh: number
  kept: Float64Array
  keptCount: number
}

class RankBrackets {
  private brackets: Bracket[] = []
  private readonly found = new Map<number, number>()
  private margin: number
  private readonly total: number
  private readonly sample: Float64Array
  private pending: number[]

  /** `ranks` from 0, ascending, of `total` values of which `sample` is a sorted part. */
  constructor(ranks: readonly number[], total: number, sample: Float64Array) {
    this.pending = [...ranks]
    this.total = total
    this.sample = sample
    // about six standard errors of a sample rank
    this.margin = 3 * Math.sqrt(sample.length) + 2
  }

  get settled(): boolean {
    return this.pending.length === 0
  }

  beginPass(): void {
    const { sample, total, margin } = this
    const s = sample.length
    this.brackets = []
    for (const rank of this.pending) {
      const at = (rank / total) * s
      const lowIndex = Math.floor(at - margin)
      const highIndex = Math.ceil(at + margin)
      const low = lowIndex < 0 ? Number.NEGATIVE_INFINITY : sample[lowIndex]!
      const high = highIndex >= s ? Number.POSITIVE_INFINITY : sample[highIndex]!
      const last = this.brackets[this.brackets.length - 1]
      if (last !== undefined && low <= last.high) {
        last.high = Math.max(last.high, high)
        last.ranks.push(rank)
      } else {
        const kept = new Float64Array(1024)
        this.brackets.push({ low, high, ranks: [rank], below: 0, atLow: 0, atHigh: 0, kept, keptCount: 0 })
      }
    }
  }

  /** Takes values[start … start + count). */
  add(values: Float64Array, start: number, count: number): void {
    for (const bracket of this.brackets) addTo(bracket, values, start, count)
  }

  endPass(): void {
    const missed: number[] = []
    for (const bracket of this.brackets) {
      const { below, atLow, atHigh, kept, keptCount } = bracket
      // ranks ascend, and what is selected stays in its place: the next is sought behind it
      let first = 0
      for (const rank of bracket.ranks) {
        const r = rank - below
        if (r < 0 || r >= atLow + keptCount + atHigh) missed.push(rank)
        else if (r < atLow) this.found.set(rank, bracket.low)
        else if (r < atLow + keptCount) {
          this.found.set(rank, selectValue(kept, first, keptCount - 1, r - atLow))
          first = r - atLow
        } else this.found.set(rank, bracket.high)
      }
    }
    this.brackets = []
    this.pending = missed
    this.margin *= 8
  }

  values(): Map<number, number> {
    return this.found
  }
}

/**
 * No branch depends on a value: among random ones a processor guesses such branches wrong a third of the time,
 * which costs more than the four comparisons. Every value is written to the next free place of `kept` and the
 * place is taken only if the value lies strictly inside.
 */
function addTo(bracket: Bracket, values: Float64Array, start: number, count: number): void {
  const { low, high } = bracket
  let { kept, keptCount } = bracket
  if (keptCount + count > kept.length) {
    kept = new Float64Array(Math.max(2 * kept.length, keptCount + count))
    kept.set(bracket.kept.subarray(0, keptCount))
    bracket.kept = kept
  }
  let below = 0
  let upToLow = 0
  let upToHigh = 0
  const keepOne = low < high ? 1 : 0
  const end = start + count
  for (let i = start; i < end; i++) {
    const v = values[i]!
    const notAboveLow = Number(v <= low)
    below += Number(v < low)
    upToLow += notAboveLow
    upToHigh += Number(v <= high)
    kept[keptCount] = v
    keptCount += (Number(v < high) - notAboveLow) & keepOne
  }
  const inside = keptCount - bracket.keptCount
  bracket.below += below
  bracket.atLow += upToLow - below
  bracket.atHigh += upToHigh - upToLow - inside
  bracket.keptCount = keptCount
}

/**
 * Squared distances of all pairs of rows, each pair once: four rows against all that follow, and the six pairs among
 * the four. On SIMD kernels rows stand in panels of four; lanes without a row are left out. Both paths visit the same
 * numbers in the same order.
 */

/** values[start … start + count) are squared distances; the array is good during the call alone. */
type PairVisitor = (values: Float64Array, start: number, count: number) => void

/** `visit` may not use the SIMD kernels. */
export function forEachPairRun(rows: Matrix, visit: PairVisitor, simd = true): void {
  const kernels = simd ? simdKernels() : null
  const { rows: n, cols, data } = rows
  const ofFour = (kernels === null ? null : createSimdRuns(kernels, rows)) ?? createTypedRuns(rows)
  const few = new Float64Array(DISTANCE_TILE_ROWS)
  let i = 0
  for (; i + DISTANCE_TILE_ROWS <= n; i += DISTANCE_TILE_ROWS) {
    const after = i + DISTANCE_TILE_ROWS
    ofFour(i, visit)
    for (let a = i; a + 1 < after; a++) visitRow(a, after - a - 1)
  }
  for (; i + 1 < n; i++) visitRow(i, n - i - 1)

  /** Row a against the `count` rows after it, fewer than four. */
  function visitRow(a: number, count: number): void {
    squaredDistances(data, a * cols, data, (a + 1) * cols, count, cols, few, 0)
    visit(few, 0, count)
  }
}

/** Visits rows i to i + 3 against all that follow. */
type RunsOfFour = (i: number, visit: PairVisitor) => void

function createTypedRuns({ rows: n, cols, data }: Matrix): RunsOfFour {
  const tile = new Float64Array(DISTANCE_TILE_ROWS * n)
  return (i, visit) => {
    const after = i + DISTANCE_TILE_ROWS
    const count = n - after
    squaredDistancesOfFour(data, i * cols, data, after * cols, count, cols, tile, 0, count)
    for (let r = 0; r < DISTANCE_TILE_ROWS; r++) visit(tile, r * count, count)
  }
}

/** null where the rows do not fit. */
function createSimdRuns(kernels: SimdKernels, { rows: n, cols, data }: Matrix): RunsOfFour | null {
  const panels = panelCount(n, PANEL_LANES_F64)
  const layout = new MemoryLayout()
  const panelsAt = layout.float64(panels * PANEL_LANES_F64 * cols)
  const outAt = layout.float64(DISTANCE_TILE_ROWS * PANEL_LANES_F64 * panels)
  const program: SimdProgram = {
    bytes: layout.bytes,
    load: ({ f64 }) => packPanels(data, 0, n, cols, PANEL_LANES_F64, f64, panelsAt / 8),
  }
  const memory = kernels.enter(program)
  if (memory === null) return null
  const { f64 } = memory
  return (i, visit) => {
    const after = i + DISTANCE_TILE_ROWS
    const first = after / PANEL_LANES_F64
    const stride = PANEL_LANES_F64 * (panels - first)
    // a panel of four rows is what the kernel takes for X, too
    const x = panelsAt + 8 * i * cols
    const y = panelsAt + 8 * after * cols
    kernels.run.squaredDistancesF64(x, DISTANCE_TILE_ROWS, y, panels - first, cols, outAt, stride)
    for (let r = 0; r < DISTANCE_TILE_ROWS; r++) visit(f64, outAt / 8 + r * stride, n - after)
  }
}

/** Above this number of rows, the distances of a random sample of this size are ranked instead, by default. */
export const MAXIMUM_PAIR_ROWS = 5000

/** Which distances are ranked: those of different rows, or the whole matrix as the authors' program does. */
export type QuantileRule = 'pairs' | 'authors'

/** Quantiles of the distances between rows. */
export interface PairDistanceQuantiles {
  /** One distance for each q asked. */
  readonly quantiles: Float64Array
  /** Rows whose pairs were ranked: n, or `maximumRows` when n is larger. */
  readonly rowsUsed: number
}

/**
 * Quantiles q ∈ [0, 1] of the pair distances of `rows` (n × D, n ≥ 2). `rng` is drawn from only when there
 * are more than `maximumRows` rows. Time grows with the square of the rows ranked. Throws ArgumentError.
 */
export function pairDistanceQuantiles(
  rows: Matrix,
  q: ArrayLike<number>,
  rng: Rng,
  rule: QuantileRule = 'pairs',
  maximumRows = MAXIMUM_PAIR_ROWS,
): PairDistanceQuantiles {
  if (rows.rows < 2) throw new ArgumentError(`rows: expected at least 2, found ${rows.rows}`, 'rows')
  if (!(Number.isSafeInteger(maximumRows) && maximumRows >= 2)) {
    throw new ArgumentError(
      `maximumRows: expected a whole number of 2 or more, found ${maximumRows}`,
      'maximumRows',
    )
  }
  const used = boundedRows(rows, rng, maximumRows)
  const n = used.rows
  const pairs = (n * (n - 1)) / 2
  const total = rule === 'pairs' ? pairs : n * n
  // ranks in the sorted pair distances; −1 stands for a zero of the diagonal
  const pairRank = (rank: number) => (rule === 'pairs' ? rank : rank < n ? -1 : Math.floor((rank - n) / 2))
  const positions = Array.from(q, (value, i) => {
    if (!(value >= 0 && value <= 1)) {
      throw new ArgumentError(`q[${i}]: expected a number from 0 to 1, found ${value}`, 'q')
    }
    const position = value * (total - 1)
    const low = Math.floor(position)
    return { low: pairRank(low), high: pairRank(Math.min(low + 1, total - 1)), fraction: position - low }
  })
  const ranks = new Set<number>()
  for (const { low, high } of positions) {
    if (low >= 0) ranks.add(low)
    if (high >= 0) ranks.add(high)
  }
  const found = selectPairRanks(
    used,
    [...ranks].sort((a, b) => a - b),
  )
  const at = (rank: number) => (rank < 0 ? 0 : Math.sqrt(found.get(rank)!))
  const quantiles = Float64Array.from(positions, ({ low, high, fraction }) => {
    const a = at(low)
    const b = at(high)
    // infinite ones have no difference, and no product with 0
    return a === b || fraction === 0 ? a : a + (b - a) * fraction
  })
  return { quantiles, rowsUsed: n }
}

/**
 * Share of the n(n−1)/2 pairs of rows that are equal, number by number: a distance may be 0 because its square is too
 * small for float64. The sample rule of `pairDistanceQuantiles` applies.
 */
export function equalPairShare(rows: Matrix, rng: Rng, maximumRows = MAXIMUM_PAIR_ROWS): number {
  const { rows: n, cols, data } = boundedRows(rows, rng, maximumRows)
  const compare = (a: number, b: number): number => {
    for (let j = 0; j < cols; j++) {
      const difference = data[a * cols + j]! - data[b * cols + j]!
      if (difference !== 0) return difference
    }
    return 0
  }
  const order = Uint32Array.from({ length: n }, (_, i) => i).sort(compare)
  let equal = 0
  for (let i = 1, before = 0; i < n; i++) {
    before = compare(order[i - 1]!, order[i]!) === 0 ? before + 1 : 0
    equal += before
  }
  return equal / ((n * (n - 1)) / 2)
}

/** The rows themselves, or a random sample of `maximumRows` of them in their order. */
function boundedRows(rows: Matrix, rng: Rng, maximumRows: number): Matrix {
  if (rows.rows <= maximumRows) return rows
  return takeRows(rows, sampleWithoutReplacement(rows.rows, maximumRows, rng).sort())
}

/** Squared distances that hold the given ascending ranks (0 = the smallest) among all pairs. */
function selectPairRanks(rows: Matrix, ranks: readonly number[]): Map<number, number> {
  const pairs = (rows.rows * (rows.rows - 1)) / 2
  const brackets = new RankBrackets(ranks, pairs, samplePairs(rows))
  while (!brackets.settled) {
    brackets.beginPass()
    forEachPairRun(rows, (values, start, count) => brackets.add(values, start, count))
    brackets.endPass()
  }
  return brackets.values()
}

/** Sorted squared distances of about 32,768 pairs, spread evenly over all of them. */
function samplePairs(rows: Matrix): Float64Array {
  const { rows: n, cols, data } = rows
  const pairs = (n * (n - 1)) / 2
  const size = Math.min(pairs, SAMPLE_PAIRS)
  const out = new Float64Array(size)
  const distance = new Float64Array(1)
  // pair p of the list (0,1), (0,2) … (n−2,n−1); `first` is the list's position of row i's first pair
  let i = 0
  let first = 0
  for (let s = 0; s < size; s++) {
    const p = Math.floor((s * pairs) / size)
    while (p >= first + (n - 1 - i)) {
      first += n - 1 - i
      i++
    }
    const j = i + 1 + (p - first)
    squaredDistances(data, i * cols, data, j * cols, 1, cols, distance, 0)
    out[s] = distance[0]!
  }
  return out.sort()
}

const SAMPLE_PAIRS = 32768

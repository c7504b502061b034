/**
 * Exact nearest neighbours by direct differences, ties by index.
 *
 * The k nearest rows of each row among all n rows, itself included, sorted by distance and then by index: a
 * total order, so the lists have one right answer. Density methods on top of them are ill-conditioned: a last
 * bit in a distance or another order of ties gives other clusters.
 *
 * For each row: all n squared distances, a threshold from every sixteenth of them that almost surely leaves
 * a little more than k below it, one pass that gathers those, a sort of the gathered. When the threshold
 * was too low everything is gathered, so the result never depends on it. n² time, n·k memory, meant for
 * n up to about 10,000 in few dimensions.
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import { sortPairs } from './sort-pairs.js'
import { DISTANCE_TILE_ROWS, squaredDistances, squaredDistancesOfFour } from './squared-distances.js'

export interface NearestNeighbours {
  /** Neighbours a row: min(k, n). */
  readonly k: number
  /** n·k row numbers; those of row i stand at i·k, nearest first. */
  readonly indices: Uint32Array
  /** Length n: squared distance of row i to the last of its neighbours. */
  readonly squaredRadii: Float64Array
}

/** `k` counts the row itself and is lowered to n. `onRow` is called now and then with the rows done. */
export function nearestNeighbours(
  rows: Matrix,
  k: number,
  onRow?: (done: number) => void,
): NearestNeighbours {
  if (!Number.isInteger(k) || k < 1) {
    throw new ArgumentError(`k: expected a whole number of 1 or more, found ${k}`, 'k')
  }
  const { rows: n, cols, data } = rows
  const count = Math.min(k, n)
  const indices = new Uint32Array(n * count)
  const squaredRadii = new Float64Array(n)
  const tile = new Float64Array(DISTANCE_TILE_ROWS * n)
  const gathered = new Float64Array(n)
  const gatheredIndex = new Uint32Array(n)
  const sampleSize = Math.floor(n / STRIDE)
  const sample = new Float64Array(sampleSize)
  const expected = count / STRIDE
  const sampleRank = Math.ceil(expected + 3 * Math.sqrt(expected) + 2)
  for (let i = 0; i < n; i++) {
    const distances = (i % DISTANCE_TILE_ROWS) * n
    if (distances === 0) {
      if (i + DISTANCE_TILE_ROWS <= n) squaredDistancesOfFour(data, i * cols, data, 0, n, cols, tile, 0, n)
      else
        for (let r = 0; i + r < n; r++) squaredDistances(data, (i + r) * cols, data, 0, n, cols, tile, r * n)
    }
    let found = 0
    if (sampleRank < sampleSize) {
      for (let s = 0; s < sampleSize; s++) sample[s] = tile[distances + s * STRIDE]!
      sample.sort()
      found = gather(tile, distances, n, sample[sampleRank]!, gathered, gatheredIndex)
    }
    if (found < count) found = gather(tile, distances, n, Number.POSITIVE_INFINITY, gathered, gatheredIndex)
    sortPairs(gathered, gatheredIndex, found, count)
    for (let j = 0, at = i * count; j < count; j++) indices[at++] = gatheredIndex[j]!
    squaredRadii[i] = gathered[count - 1]!
    if (onRow !== undefined && (i & 255) === 255) onRow(i + 1)
  }
  return { k: count, indices, squaredRadii }
}

const STRIDE = 16

/** Copies what is at most `threshold`, with its index, in index order; returns how many there are. */
function gather(
  values: Float64Array,
  start: number,
  n: number,
  threshold: number,
  out: Float64Array,
  outIndex: Uint32Array,
): number {
  let count = 0
  for (let j = 0; j < n; j++) {
    const v = values[start + j]!
    if (v <= threshold) {
      out[count] = v
      outIndex[count] = j
      count++
    }
  }
  return count
}

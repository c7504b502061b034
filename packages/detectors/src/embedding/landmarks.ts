/**
 * Farthest-first landmarks: rows that cover the training rows, including rare kinds (Gonzalez, "Clustering to minimize
 * the maximum intercluster distance", Theoretical Computer Science 38, 1985).
 *
 * The first is the row nearest to the mean, each next one the row farthest from all landmarks. Rows of different groups
 * (for example services) are infinitely far apart: each group, the most frequent first, gets the row nearest to its own
 * mean. At most n·m distances; most are skipped by the triangle inequality if rows are clustered.
 */
import { type Matrix, type Rng, sampleWithoutReplacement } from '@oddflow/core'
import { squaredDistance } from '@oddflow/linalg'
import type { LandmarkChoice } from '../parameters.js'

/** 2^−540: numbers scaled by it have differences whose squares, over 65,535 columns, stay in range. */
export const FAR_SCALE = 1 / 2 ** 540

/** Row numbers of at most `m` landmarks; random ones are drawn without replacement from the fork `landmarks` of `rng`. */
export function chooseLandmarks(rows: Matrix, m: number, choice: LandmarkChoice, rng: Rng): Uint32Array {
  const count = Math.min(m, rows.rows)
  return choice === 'random'
    ? sampleWithoutReplacement(rows.rows, count, rng.fork('landmarks'))
    : farthestFirstRows(rows, count)
}

/** Explains why there are fewer landmarks than `m`, if so. */
export function landmarkNotes(m: number, landmarks: number, trainingRows: number): string[] {
  if (landmarks >= m) return []
  return [
    landmarks === trainingRows
      ? `m lowered from ${m} to the ${landmarks} training rows`
      : `m lowered from ${m} to ${landmarks}: every training row equals one of these landmarks`,
  ]
}

interface FarthestFirstOptions {
  /** Numbers of the rows to choose from (one or more); absent: all. */
  readonly among?: Uint32Array
  /** The group of each row of the matrix, 0 … groupCount − 1; lower groups get a landmark first. */
  readonly groups?: { readonly of: Uint32Array; readonly count: number }
}

/**
 * Row numbers of at most `m` landmarks, in the order found; fewer if every row equals a landmark of its group. `rows`
 * are scaled and finite.
 */
export function farthestFirstRows(rows: Matrix, m: number, options: FarthestFirstOptions = {}): Uint32Array {
  const { cols, data } = rows
  const numbers = options.among ?? Uint32Array.from({ length: rows.rows }, (_, i) => i)
  const n = numbers.length
  const { groups } = options
  const groupOf = groups === undefined ? new Uint32Array(n) : numbers.map((row) => groups.of[row]!)
  const chosen: number[] = []
  const landmarks = new Float64Array(m * cols)
  const groupOfLandmark = new Uint32Array(m)
  // the squared distance of landmark j to a later one k is at j · m + k
  const between = new Float64Array(m * m)
  const choose = (place: number): void => {
    const found = chosen.length
    const start = numbers[place]! * cols
    for (let j = 0; j < found; j++) {
      between[j * m + found] = squaredDistance(data, start, landmarks, j * cols, cols)
    }
    landmarks.set(data.subarray(start, start + cols), found * cols)
    groupOfLandmark[found] = groupOf[place]!
    chosen.push(numbers[place]!)
  }
  const landmarkOf = Array.from(
    centralPlaces(rows, numbers, groupOf, Math.min(groups?.count ?? 1, m)),
    (place) => {
      if (place >= 0) choose(place)
      return place < 0 ? -1 : chosen.length - 1
    },
  )

  // for each place i: its nearest landmark at 2 i, the number of compared landmarks at 2 i + 1, and the squared
  // distance; a place of a group without a landmark counts as covered
  const compared = new Uint32Array(2 * n).fill(chosen.length)
  const distances = new Float64Array(n)
  for (let i = 0; i < n; i++) {
    const landmark = landmarkOf[groupOf[i]!]
    if (landmark === undefined) continue
    compared[2 * i] = landmark
    distances[i] = squaredDistance(data, numbers[i]! * cols, landmarks, landmark * cols, cols)
  }
  /** Compares a place with further landmarks, until it is known to be nearer than `enough`. */
  const compare = (i: number, enough: number): void => {
    const start = numbers[i]! * cols
    let smallest = distances[i]!
    let at = compared[2 * i]!
    let k = compared[2 * i + 1]!
    const group = groupOfLandmark[at]!
    for (; k < chosen.length && smallest >= enough; k++) {
      if (groupOfLandmark[k] !== group || isSpared(smallest, between[at * m + k]!)) continue
      const distance = distanceBelow(smallest, data, start, landmarks, k * cols, cols)
      if (distance < smallest) {
        smallest = distance
        at = k
      }
    }
    distances[i] = smallest
    compared[2 * i] = at
    compared[2 * i + 1] = k
  }
  const blocks = Math.ceil(n / BLOCK_PLACES)
  const largest = new Float64Array(blocks).fill(Number.POSITIVE_INFINITY)
  while (chosen.length < m) {
    let farthest = -1
    let most = 0
    // starts with the block of the largest distance, which saves most of the others
    for (let step = -1; step < blocks; step++) {
      const block = step < 0 ? indexOfLargest(largest) : step
      if (largest[block]! < most) continue
      let ofBlock = 0
      const end = Math.min(n, (block + 1) * BLOCK_PLACES)
      for (let i = block * BLOCK_PLACES; i < end; i++) {
        if (distances[i]! > most || (distances[i] === most && i < farthest)) {
          compare(i, most)
          if (distances[i]! > most || (distances[i] === most && i < farthest)) {
            farthest = i
            most = distances[i]!
          }
        }
        if (distances[i]! > ofBlock) ofBlock = distances[i]!
      }
      largest[block] = ofBlock
    }
    if (farthest < 0) break
    choose(farthest)
  }
  return Uint32Array.from(chosen)
}

function indexOfLargest(values: Float64Array): number {
  let at = 0
  for (let i = 1; i < values.length; i++) if (values[i]! > values[at]!) at = i
  return at
}

/** Number of places that share one stored largest distance. */
const BLOCK_PLACES = 128

/**
 * Whether a landmark is so far from another that rows nearest to that one stay with it: more than twice the distance,
 * four times the square. The margin covers rounding. Overflowed distances decide nothing.
 */
function isSpared(distance: number, apart: number): boolean {
  const twice = 4 * distance
  return twice < Number.POSITIVE_INFINITY && apart * SAFE >= twice
}

/** Far more than the rounding error of a sum of squares. */
const SAFE = 0.999999

const COLUMNS_AT_A_TIME = 4

/** The squared distance if it is below `limit`, otherwise any number that is not below. Sums of squares only grow. */
function distanceBelow(
  limit: number,
  x: Float64Array,
  xStart: number,
  y: Float64Array,
  yStart: number,
  cols: number,
): number {
  let sum = 0
  for (let t = 0; t < cols && sum < limit; ) {
    const end = Math.min(cols, t + COLUMNS_AT_A_TIME)
    for (; t < end; t++) {
      const difference = x[xStart + t]! - y[yStart + t]!
      sum += difference * difference
    }
  }
  return sum
}

/** For each of the first `count` groups the place nearest to its mean, the first on ties; −1 for an empty group. */
function centralPlaces(
  { cols, data }: Matrix,
  numbers: Uint32Array,
  groupOf: Uint32Array,
  count: number,
): Int32Array {
  const sizes = new Uint32Array(count)
  for (const group of groupOf) if (group < count) sizes[group]!++
  const means = new Float64Array(count * cols)
  for (let i = 0; i < numbers.length; i++) {
    const group = groupOf[i]!
    if (group >= count) continue
    // shares are summed, because the sum itself may overflow
    for (let j = 0; j < cols; j++) {
      means[group * cols + j]! += data[numbers[i]! * cols + j]! / sizes[group]!
    }
  }
  const central = new Int32Array(count).fill(-1)
  const smallest = new Float64Array(count)
  for (let i = 0; i < numbers.length; i++) {
    const group = groupOf[i]!
    if (group >= count) continue
    const distance = squaredDistance(data, numbers[i]! * cols, means, group * cols, cols)
    if (central[group]! < 0 || distance < smallest[group]!) {
      smallest[group] = distance
      central[group] = i
    }
  }
  return central
}

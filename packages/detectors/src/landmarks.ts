/**
 * Farthest-first landmarks: rows that cover the training rows, rare kinds included (Gonzalez, "Clustering to minimize
 * the maximum intercluster distance", Theoretical Computer Science 38, 1985).
 *
 * The first landmark is the row nearest to the mean. Then the row farthest from all landmarks becomes one, again and
 * again; no other m rows have a largest distance to their nearest landmark below half of this one's. Nothing is
 * random. With groups (rows of one service, say), rows of different groups are infinitely far apart: each group, the
 * most frequent first, gets the row nearest to its own mean, and distances are those within a group.
 *
 * Cost: at most n·m distances. A row is passed over when the new landmark is more than twice as far from the row's
 * nearest landmark as the row is (triangle inequality), which spares most of them where rows are clustered.
 */
import { type Matrix, type Rng, sampleWithoutReplacement } from '@oddflow/core'
import { squaredDistance, squaredDistances } from '@oddflow/linalg'
import type { LandmarkChoice } from './parameters.js'

/** Row numbers of at most `m` landmarks; random ones are drawn without replacement from the fork `landmarks` of `rng`. */
export function chooseLandmarks(rows: Matrix, m: number, choice: LandmarkChoice, rng: Rng): Uint32Array {
  const count = Math.min(m, rows.rows)
  return choice === 'random'
    ? sampleWithoutReplacement(rows.rows, count, rng.fork('landmarks'))
    : farthestFirstRows(rows, count)
}

/** Says why there are fewer landmarks than `m`, where there are. */
export function landmarkNotes(m: number, landmarks: number, trainingRows: number): string[] {
  if (landmarks >= m) return []
  return [
    landmarks === trainingRows
      ? `m lowered from ${m} to the ${landmarks} training rows`
      : `m lowered from ${m} to ${landmarks}: every training row equals one of these landmarks`,
  ]
}

export interface FarthestFirstOptions {
  /** Numbers of the rows to choose among (one or more); absent: all. */
  readonly among?: Uint32Array
  /** The group of each row of the matrix, 0 … groupCount − 1, of which those of lower numbers get a landmark first. */
  readonly groups?: { readonly of: Uint32Array; readonly count: number }
}

/**
 * Row numbers of at most `m` landmarks, in the order found: fewer where every row equals a landmark of its group.
 * `rows` are scaled and finite.
 */
export function farthestFirstRows(rows: Matrix, m: number, options: FarthestFirstOptions = {}): Uint32Array {
  const { cols, data } = rows
  const numbers = options.among ?? Uint32Array.from({ length: rows.rows }, (_, i) => i)
  const n = numbers.length
  const { groupOf, starts, places } = byGroup(numbers, options.groups)
  const chosen: number[] = []
  // of each place among `numbers`: its nearest landmark so far, and the squared distance to it; one in a group without a
  // landmark counts as covered
  const nearest = new Uint32Array(n)
  const distances = new Float64Array(n)
  const landmarks = new Float64Array(m * cols)
  const choose = (row: number): void => {
    landmarks.set(data.subarray(row * cols, (row + 1) * cols), chosen.length * cols)
    chosen.push(row)
  }

  for (let group = 0; group < Math.min(starts.length - 1, m); group++) {
    const members = places.subarray(starts[group], starts[group + 1])
    if (members.length === 0) continue
    const row = centralRow(rows, numbers, members)
    for (const i of members) {
      nearest[i] = chosen.length
      distances[i] = squaredDistance(data, numbers[i]! * cols, data, row * cols, cols)
    }
    choose(row)
  }
  const between = new Float64Array(m)
  while (chosen.length < m) {
    let farthest = 0
    let largest = distances[0]!
    for (let i = 1; i < n; i++) {
      if (distances[i]! > largest) {
        largest = distances[i]!
        farthest = i
      }
    }
    if (!(largest > 0)) break
    const row = numbers[farthest]!
    const found = chosen.length
    squaredDistances(data, row * cols, landmarks, 0, found, cols, between, 0)
    const end = starts[groupOf[farthest]! + 1]!
    for (let at = starts[groupOf[farthest]!]!; at < end; at++) {
      const i = places[at]!
      // twice the distance is four times its square; the margin covers rounding, and beyond the largest number nothing is known
      const twice = 4 * distances[i]!
      if (twice < Number.POSITIVE_INFINITY && between[nearest[i]!]! * SAFE >= twice) continue
      const distance = squaredDistance(data, numbers[i]! * cols, data, row * cols, cols)
      if (distance < distances[i]!) {
        distances[i] = distance
        nearest[i] = found
      }
    }
    choose(row)
  }
  return Uint32Array.from(chosen)
}

/** Far more than rounding takes of a sum of squares. */
const SAFE = 0.999999

/** Places among `numbers` by group: those of group g from starts[g] to starts[g + 1], ascending. */
function byGroup(
  numbers: Uint32Array,
  groups: FarthestFirstOptions['groups'],
): { readonly groupOf: Uint32Array; readonly starts: Uint32Array; readonly places: Uint32Array } {
  const groupOf =
    groups === undefined ? new Uint32Array(numbers.length) : numbers.map((row) => groups.of[row]!)
  const starts = new Uint32Array((groups?.count ?? 1) + 1)
  for (const group of groupOf) starts[group + 1]!++
  for (let group = 1; group < starts.length; group++) starts[group]! += starts[group - 1]!
  const next = starts.slice()
  const places = new Uint32Array(numbers.length)
  groupOf.forEach((group, i) => {
    places[next[group]!++] = i
  })
  return { groupOf, starts, places }
}

/** The row nearest to the mean of those at these places. */
function centralRow({ cols, data }: Matrix, numbers: Uint32Array, places: Uint32Array): number {
  const mean = new Float64Array(cols)
  // shares are summed, since the sum itself may leave the range of numbers
  for (const i of places)
    for (let j = 0; j < cols; j++) mean[j]! += data[numbers[i]! * cols + j]! / places.length
  let central = numbers[places[0]!]!
  let smallest = Number.POSITIVE_INFINITY
  for (const i of places) {
    const distance = squaredDistance(data, numbers[i]! * cols, mean, 0, cols)
    if (distance < smallest) {
      smallest = distance
      central = numbers[i]!
    }
  }
  return central
}

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
import type { Matrix } from '@oddflow/core'
import { squaredDistance, squaredDistances } from '@oddflow/linalg'

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
  const { among, groups } = options
  const { cols, data } = rows
  const n = among?.length ?? rows.rows
  const numbers = among ?? Uint32Array.from({ length: n }, (_, i) => i)
  const groupOf = (i: number): number => groups?.of[numbers[i]!] ?? 0
  const count = Math.min(groups?.count ?? 1, m)
  const chosen: number[] = []
  // of each row: its nearest landmark so far, and the squared distance to it; a group without one counts as covered
  const nearest = new Uint32Array(n)
  const distances = new Float64Array(n)

  const centres = centralRows(rows, numbers, groupOf, count)
  const landmarkOfGroup = new Int32Array(groups?.count ?? 1).fill(-1)
  centres.forEach((centre, group) => {
    if (centre < 0) return
    landmarkOfGroup[group] = chosen.length
    chosen.push(centre)
  })
  for (let i = 0; i < n; i++) {
    const landmark = landmarkOfGroup[groupOf(i)]!
    if (landmark < 0) continue
    nearest[i] = landmark
    distances[i] = squaredDistance(data, numbers[i]! * cols, data, chosen[landmark]! * cols, cols)
  }

  const landmarks = new Float64Array(m * cols)
  chosen.forEach((row, j) => {
    landmarks.set(data.subarray(row * cols, (row + 1) * cols), j * cols)
  })
  const between = new Float64Array(m)
  while (chosen.length < m) {
    let farthest = 0
    for (let i = 1; i < n; i++) if (distances[i]! > distances[farthest]!) farthest = i
    if (!(distances[farthest]! > 0)) break
    const found = chosen.length
    const row = numbers[farthest]!
    const group = groupOf(farthest)
    squaredDistances(data, row * cols, landmarks, 0, found, cols, between, 0)
    for (let i = 0; i < n; i++) {
      if (groupOf(i) !== group) continue
      // twice the distance is four times its square; the margin covers rounding, and beyond the largest number nothing is known
      const twice = 4 * distances[i]!
      if (twice < Number.POSITIVE_INFINITY && between[nearest[i]!]! * SAFE >= twice) continue
      const distance = squaredDistance(data, numbers[i]! * cols, data, row * cols, cols)
      if (distance < distances[i]!) {
        distances[i] = distance
        nearest[i] = found
      }
    }
    landmarks.set(data.subarray(row * cols, (row + 1) * cols), found * cols)
    chosen.push(row)
  }
  return Uint32Array.from(chosen)
}

/** Far more than rounding takes of a sum of squares. */
const SAFE = 0.999999

/** Of each of the first `count` groups the row nearest to its mean, −1 where it has none. */
function centralRows(
  { cols, data }: Matrix,
  numbers: Uint32Array,
  groupOf: (i: number) => number,
  count: number,
): Int32Array {
  const sizes = new Float64Array(count)
  for (let i = 0; i < numbers.length; i++) if (groupOf(i) < count) sizes[groupOf(i)]!++
  const means = new Float64Array(count * cols)
  for (let i = 0; i < numbers.length; i++) {
    const group = groupOf(i)
    if (group >= count) continue
    // shares are summed, since the sum itself may leave the range of numbers
    for (let j = 0; j < cols; j++) means[group * cols + j]! += data[numbers[i]! * cols + j]! / sizes[group]!
  }
  const centres = new Int32Array(count).fill(-1)
  const smallest = new Float64Array(count).fill(Number.POSITIVE_INFINITY)
  for (let i = 0; i < numbers.length; i++) {
    const group = groupOf(i)
    if (group >= count) continue
    const distance = squaredDistance(data, numbers[i]! * cols, means, group * cols, cols)
    if (distance < smallest[group]! || centres[group]! < 0) {
      smallest[group] = distance
      centres[group] = numbers[i]!
    }
  }
  return centres
}

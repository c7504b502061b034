/**
 * Mean, population standard deviation and quartiles of packet sizes, as numpy has them to the last bit.
 *
 * The mean is exact but for its division, since sizes are whole numbers. The standard deviation is the root of
 * the mean squared difference, the squares summed in numpy's order: pairwise (blocks of 128, each in eight
 * lanes), which also keeps the rounding error small. Quartiles interpolate linearly.
 */
import { quantileOfSorted } from '../linear-quantile.js'

/**
 * Writes mean, standard deviation, q1, q2, q3, minimum and maximum of the first `count` sizes to `row[at …]`.
 * @param sizes - sorted when the call returns.
 * @param scratch - at least `count` numbers, overwritten.
 */
export function writeSizeStatistics(
  sizes: Float64Array,
  count: number,
  scratch: Float64Array,
  row: Float64Array,
  at: number,
): void {
  let sum = 0
  for (let j = 0; j < count; j++) sum += sizes[j]
  const mean = sum / count
  for (let j = 0; j < count; j++) scratch[j] = (sizes[j] - mean) * (sizes[j] - mean)
  const deviation = Math.sqrt(pairwiseSum(scratch, 0, count) / count)
  sortFirst(sizes, count)
  row[at] = mean
  row[at + 1] = deviation
  row[at + 2] = quantileOfSorted(sizes, count, 0.25)
  row[at + 3] = quantileOfSorted(sizes, count, 0.5)
  row[at + 4] = quantileOfSorted(sizes, count, 0.75)
  row[at + 5] = sizes[0]
  row[at + 6] = sizes[count - 1]
}

/** By insertion where few are to be sorted, since the call of a sort costs more than that. */
function sortFirst(values: Float64Array, count: number): void {
  if (count > 32) {
    values.subarray(0, count).sort()
    return
  }
  for (let j = 1; j < count; j++) {
    const value = values[j]
    let k = j - 1
    for (; k >= 0 && values[k] > value; k--) values[k + 1] = values[k]
    values[k + 1] = value
  }
}

/** Sum of `count` values from `at` on, in the order of numpy's pairwise summation. */
function pairwiseSum(values: Float64Array, at: number, count: number): number {
  if (count < 8) {
    let sum = 0
    for (let j = 0; j < count; j++) sum += values[at + j]
    return sum
  }
  if (count > 128) {
    let half = count >> 1
    half -= half % 8
    return pairwiseSum(values, at, half) + pairwiseSum(values, at + half, count - half)
  }
  const whole = at + count - (count % 8)
  let [a, b, c, d, e, f, g, h] = [0, 0, 0, 0, 0, 0, 0, 0]
  for (let j = at; j < whole; j += 8) {
    a += values[j]
    b += values[j + 1]
    c += values[j + 2]
    d += values[j + 3]
    e += values[j + 4]
    f += values[j + 5]
    g += values[j + 6]
    h += values[j + 7]
  }
  let sum = a + b + (c + d) + (e + f + (g + h))
  for (let j = whole; j < at + count; j++) sum += values[j]
  return sum
}

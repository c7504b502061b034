/**
 * Mean, population standard deviation and quartiles of packet sizes, as numpy has them to the last bit.
 *
 * The mean is exact but for its division, since sizes are whole numbers. The standard deviation is the root of
 * the mean squared difference, the squares summed in numpy's order: pairwise (blocks of 128, each in eight
 * lanes), which also keeps the rounding error small. Quartiles interpolate linearly.
 */
import { linearQuantile } from '../linear-quantile.js'

/** Writes mean, standard deviation, q1, q2, q3, minimum and maximum of `sizes[0 .. count)` to `row[at …]`. */
export function writeSizeStatistics(
  sizes: ArrayLike<number>,
  count: number,
  row: Float64Array,
  at: number,
): void {
  const sorted = new Float64Array(count)
  for (let j = 0; j < count; j++) sorted[j] = sizes[j]
  let sum = 0
  for (let j = 0; j < count; j++) sum += sorted[j]
  const mean = sum / count
  for (let j = 0; j < count; j++) sorted[j] = (sorted[j] - mean) * (sorted[j] - mean)
  const deviation = Math.sqrt(pairwiseSum(sorted, 0, count) / count)
  for (let j = 0; j < count; j++) sorted[j] = sizes[j]
  sorted.sort()
  row[at] = mean
  row[at + 1] = deviation
  row[at + 2] = linearQuantile(sorted, 0.25)
  row[at + 3] = linearQuantile(sorted, 0.5)
  row[at + 4] = linearQuantile(sorted, 0.75)
  row[at + 5] = sorted[0]
  row[at + 6] = sorted[count - 1]
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
  const lanes = [0, 0, 0, 0, 0, 0, 0, 0]
  const whole = count - (count % 8)
  for (let j = 0; j < whole; j += 8) {
    for (let k = 0; k < 8; k++) lanes[k] += values[at + j + k]
  }
  const [a, b, c, d, e, f, g, h] = lanes
  let sum = a + b + (c + d) + (e + f + (g + h))
  for (let j = whole; j < count; j++) sum += values[at + j]
  return sum
}

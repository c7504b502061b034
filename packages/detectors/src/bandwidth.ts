/**
 * Bandwidth: h as a quantile of the distances between training rows (paper, "Kernel Bandwidth h").
 *
 * A quantile of 0 makes no kernel, and neither does one whose square leaves the range of float64. Each has a cause
 * of its own and asks for something else: repeated rows, for fewer of them or a higher quantile; numbers too small
 * or too large to be squared, for another unit.
 */
import { DataError, type Matrix, type Rng } from '@oddflow/core'
import { equalPairShare, kernelExponentFactor, pairDistanceQuantiles } from '@oddflow/linalg'

export interface Bandwidth {
  readonly bandwidth: number
  /** Rows whose pairs were ranked. */
  readonly rowsUsed: number
}

/** Of the (scaled) rows, which are finite. Throws DataError when the quantile gives no usable bandwidth. */
export function chooseBandwidth(rows: Matrix, quantile: number, rng: Rng): Bandwidth {
  const { quantiles, rowsUsed } = pairDistanceQuantiles(rows, [quantile], rng.fork('bandwidth'))
  const bandwidth = quantiles[0]!
  const name = `the ${quantile}-quantile of pair distances`
  if (bandwidth === 0) {
    const share = equalPairShare(rows, rng.fork('bandwidth'))
    if (isZeroOfEqualRows(share, quantile, rowsUsed)) {
      const which = rowsUsed < rows.rows ? `a random ${rowsUsed} training rows` : 'training rows'
      throw refuse(
        `${name} is 0, because ${percentage(share)} of the pairs of ${which} are equal: ${equalRowsAdvice(share)}`,
      )
    }
    throw refuse(`${name} is 0 although the rows differ: ${TOO_SMALL}`)
  }
  try {
    kernelExponentFactor(bandwidth)
  } catch {
    throw refuse(`${name} is ${bandwidth}: ${bandwidth < 1 ? TOO_SMALL : TOO_LARGE}`)
  }
  return { bandwidth, rowsUsed }
}

const TOO_SMALL =
  'the squares of such small differences leave the range of float64; multiply the rows by a constant (a smaller unit), so that they differ by more than 1e-150'
const TOO_LARGE =
  'the squares of such large differences leave the range of float64; divide the rows by a constant (a larger unit), so that they differ by less than 1e150'

/** Whether the equal pairs, which come first, reach up to the quantile's rank among all. */
function isZeroOfEqualRows(share: number, quantile: number, rows: number): boolean {
  const pairs = (rows * (rows - 1)) / 2
  return Math.round(share * pairs) > Math.floor(quantile * (pairs - 1))
}

/** Never more than it is: 100 % means all. */
function percentage(share: number): string {
  return share < 1 ? `${(Math.floor(1000 * share) / 10).toFixed(1)} %` : '100 %'
}

function equalRowsAdvice(share: number): string {
  const above = Math.ceil(1000 * share) / 1000
  return above < 1
    ? `raise bandwidthQuantile above ${above.toFixed(3)} or remove repeated rows`
    : 'remove repeated rows'
}

function refuse(message: string): DataError {
  return new DataError(message, 'bandwidthQuantile')
}

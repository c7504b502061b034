/**
 * Bandwidth: h as a quantile of the distances between training rows (paper, "Kernel Bandwidth h").
 *
 * A quantile of 0 (more equal pairs of rows than the quantile asks for) makes no kernel, and so do numbers
 * whose squares leave the range; both are said, with what to do.
 */
import { DataError, type Matrix, type Rng } from '@oddflow/core'
import { equalPairShare, kernelExponentFactor, pairDistanceQuantiles } from '@oddflow/linalg'

export interface Bandwidth {
  readonly bandwidth: number
  /** Rows whose pairs were ranked. */
  readonly rowsUsed: number
}

/** Throws DataError when the quantile gives no usable bandwidth. */
export function chooseBandwidth(rows: Matrix, quantile: number, rng: Rng): Bandwidth {
  const { quantiles, rowsUsed } = pairDistanceQuantiles(rows, [quantile], rng.fork('bandwidth'))
  const bandwidth = quantiles[0]!
  if (bandwidth === 0) {
    const share = equalPairShare(rows, rng.fork('bandwidth'))
    const advice =
      share >= 1
        ? 'all training rows are equal, and one point is nothing to learn from: train on rows that differ'
        : `raise bandwidthQuantile above ${share.toFixed(3)} or remove repeated rows`
    throw new DataError(
      `the ${quantile}-quantile of pair distances is 0, because ${(100 * share).toFixed(1)} % of the pairs of training rows are equal: ${advice}`,
      'bandwidthQuantile',
    )
  }
  try {
    kernelExponentFactor(bandwidth)
  } catch {
    throw new DataError(
      `the ${quantile}-quantile of pair distances is ${bandwidth}, outside what a kernel can use: rescale the rows (for example scaler standard)`,
      'bandwidthQuantile',
    )
  }
  return { bandwidth, rowsUsed }
}

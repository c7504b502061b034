/**
 * Bandwidth: h as a quantile of the distances between training rows (paper, "Kernel Bandwidth h").
 *
 * Repeated rows can make the quantile 0. The rule `positive-pairs` then uses the quantile of the positive distances; if
 * all rows are equal, 1, or 2^−20 of the largest number if that is more. Under the other rules, and for a square out of
 * float64's range, an error names the remedy.
 */
import { DataError, type Matrix, type Rng } from '@oddflow/core'
import { equalPairShare, kernelExponentFactor, pairDistanceQuantiles } from '@oddflow/linalg'
import { NOTHING_SHARED, type SharedWork } from '../fit-rows.js'
import { SHARED_SETTINGS } from '../options.js'
import type { QuantileCompat } from '../parameters.js'

interface Bandwidth {
  readonly bandwidth: number
  /** Rows whose pairs were ranked. */
  readonly rowsUsed: number
  /** How repeated rows were handled; null without effect. */
  readonly note: string | null
}

/**
 * Which distances are ranked: of pairs of different rows (the positive ones if the quantile of all is 0), or the whole
 * matrix with its diagonal.
 */
export interface BandwidthRule {
  readonly quantileCompat: QuantileCompat
  readonly quantileRows: number
}

export const DEFAULT_BANDWIDTH_RULE: BandwidthRule = {
  quantileCompat: SHARED_SETTINGS.quantileCompat.byDefault,
  quantileRows: SHARED_SETTINGS.quantileRows.byDefault,
}

/** `rows` are scaled and finite. Throws DataError if the quantile gives no usable bandwidth. */
export function chooseBandwidth(
  rows: Matrix,
  quantile: number,
  rng: Rng,
  { quantileCompat, quantileRows }: BandwidthRule = DEFAULT_BANDWIDTH_RULE,
  shared: SharedWork = NOTHING_SHARED,
): Bandwidth {
  const rule = quantileCompat === 'authors' ? 'authors' : 'pairs'
  const asked = shared.quantiles.includes(quantile) ? shared.quantiles : [quantile]
  const { quantiles, rowsUsed } = shared.once('bandwidths', [rows, asked, rule, quantileRows], () =>
    pairDistanceQuantiles(rows, asked, rng.fork('bandwidth'), rule, quantileRows),
  )
  const found = quantiles[asked.indexOf(quantile)]!
  const repeats = found === 0 && quantileCompat === 'positive-pairs'
  const { bandwidth, note } = repeats
    ? positiveBandwidth(rows, quantile, rng, quantileRows)
    : { bandwidth: found, note: null }
  const name = `the ${quantile}-quantile of ${QUANTILE_OF[quantileCompat]}`
  if (bandwidth === 0) {
    const share = zeroShare(
      equalPairShare(rows, rng.fork('bandwidth'), quantileRows),
      rowsUsed,
      quantileCompat,
    )
    if (isZeroOfEqualRows(share, quantile, rowsUsed, quantileCompat)) {
      const which = rowsUsed < rows.rows ? `a random ${rowsUsed} training rows` : 'training rows'
      const of = quantileCompat !== 'authors' ? `the pairs of ${which}` : `the distances of ${which}`
      const are = quantileCompat !== 'authors' ? 'are equal' : 'are 0, the diagonal included'
      throw refuse(`${name} is 0, because ${percentage(share)} of ${of} ${are}: ${equalRowsAdvice(share)}`)
    }
    throw refuse(`${name} is 0 although the rows differ: ${TOO_SMALL}`)
  }
  try {
    kernelExponentFactor(bandwidth)
  } catch {
    throw refuse(`${name} is ${bandwidth}: ${bandwidth < 1 ? TOO_SMALL : TOO_LARGE}`)
  }
  return { bandwidth, rowsUsed, note }
}

/** For rows whose quantile of all pair distances is 0. */
function positiveBandwidth(
  rows: Matrix,
  quantile: number,
  rng: Rng,
  quantileRows: number,
): Pick<Bandwidth, 'bandwidth' | 'note'> {
  const share = equalPairShare(rows, rng.fork('bandwidth'), quantileRows)
  if (share === 1) {
    const largest = rows.data.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    const bandwidth = Math.max(1, LEAST_BANDWIDTH_SHARE * largest)
    const which = quantileRows < rows.rows ? `all of a random ${quantileRows} rows` : 'all rows'
    return { bandwidth, note: `${which} are equal: the bandwidth is ${bandwidth}` }
  }
  const ranked = Math.min(rows.rows, quantileRows)
  const pairs = (ranked * (ranked - 1)) / 2
  const zeros = Math.round(share * pairs)
  // the rank among the positive ones, counted from the smallest of all
  const among = Math.min(1, (zeros + quantile * (pairs - zeros - 1)) / Math.max(1, pairs - 1))
  const { quantiles } = pairDistanceQuantiles(rows, [among], rng.fork('bandwidth'), 'pairs', quantileRows)
  return {
    bandwidth: quantiles[0]!,
    note: `${percentage(share)} of the pairs of rows are equal: the bandwidth is the quantile of the others' distances`,
  }
}

/** 2^−20. */
const LEAST_BANDWIDTH_SHARE = 1 / 1_048_576

const TOO_SMALL =
  'the squares of such small differences leave the range of float64; multiply the rows by a constant (a smaller unit), so that they differ by more than 1e-150'
const TOO_LARGE =
  'the squares of such large differences leave the range of float64; divide the rows by a constant (a larger unit), so that they differ by less than 1e150'

/** In words, what a bandwidth is a quantile of. */
export const QUANTILE_OF: Readonly<Record<QuantileCompat, string>> = {
  pairs: 'pair distances',
  'positive-pairs': 'pair distances, of positive ones where that is 0',
  authors: 'all distances, each row to itself included',
}

/** Share of zeros among the ranked distances, from the share among different pairs. */
function zeroShare(equalPairs: number, rows: number, compat: QuantileCompat): number {
  return compat !== 'authors' ? equalPairs : (equalPairs * (rows - 1) + 1) / rows
}

/** Whether the equal pairs, which come first, include the quantile's rank among all. */
function isZeroOfEqualRows(share: number, quantile: number, rows: number, compat: QuantileCompat): boolean {
  const ranked = compat !== 'authors' ? (rows * (rows - 1)) / 2 : rows * rows
  return Math.round(share * ranked) > Math.floor(quantile * (ranked - 1))
}

/** Never more than it is: 100 % means all. */
function percentage(share: number): string {
  return share < 1 ? `${(Math.floor(1000 * share) / 10).toFixed(1)} %` : '100 %'
}

function equalRowsAdvice(share: number): string {
  const above = Math.ceil(1000 * share) / 1000
  const remove = 'remove repeated rows, or rank the distances above 0 alone (quantileCompat positive-pairs)'
  return above < 1 ? `raise bandwidthQuantile above ${above.toFixed(3)} or ${remove}` : remove
}

function refuse(message: string): DataError {
  return new DataError(message, 'bandwidthQuantile')
}

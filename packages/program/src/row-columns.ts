/**
 * What the columns of one row hold: most by their place alone, and in rows of IAT+SIZE by the flow's length too.
 *
 * A row iat1, size1, iat2, size2, … of p packets is D = 2p − 1 wide (packages/flows, feature-sets/iat-size.ts). A flow
 * of n < p packets ends with size(n) in column 2n − 2, which is iat(n) of a longer one, and zeros follow: there is
 * nothing there. One of p packets has size(p) in the last column, and one of more has iat(p) there.
 *
 * Of a row that a model remembers the packets are not known. No frame has a size of 0, so the last column that is not 0
 * tells n, and in the last column of all a whole number of at least a header's bytes is a size. (A time of so many whole seconds, or of microseconds in a contract that counts those, is mistaken for one.) Such a row
 * comes back from its scaler exact to rounding, so what is nearer to 0 than any time or size can be is 0.
 */
import { type FeatureColumn, type FeatureContract, featureColumns } from '@oddflow/core'

/** null where the row holds nothing: its flow is shorter. */
export type RowColumns = readonly (FeatureColumn | null)[]

const LEAST_FRAME_BYTES = 14
/** Times are of whole microseconds; in seconds, too. */
const ROUNDING = 1e-7

/** `packets` of the row's flow, null where nobody knows. */
export function createRowColumns(
  contract: FeatureContract,
): (row: Float64Array, packets: number | null) => RowColumns {
  const columns = featureColumns(contract)
  if (contract.featureSet !== 'iat-size') return () => columns
  const { packetsPerFlow } = contract
  const { name, unit } = columns[0]
  const iat = (n: number): FeatureColumn => ({ name: `${name.slice(0, -1)}${n}`, unit })
  const last = columns.length - 1
  return (row, packets) => {
    const end = packets === null ? lastColumnOf(row) : Math.min(last, 2 * packets - 2)
    const isLonger = packets === null ? !isSize(row[last]) : packets > packetsPerFlow
    return columns.map((column, at) => {
      if (at % 2 === 1) return at <= end ? column : null
      const number = at / 2 + 1
      // a row that ends with a size in a column of sizes goes on: the time after it, in the last column, is 0
      if (at === last && end >= last - 1) return isLonger ? iat(number) : column
      if (at > end) return null
      return at === end ? { name: `size${number}`, unit: 'bytes' } : iat(number)
    })
  }
}

function lastColumnOf(row: Float64Array): number {
  for (let at = row.length - 1; at >= 0; at--) if (Math.abs(row[at]) > ROUNDING) return at
  return -1
}

function isSize(value: number): boolean {
  return value > LEAST_FRAME_BYTES - 0.5 && Math.abs(value - Math.round(value)) <= ROUNDING
}

/**
 * OnlineRows: what watched devices have shown since their owner's model learnt last, `everyRows` at most.
 *
 * A device teaches `rowsPerHour` rows of an hour of its traffic at most (createLearningBudget of @oddflow/detectors), so
 * that whoever talks most has no more say. A row that comes while the owner's rows are full (its turn in the thread has
 * not come) is let go. Both are counted. Rows are copies, 8D bytes each, and are not kept over a restart: fewer than
 * `everyRows` of an owner.
 */
import { createLearningBudget } from '@oddflow/detectors'

export interface OnlineRows {
  /** D numbers of a device of this owner, which are copied or let go. */
  add(owner: string, device: string, row: Float64Array, atMicros: number): void
  isFull(owner: string): boolean
  /** n × D, and the owner begins again. */
  take(owner: string): Float64Array
  /** What was shown is let go. */
  drop(owner: string): void
  /** Rows that the budget let go. */
  readonly overBudget: number
  /** Rows that found no place. */
  readonly crowded: number
}

export interface OnlineShape {
  readonly dimension: number
  readonly everyRows: number
  readonly rowsPerHour: number
  readonly maximumDevices: number
}

export function createOnlineRows({
  dimension,
  everyRows,
  rowsPerHour,
  maximumDevices,
}: OnlineShape): OnlineRows {
  const budget = createLearningBudget(rowsPerHour, maximumDevices)
  const shown = new Map<string, { readonly rows: Float64Array; count: number }>()
  let crowded = 0
  return {
    add(owner, device, row, atMicros) {
      let of = shown.get(owner)
      if (of !== undefined && of.count >= everyRows) {
        crowded++
        return
      }
      if (!budget.take(device, atMicros)) return
      if (of === undefined) {
        of = { rows: new Float64Array(everyRows * dimension), count: 0 }
        shown.set(owner, of)
      }
      of.rows.set(row, dimension * of.count++)
    },
    isFull: (owner) => shown.get(owner)?.count === everyRows,
    take(owner) {
      const of = shown.get(owner)
      if (of === undefined) return new Float64Array(0)
      const rows = of.rows.slice(0, dimension * of.count)
      of.count = 0
      return rows
    },
    drop: (owner) => void shown.delete(owner),
    get overBudget() {
      return budget.refused
    },
    get crowded() {
      return crowded
    },
  }
}

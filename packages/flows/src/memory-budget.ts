/**
 * MemoryBudget: how many bytes the columns of one extractor may take, and who decides what happens beyond.
 *
 * Columns grow by doubling while the budget allows it, then by an eighth, then not at all: the table is full
 * and its owner ends a flow (scoring) or refuses (training). While a column grows,
 * its old half is still there: the peak is up to half as much again as the budget.
 */
export class MemoryBudget {
  readonly limitBytes: number
  usedBytes = 0

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes
  }

  /**
   * The largest of twice and 9/8 of `count` units whose bytes fit, now reserved; `count` itself if neither does.
   * @param bytesOf - bytes that so many units take.
   */
  reserveMore(count: number, bytesOf: (count: number) => number): number {
    const before = bytesOf(count)
    for (const next of [2 * count, count + (count >> 3)]) {
      const more = bytesOf(next) - before
      if (next > count && next <= MAXIMUM_UNITS && this.usedBytes + more <= this.limitBytes) {
        this.usedBytes += more
        return next
      }
    }
    return count
  }
}

/** Flows or chunks: ten key words of each must be within what one typed array can hold. */
const MAXIMUM_UNITS = 100_000_000

/**
 * TailScores: the number of scores in a long stream and the lowest of them, in bounded memory, to calibrate a
 * threshold.
 *
 * A conformal threshold at a small rate is a low order statistic, and a tail fit uses at most the lowest tenth, so of
 * the other scores only the count matters. The lowest are in a binary heap with the largest on top, so most scores cost
 * one comparison. The order of the scores does not matter.
 */
import { ArgumentError, DataError } from '@oddflow/core'

/** Plain data. */
export interface TailScores {
  /** n, all scores that were seen. */
  readonly count: number
  /** The lowest scores, ascending; all scores if they fit. */
  readonly lowest: Float64Array
}

/** Counts the scores of a stream and keeps the lowest, in bounded memory. */
export interface TailScoreCollector {
  /** Throws DataError for a score that is not finite. */
  add(score: number): void
  readonly count: number
  /** A copy. */
  snapshot(): TailScores
}

/** Kept by default: 32 KiB. */
export const TAIL_CAPACITY = 4096

/**
 * @param earlier - the state to continue from; throws ArgumentError if no collector of this capacity could have made
 * it.
 */
export function createTailScoreCollector(
  capacity: number = TAIL_CAPACITY,
  earlier: TailScores = { count: 0, lowest: new Float64Array(0) },
): TailScoreCollector {
  if (!Number.isSafeInteger(capacity) || capacity < 1) {
    throw new ArgumentError(`capacity: expected a whole number of 1 or more, found ${capacity}`, 'capacity')
  }
  checkTailScores(earlier)
  const kept = Math.min(capacity, earlier.count)
  if (earlier.lowest.length < kept) {
    throw new ArgumentError(
      `earlier.lowest: expected ${kept} scores, found ${earlier.lowest.length}`,
      'earlier.lowest',
    )
  }
  const heap = new Float64Array(capacity)
  // descending order is a heap already
  for (let i = 0; i < kept; i++) heap[i] = earlier.lowest[kept - 1 - i]!
  let size = kept
  let { count } = earlier

  const siftUp = (value: number): void => {
    let at = size++
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (heap[parent]! >= value) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = value
  }
  const replaceTop = (value: number): void => {
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= size) break
      if (child + 1 < size && heap[child + 1]! > heap[child]!) child++
      if (heap[child]! <= value) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = value
  }
  return {
    add(score) {
      if (!Number.isFinite(score)) throw new DataError(`score: expected a finite number, found ${score}`)
      count++
      if (size < capacity) siftUp(score)
      else if (score < heap[0]!) replaceTop(score)
    },
    get count() {
      return count
    },
    snapshot: () => ({ count, lowest: heap.slice(0, size).sort() }),
  }
}

/** Throws ArgumentError. */
export function checkTailScores({ count, lowest }: TailScores): void {
  const fail = (field: string, expected: string, found: unknown): never => {
    throw new ArgumentError(`${field}: expected ${expected}, found ${found}`, field)
  }
  if (!Number.isSafeInteger(count) || count < 0) fail('count', 'a whole number of 0 or more', count)
  if (lowest.length > count || (count > 0 && lowest.length === 0)) {
    fail('lowest', `1 to ${count} scores`, lowest.length)
  }
  for (let i = 0; i < lowest.length; i++) {
    if (!Number.isFinite(lowest[i])) fail('lowest', 'finite scores', lowest[i])
    if (i > 0 && lowest[i]! < lowest[i - 1]!) fail('lowest', 'ascending scores', lowest[i])
  }
}

/**
 * ADWIN: has the mean of a stream of numbers in [0, 1] changed, and since when?
 *
 * Bifet and Gavaldà, "Learning from time-changing data with adaptive windowing", SIAM SDM 2007, in its second version:
 * the window is kept in buckets of 1, 2, 4, … numbers, MAXIMUM_BUCKETS of each size, so it takes O(log n) memory. When
 * some split of it into an older and a newer part has means that differ by more than
 *
 *     ε = √(2/m · σ² · ln(2/δ')) + 2/(3m) · ln(2/δ'),   1/m = 1/n₀ + 1/n₁,  δ' = δ / ln n
 *
 * (their equation 3.1, σ² the variance of the whole window) the oldest bucket is dropped, and so on. Without a change
 * the share of false alarms is at most δ. Splits are tried every CHECK_EVERY numbers.
 */
import { log } from '@oddflow/core'

const MAXIMUM_BUCKETS = 5
const CHECK_EVERY = 32
/** Numbers that either part must have. */
const LEAST_PART = 5

export interface Adwin {
  /** True when the window was cut: the mean has changed. */
  add(value: number): boolean
  readonly count: number
  readonly mean: number
  /** Numbers dropped at the last cut's end: the change came after so many. 0 before any cut. */
  readonly dropped: number
}

interface Bucket {
  sum: number
  /** Σ (v − mean)² within. */
  scatter: number
}

/** `delta` in (0, 1), the confidence. */
export function createAdwin(delta: number): Adwin {
  /** rows[i] holds buckets of 2^i numbers, the newest first. */
  const rows: Bucket[][] = [[]]
  /** 2^i. */
  const sizes = [1]
  let count = 0
  let sum = 0
  let scatter = 0
  let dropped = 0
  let sinceCheck = 0

  const insert = (value: number): void => {
    if (count > 0) {
      const difference = value - sum / count
      scatter += (difference * difference * count) / (count + 1)
    }
    rows[0]!.unshift({ sum: value, scatter: 0 })
    count++
    sum += value
    for (let i = 0; i < rows.length && rows[i]!.length > MAXIMUM_BUCKETS; i++) {
      const older = rows[i]!.pop()!
      const newer = rows[i]!.pop()!
      const size = sizes[i]!
      const difference = (older.sum - newer.sum) / size
      if (rows.length === i + 1) {
        rows.push([])
        sizes[i + 1] = 2 * size
      }
      rows[i + 1]!.unshift({
        sum: older.sum + newer.sum,
        scatter: older.scatter + newer.scatter + (difference * difference * size) / 2,
      })
    }
  }

  const dropOldest = (): void => {
    const i = rows.length - 1
    const bucket = rows[i]!.pop()!
    if (rows[i]!.length === 0 && i > 0) rows.pop()
    const size = sizes[i]!
    const rest = count - size
    if (rest > 0) {
      const difference = bucket.sum / size - (sum - bucket.sum) / rest
      scatter = Math.max(0, scatter - bucket.scatter - (difference * difference * size * rest) / count)
    } else scatter = 0
    count = rest
    sum -= bucket.sum
    dropped += size
  }

  const differs = (): boolean => {
    let olderCount = 0
    let olderSum = 0
    const variance = scatter / count
    const confidence = log((2 * Math.max(1, log(count))) / delta)
    for (let i = rows.length - 1; i >= 0; i--) {
      for (let b = rows[i]!.length - 1; b >= 0; b--) {
        olderCount += sizes[i]!
        olderSum += rows[i]![b]!.sum
        const newerCount = count - olderCount
        if (newerCount < LEAST_PART) return false
        if (olderCount < LEAST_PART) continue
        const difference = Math.abs(olderSum / olderCount - (sum - olderSum) / newerCount)
        const inverse = 1 / olderCount + 1 / newerCount
        const bound = Math.sqrt(2 * inverse * variance * confidence) + (2 / 3) * inverse * confidence
        if (difference > bound) return true
      }
    }
    return false
  }

  return {
    add(value) {
      insert(value)
      if (++sinceCheck < CHECK_EVERY) return false
      sinceCheck = 0
      let cut = false
      while (count > 2 * LEAST_PART && differs()) {
        dropOldest()
        cut = true
      }
      return cut
    },
    get count() {
      return count
    },
    get mean() {
      return count === 0 ? 0 : sum / count
    },
    get dropped() {
      return dropped
    },
  }
}

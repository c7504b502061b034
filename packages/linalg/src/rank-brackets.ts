/**
 * RankBrackets: order statistics of a stream that can be replayed, in little memory.
 *
 * Floyd and Rivest's idea ("Expected time bounds for selection", 1975) for data that are cheaper to compute
 * again than to keep: a sorted sample says between which two of its values a rank lies almost surely; one
 * pass counts what is below and keeps what is inside; the counts prove the bracket right or say to which side
 * to widen it. The result is exact whatever the sample was. Values equal to an edge are counted, not kept.
 * Ranks whose brackets overlap share one.
 */
import { selectValue } from './select-value.js'

interface Bracket {
  low: number
  high: number
  /** Ranks still wanted in here. */
  ranks: number[]
  below: number
  atLow: number
  atHigh: number
  kept: Float64Array
  keptCount: number
}

export class RankBrackets {
  private brackets: Bracket[] = []
  private readonly found = new Map<number, number>()
  private margin: number
  private readonly total: number
  private readonly sample: Float64Array
  private pending: number[]

  /** `ranks` from 0, ascending, of `total` values of which `sample` is a sorted part. */
  constructor(ranks: readonly number[], total: number, sample: Float64Array) {
    this.pending = [...ranks]
    this.total = total
    this.sample = sample
    // about six standard errors of a sample rank
    this.margin = 3 * Math.sqrt(sample.length) + 2
  }

  get settled(): boolean {
    return this.pending.length === 0
  }

  beginPass(): void {
    const { sample, total, margin } = this
    const s = sample.length
    this.brackets = []
    for (const rank of this.pending) {
      const at = (rank / total) * s
      const lowIndex = Math.floor(at - margin)
      const highIndex = Math.ceil(at + margin)
      const low = lowIndex < 0 ? Number.NEGATIVE_INFINITY : sample[lowIndex]!
      const high = highIndex >= s ? Number.POSITIVE_INFINITY : sample[highIndex]!
      const last = this.brackets[this.brackets.length - 1]
      if (last !== undefined && low <= last.high) {
        last.high = Math.max(last.high, high)
        last.ranks.push(rank)
      } else {
        const kept = new Float64Array(1024)
        this.brackets.push({ low, high, ranks: [rank], below: 0, atLow: 0, atHigh: 0, kept, keptCount: 0 })
      }
    }
  }

  /** Takes values[start … start + count). */
  add(values: Float64Array, start: number, count: number): void {
    for (const bracket of this.brackets) addTo(bracket, values, start, count)
  }

  endPass(): void {
    const missed: number[] = []
    for (const bracket of this.brackets) {
      const { below, atLow, atHigh, kept, keptCount } = bracket
      // ranks ascend, and what is selected stays in its place: the next is sought behind it
      let first = 0
      for (const rank of bracket.ranks) {
        const r = rank - below
        if (r < 0 || r >= atLow + keptCount + atHigh) missed.push(rank)
        else if (r < atLow) this.found.set(rank, bracket.low)
        else if (r < atLow + keptCount) {
          this.found.set(rank, selectValue(kept, first, keptCount - 1, r - atLow))
          first = r - atLow
        } else this.found.set(rank, bracket.high)
      }
    }
    this.brackets = []
    this.pending = missed
    this.margin *= 8
  }

  values(): Map<number, number> {
    return this.found
  }
}

/**
 * No branch depends on a value: among random ones a processor guesses such branches wrong a third of the time,
 * which costs more than the four comparisons. Every value is written to the next free place of `kept` and the
 * place is taken only if the value lies strictly inside.
 */
function addTo(bracket: Bracket, values: Float64Array, start: number, count: number): void {
  const { low, high } = bracket
  let { kept, keptCount } = bracket
  if (keptCount + count > kept.length) {
    kept = new Float64Array(Math.max(2 * kept.length, keptCount + count))
    kept.set(bracket.kept.subarray(0, keptCount))
    bracket.kept = kept
  }
  let below = 0
  let upToLow = 0
  let upToHigh = 0
  const keepOne = low < high ? 1 : 0
  const end = start + count
  for (let i = start; i < end; i++) {
    const v = values[i]!
    const notAboveLow = Number(v <= low)
    below += Number(v < low)
    upToLow += notAboveLow
    upToHigh += Number(v <= high)
    kept[keptCount] = v
    keptCount += (Number(v < high) - notAboveLow) & keepOne
  }
  const inside = keptCount - bracket.keptCount
  bracket.below += below
  bracket.atLow += upToLow - below
  bracket.atHigh += upToHigh - upToLow - inside
  bracket.keptCount = keptCount
}

/** How rare a score is among normal flows, by what the model keeps of its training. */
import { type SavedModel, tailShare } from '@oddflow/detectors'

/** The conformal p-value of a score, or a bound on it. */
export interface Rarity {
  /** At most this share of normal flows has a score as low. */
  readonly atMost: number
  /** Normal flows that say so. */
  readonly flows: number
}

/**
 * Of a score that is novel. A model that held its training flows out keeps how low they scored; of others no more is known than the
 * threshold, and what is not above it is as rare as that.
 */
export function scoreRarity(
  { threshold, groups }: Pick<SavedModel, 'threshold' | 'groups'>,
  score: number,
): Rarity {
  const { rows, bound } = threshold.calibration
  if (groups === undefined) return { atMost: bound, flows: rows }
  const held = tailShare(groups, score) * (rows + 1)
  // the table is linear between some of the flows: as many as the next of them has
  const asLow = held < 1 - ROUNDING ? 0 : Math.ceil(held - ROUNDING)
  return { atMost: Math.min(1, (1 + asLow) / (rows + 1)), flows: rows }
}

const ROUNDING = 1e-6

/** "rarer than 1 flow in 1,600"; null for what is not rare, or where no flow was compared. */
export function rarityText({ atMost, flows }: Rarity): string | null {
  const one = 1 / atMost
  if (flows === 0 || !(one >= 10)) return null
  const step = 10 ** Math.max(0, Math.floor(Math.log10(one)) - 1)
  return `rarer than 1 flow in ${(Math.floor(one / step) * step).toLocaleString('en-US')}`
}

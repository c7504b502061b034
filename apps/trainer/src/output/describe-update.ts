/** What `update` did, in lines: what was learnt and what not, how the model grew, and why the guard refused. */
import { plural } from '@oddflow/core'
import type { GuardBounds, LearningCounters, RoundReport, SavedModel } from '@oddflow/detectors'
import { printable } from '@oddflow/program'

type Counted = 'novel' | 'learnt' | 'heldBack' | 'held' | 'confirmed' | 'disregarded' | 'refused' | 'rounds'

interface UpdateSummary extends Pick<LearningCounters, Counted> {
  readonly model: string
  readonly bytes: number
  readonly rows: number
  readonly novelToFrozen: number
  readonly components: number
  readonly componentsBefore: number
  readonly landmarks: number
  readonly landmarksBefore: number
  readonly threshold: number
  readonly thresholdBefore: number
}

export function describeUpdate(s: UpdateSummary): string[] {
  const lines = [
    `${printable(s.model)}: ${s.bytes} bytes`,
    `  rows        ${s.rows}: ${s.novel} novel as they came, ${s.novelToFrozen} to the model as it was trained`,
    `  learnt      ${s.learnt} in ${plural(s.rounds, 'round')}; ${s.heldBack} kept for the threshold, ${s.held} held, ${s.confirmed} confirmed, ${s.disregarded} disregarded, ${s.refused} refused`,
    `  mixture     ${s.componentsBefore} → ${plural(s.components, 'Gaussian')}`,
  ]
  if (s.landmarks > 0) lines.push(`  embedding   ${s.landmarksBefore} → ${plural(s.landmarks, 'landmark')}`)
  lines.push(`  threshold   ${s.thresholdBefore.toPrecision(8)} → ${s.threshold.toPrecision(8)}`)
  return lines
}

interface EnsembleUpdateSummary {
  readonly model: string
  readonly bytes: number
  readonly rows: number
  readonly odd: number
  readonly novelBefore: number
  readonly novelAfter: number
  readonly threshold: number
  readonly thresholdBefore: number
}

export function describeEnsembleUpdate(s: EnsembleUpdateSummary): string[] {
  const odd = s.odd === 0 ? '' : `; ${plural(s.odd, 'row')} unlike all others, not learnt`
  return [
    `${printable(s.model)}: ${s.bytes} bytes`,
    `  rows        ${s.rows}: ${s.novelBefore} novel before, ${s.novelAfter} after${odd}`,
    `  threshold   ${s.thresholdBefore.toPrecision(8)} → ${s.threshold.toPrecision(8)}`,
  ]
}

/** `guard`: the bounds that the model learns within, given now or remembered. */
export function whyRefused(rounds: readonly RoundReport[], guard: GuardBounds | null): string {
  const refused = rounds.filter((round) => round.refused && round.reason !== 'overflow')
  const lifted = Math.max(...refused.map((round) => round.lifted))
  const moved = Math.max(...refused.map((round) => round.moved))
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const reasons = [
    ...(guard !== null && lifted > guard.lifted
      ? [`up to ${percent(lifted)} of the rows that must stay novel would pass for normal`]
      : []),
    ...(guard !== null && moved > guard.moved
      ? [`up to ${percent(moved)} of the rows known to be normal would pass for novel`]
      : []),
  ]
  if (refused.length < rounds.filter((round) => round.refused).length) {
    reasons.push('sums of what it would have learnt are not finite')
  }
  return reasons.join(', and ')
}

export function componentsOf({ detector }: SavedModel): number {
  return 'mixture' in detector ? detector.mixture.weights.length : 0
}

export function landmarksOf({ detector }: SavedModel): number {
  return 'embedding' in detector ? detector.embedding.landmarks.rows : 0
}

/**
 * The end of a round: everything that is not done for each arrival.
 *
 *     1. landmarks       new ones where it is time, the mixture carried into the new embedding
 *     2. new components  for the novel rows that are to be learnt (the paper source's "Online GMM")
 *     3. convergence     over the reservoir and the base
 *     4. fewer           dead components removed
 *     5. guard tables    of the support guard, over what is kept and what was before
 *     6. threshold       from the rows held back
 *     7. poisoning       refused when known-novel rows pass, or known-normal ones no longer do
 *
 * In the text's loop a round is a batch, its reservoir has every row, and its threshold is a quantile of stored
 * densities; those are used here in step 2, which wants a threshold of its own between components.
 */
import type { Matrix, Rng } from '@oddflow/core'
import { convergeMixture } from './incremental-em.js'
import type { LearningWork } from './learning-work.js'
import { copyStatistics } from './mixture-statistics.js'
import { passingScore, shareThatIs } from './poisoning-guard.js'
import { type ComponentCounts, learnPending, removeDead } from './round-components.js'
import { type SketchChange, updateSketch } from './round-sketch.js'
import { updateGuardTables, updateThreshold } from './round-tables.js'

export interface RoundReport {
  readonly round: number
  readonly emSteps: number
  readonly converged: boolean
  readonly components: number
  readonly componentsAdded: number
  readonly componentsRemoved: number
  readonly componentsMerged: number
  readonly sketch: SketchChange
  /** m; 0 without an embedding. */
  readonly landmarks: number
  readonly bandwidth: number | null
  readonly threshold: number
  /** Share of the known-novel rows that pass for normal, and of the known-normal ones that pass for novel; 0 after an overflow. */
  readonly lifted: number
  readonly moved: number
  /** Whether it is undone, … */
  readonly refused: boolean
  /** … and why: what the guard says, or sums that have left the finite numbers; null otherwise. */
  readonly reason: 'guard' | 'overflow' | null
}

/** Everything but the undoing; `work` is changed. */
export function endRound(work: LearningWork, rng: Rng): RoundReport {
  const { counters, options } = work
  const counts: ComponentCounts = { added: 0, removed: 0, merged: 0 }
  const round = counters.rounds + 1
  let sketch: SketchChange = 'kept'
  let added = 0
  let convergence = { steps: 0, converged: false }
  const taught = work.roundLearnt + work.pending.count
  work.attempt(() => {
    sketch = updateSketch(work, round, rng)
    added = learnPending(work, counts, rng)
    convergence = convergeRound(work)
    removeDead(work, counts)
    updateGuardTables(work)
    updateThreshold(work)
  })
  const { steps, converged } = convergence
  counters.rounds = round
  // what was to be learnt in a round that is undone is refused, however far it came
  counters.learnt += work.overflowed ? taught : work.roundLearnt
  counters.componentsAdded += counts.added
  counters.componentsRemoved += counts.removed
  counters.componentsMerged += counts.merged
  if ((sketch as SketchChange) !== 'kept') counters.sketchUpdates++
  work.roundArrivals = 0
  work.roundAssumed = true
  work.roundLearnt = 0
  const { lifted, moved } = work.overflowed ? { lifted: 0, moved: 0 } : knownShares(work)
  const { guard } = options
  const embedding = 'embedding' in work.model ? work.model.embedding : null
  const isAgainst = guard !== null && (lifted > guard.lifted || moved > guard.moved)
  const reason = work.overflowed ? 'overflow' : isAgainst ? 'guard' : null
  return {
    round,
    emSteps: steps,
    converged,
    components: work.mixture.weights.length,
    componentsAdded: added,
    componentsRemoved: counts.removed,
    componentsMerged: counts.merged,
    sketch,
    landmarks: embedding?.landmarks.rows ?? 0,
    bandwidth: embedding?.bandwidth ?? null,
    threshold: work.threshold.value,
    lifted,
    moved,
    refused: reason !== null,
    reason,
  }
}

/** EM to convergence: Method 1 once a round, Method 2 after each arrival too. Throws StatisticsError, `work` as it was. */
export function convergeRound(work: LearningWork): { readonly steps: number; readonly converged: boolean } {
  const { model, regularisation } = work
  const em = 'embedding' in model ? model.parameters.em : model.parameters
  const { tolerance, maximumSteps } = em
  const { mixture, statistics, steps, converged } = convergeMixture(
    work.mixture,
    work.base,
    work.keptPoints,
    {
      tolerance,
      maximumSteps,
      regularisation,
    },
  )
  work.statistics = copyStatistics(statistics)
  work.mixture = mixture
  return { steps, converged }
}

function knownShares(work: LearningWork): Pick<RoundReport, 'lifted' | 'moved'> {
  const normal = knownScores(work, work.knownNormal)
  return {
    lifted: shareThatIs(true, knownScores(work, work.knownNovel), passingScore(normal)),
    moved: shareThatIs(false, normal, work.threshold.value),
  }
}

function knownScores(work: LearningWork, rows: Matrix): Float64Array {
  return work.scored(rows.data, rows.rows).scores
}

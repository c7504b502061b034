/** A worker thread of the search: tries the candidates of one group after another and says what came of each. */
import { createRng, type Matrix } from '@oddflow/core'
import type { RowOrigin } from '@oddflow/detectors'
import {
  type Candidate,
  type CandidateResult,
  createCandidateTrial,
  type ValidationRows,
} from '@oddflow/evaluation'
import { serveJobs } from '@oddflow/program'

export interface SelectionWork {
  readonly train: Matrix
  /** Of the rows of `train`. */
  readonly origin: RowOrigin
  readonly validation: ValidationRows
  readonly candidates: readonly Candidate[]
  readonly seed: number
  /** Forks of the seed's Rng that lead to the one that is fitted with. */
  readonly stream: readonly string[]
}

export interface CandidateNews {
  readonly index: number
  readonly result: CandidateResult
}

serveJobs<readonly number[], CandidateNews>(
  ({ train, origin, validation, candidates, seed, stream }: SelectionWork) => {
    const rng = stream.reduce((from, label) => from.fork(label), createRng(seed))
    const attempt = createCandidateTrial(train, validation, candidates, rng, origin)
    return (group, say) => {
      for (const index of group) say({ index, result: attempt(index) })
    }
  },
)

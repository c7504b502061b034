/**
 * The search in worker threads. The rows lie in memory that all threads share, so they are there once whatever the
 * number of threads; a result belongs to its candidate, so the choice is the same whatever the order they come in.
 */
import { availableParallelism } from 'node:os'
import type { Matrix } from '@oddflow/core'
import { bestCandidate, type CandidateResult, candidateGroups, type Selection } from '@oddflow/evaluation'
import { runInWorkers } from '@oddflow/program'
import type { CandidateNews, SelectionWork } from './selection-worker.js'

interface SearchOptions {
  /** Threads; one a processor where it is undefined. */
  readonly jobs: number | undefined
  /** So many candidates have been tried. */
  readonly onProgress: (done: number) => void
}

/** Throws DataError where no candidate could be fitted, and as `runInWorkers`. */
export async function selectInWorkers(
  work: SelectionWork,
  { jobs = availableParallelism(), onProgress }: SearchOptions,
): Promise<Selection> {
  const { train, validation, candidates } = work
  const results: CandidateResult[] = new Array(candidates.length)
  let done = 0
  await runInWorkers<readonly number[], CandidateNews>(candidateGroups(candidates), {
    script: new URL('./selection-worker.js', import.meta.url),
    workers: jobs,
    data: {
      ...work,
      train: inSharedMemory(train),
      validation: { ...validation, rows: inSharedMemory(validation.rows) },
    } satisfies SelectionWork,
    onSaid({ index, result }) {
      results[index] = result
      onProgress(++done)
    },
  })
  return { best: bestCandidate(results), results }
}

function inSharedMemory({ rows, cols, data }: Matrix): Matrix {
  const shared = new Float64Array(new SharedArrayBuffer(data.byteLength))
  shared.set(data)
  return { rows, cols, data: shared }
}

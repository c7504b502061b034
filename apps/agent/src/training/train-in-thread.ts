/**
 * A training, or a round of learning on, in a thread of its own, within a time and a heap: packets go on being taken
 * meanwhile, a fit that takes too long is ended, and all memory that it took goes with the thread. One at a time is its
 * caller's business.
 */
import { runInWorkers } from '@oddflow/program'
import type { TrainedRows, TrainingJob } from '../models/train.js'
import type { LearningJob, LearntRows } from '../models/update.js'

/** Old space of the thread's heap; the numbers lie outside it, and are bounded by the rows (memory-plan.ts). */
const HEAP_MEBIBYTES = 32

/** Rejects with an OddFlowError that says why there is no model. */
export function trainInThread(
  job: TrainingJob,
  withinSeconds: number,
  stop: AbortSignal,
): Promise<TrainedRows> {
  return inThread<TrainingJob, TrainedRows>(job, withinSeconds, stop)
}

/** Rejects with an OddFlowError that says why nothing was learnt. */
export function learnInThread(
  job: LearningJob,
  withinSeconds: number,
  stop: AbortSignal,
): Promise<LearntRows> {
  return inThread<LearningJob, LearntRows>(job, withinSeconds, stop)
}

async function inThread<Job, Said>(job: Job, withinSeconds: number, stop: AbortSignal): Promise<Said> {
  const limit = AbortSignal.timeout(1000 * withinSeconds)
  let result: Said | null = null
  await runInWorkers<Job, Said>([job], {
    script: new URL('./training-worker.js', import.meta.url),
    workers: 1,
    data: null,
    signal: AbortSignal.any([limit, stop]),
    heapMebibytes: HEAP_MEBIBYTES,
    onSaid: (said) => {
      result = said
    },
  })
  return result as unknown as Said
}

/**
 * A training in a thread of its own, within a time and a heap: packets go on being taken meanwhile, a fit that takes
 * too long is ended, and all memory that it took goes with the thread. One at a time is its caller's business.
 */
import { runInWorkers } from '@oddflow/program'
import type { TrainedRows, TrainingJob } from './train-rows.js'

/** Old space of the thread's heap; the numbers lie outside it, and are bounded by the rows (memory-plan.ts). */
const HEAP_MEBIBYTES = 32

/** Rejects with an OddFlowError that says why there is no model. */
export async function trainInThread(
  job: TrainingJob,
  withinSeconds: number,
  stop: AbortSignal,
): Promise<TrainedRows> {
  const limit = AbortSignal.timeout(1000 * withinSeconds)
  let trained: TrainedRows | null = null
  await runInWorkers<TrainingJob, TrainedRows>([job], {
    script: new URL('./training-worker.js', import.meta.url),
    workers: 1,
    data: null,
    signal: AbortSignal.any([limit, stop]),
    heapMebibytes: HEAP_MEBIBYTES,
    onSaid: (said) => {
      trained = said
    },
  })
  return trained as unknown as TrainedRows
}

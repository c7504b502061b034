/**
 * A pool of worker threads over a list of jobs. Each trial is handed on as soon as it is there, in whatever order
 * they end; a job that fails is kept with its reason and the others go on.
 */
import { decodeTrial, type Trial } from '@oddflow/evaluation'
import { runInWorkers } from '@oddflow/program'
import type { Job, RunSettings } from './job.js'
import type { WorkerAnswer } from './worker.js'

interface RunJobsOptions {
  readonly workers: number
  readonly settings: RunSettings
  onTrial(trial: Trial, job: Job): void
  onFailure(job: Job, reason: string): void
}

/** Throws what `onTrial` throws, and a fault in the program itself, after stopping all threads. */
export function runJobs(
  jobs: readonly Job[],
  { workers, settings, onTrial, onFailure }: RunJobsOptions,
): Promise<void> {
  return runInWorkers<Job, WorkerAnswer>(jobs, {
    script: new URL('./worker.js', import.meta.url),
    workers,
    data: settings,
    onSaid(answer, job) {
      if ('line' in answer) onTrial(decodeTrial(answer.line), job)
      else onFailure(job, answer.failure)
    },
  })
}

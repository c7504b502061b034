/**
 * A pool of worker threads over a list of jobs. Each trial is handed on as soon as it is there, in whatever order
 * they end; a job that fails is kept with its reason and the others go on.
 */
import { Worker } from 'node:worker_threads'
import { decodeTrial, type Trial } from '@oddflow/evaluation'
import type { Job } from './job.js'
import type { RunSettings } from './run-trial.js'
import type { WorkerAnswer } from './worker.js'

export interface RunJobsOptions {
  readonly workers: number
  readonly settings: RunSettings
  onTrial(trial: Trial, job: Job): void
  onFailure(job: Job, reason: string): void
}

/** Throws Error for a fault in the program itself, after stopping all threads. */
export async function runJobs(jobs: readonly Job[], options: RunJobsOptions): Promise<void> {
  const waiting = jobs[Symbol.iterator]()
  const threads = Array.from(
    { length: Math.min(options.workers, jobs.length) },
    () => new Worker(new URL('./worker.js', import.meta.url), { workerData: options.settings }),
  )
  try {
    await Promise.all(threads.map((thread) => serve(thread, waiting, options)))
  } finally {
    await Promise.all(threads.map((thread) => thread.terminate()))
  }
}

async function serve(thread: Worker, waiting: Iterator<Job>, options: RunJobsOptions): Promise<void> {
  for (let next = waiting.next(); !next.done; next = waiting.next()) {
    const job = next.value
    const answer = await ask(thread, job)
    if ('line' in answer) options.onTrial(decodeTrial(answer.line), job)
    else if (answer.ours) options.onFailure(job, answer.failure)
    else throw new Error(answer.failure)
  }
}

function ask(thread: Worker, job: Job): Promise<WorkerAnswer> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      thread.off('message', onMessage)
      thread.off('error', onError)
    }
    const onMessage = (answer: WorkerAnswer): void => {
      settle()
      resolve(answer)
    }
    const onError = (error: Error): void => {
      settle()
      reject(error)
    }
    thread.on('message', onMessage)
    thread.on('error', onError)
    thread.postMessage(job)
  })
}

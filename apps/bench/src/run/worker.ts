/** A worker thread: takes a job, gives back the trial as a line, or what went wrong in one. */
import { parentPort, workerData } from 'node:worker_threads'
import { OddFlowError } from '@oddflow/core'
import { encodeTrial } from '@oddflow/evaluation'
import type { Job } from './job.js'
import { type RunSettings, runTrial } from './run-trial.js'

export type WorkerAnswer =
  | { readonly line: string }
  /** `ours`: the data or a file would not do; otherwise a fault in the program. */
  | { readonly failure: string; readonly ours: boolean }

const settings = workerData as RunSettings

function answer(job: Job): WorkerAnswer {
  try {
    return { line: encodeTrial(runTrial(job, settings)) }
  } catch (error) {
    if (error instanceof OddFlowError) return { failure: error.message, ours: true }
    return { failure: error instanceof Error ? (error.stack ?? error.message) : String(error), ours: false }
  }
}

parentPort?.on('message', (job: Job) => parentPort?.postMessage(answer(job)))

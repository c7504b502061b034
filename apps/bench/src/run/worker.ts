/** A worker thread: answers a job with its trial as a line, or with the reason why it failed. */
import { OddFlowError } from '@oddflow/core'
import { serveJobs } from '@oddflow/program'
import { type Job, type RunSettings, runTrial } from './job.js'
import { encodeTrial } from './trial.js'

export type WorkerAnswer = { readonly line: string } | { readonly failure: string }

serveJobs<Job, WorkerAnswer>((settings: RunSettings) => (job, say) => {
  try {
    say({ line: encodeTrial(runTrial(job, settings)) })
  } catch (error) {
    // other jobs continue; a bug ends the run
    if (!(error instanceof OddFlowError)) throw error
    say({ failure: error.message })
  }
})

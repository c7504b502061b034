/** A worker thread: takes a job, gives back the trial as a line, or why the data or a file would not do. */
import { OddFlowError } from '@oddflow/core'
import { encodeTrial } from '@oddflow/evaluation'
import { serveJobs } from '@oddflow/program'
import { type Job, type RunSettings, runTrial } from './job.js'

export type WorkerAnswer = { readonly line: string } | { readonly failure: string }

serveJobs<Job, WorkerAnswer>((settings: RunSettings) => (job, say) => {
  try {
    say({ line: encodeTrial(runTrial(job, settings)) })
  } catch (error) {
    // others go on; a fault of the program's own ends the run
    if (!(error instanceof OddFlowError)) throw error
    say({ failure: error.message })
  }
})

/**
 * Jobs into a file of trials: those that are not there yet, in worker threads, each trial written as soon as it is
 * made. A run that is stopped goes on where it was.
 */
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { DataError } from '@oddflow/core'
import { dataKey, type Trial } from '@oddflow/evaluation'
import { complain, note } from '../output/messages.js'
import { createProgress } from '../output/progress.js'
import type { Job } from './job.js'
import { describeMachine, describeVersions } from './machine.js'
import { runJobs } from './run-jobs.js'
import { type KeyOf, openTrials } from './trials-file.js'

export interface RunOptions {
  readonly jobs: readonly Job[]
  /** Equal for a job and the trial that comes of it. */
  readonly keyOf: KeyOf
  readonly keyOfJob: (job: Job, machine: string) => string
  readonly data: string
  readonly trials: string
  readonly machine: string
  /** Trials at the same time; one CPU less than there are when it is not given. */
  readonly workers?: number
  readonly testRuns: number
  /** Throws where the trials that are there are not of the kind that is asked for. */
  readonly checkThere?: (trials: readonly Trial[]) => void
}

/** Resolves to the exit code: 1 when a trial could not be made. */
export async function runIntoFile({
  jobs,
  keyOf,
  keyOfJob,
  checkThere,
  ...options
}: RunOptions): Promise<number> {
  const workers = options.workers ?? Math.max(1, availableParallelism() - 1)
  const machine = describeMachine(options.machine, workers)
  const file = openTrials(options.trials, keyOf)
  const progress = createProgress()
  const said = new Set<string>()
  let failures = 0
  let made = 0
  try {
    if (file.tornBytes > 0) note(`${options.trials}: a line of a run that was stopped is done again`)
    checkThere?.(file.trials)
    const dataOf = new Map(file.trials.map((trial) => [dataKey(trial), trial.dataSha256]))
    const there = new Set(file.trials.map(keyOf))
    const missing = jobs.filter((job) => !there.has(keyOfJob(job, machine.name)))
    const before = jobs.length - missing.length
    progress.start(jobs.length)
    await runJobs(missing, {
      workers,
      settings: {
        data: resolve(options.data),
        machine,
        versions: describeVersions(),
        testRuns: options.testRuns,
      },
      onTrial(trial) {
        const known = dataOf.get(dataKey(trial))
        if (known !== undefined && known !== trial.dataSha256) {
          throw new DataError(
            `${trial.dataset}: the rows are not those of the trials in ${options.trials}; give another --trials`,
          )
        }
        file.append(trial)
        made++
        progress.update(before + made, `${trial.dataset} ${trial.detector} ${trial.tuning}`)
      },
      onFailure({ manifest, detector, tuning, repeat }, reason) {
        failures++
        // a file that will not do fails every trial alike
        const once = `${manifest.name}: ${reason}`
        if (said.has(once)) return
        said.add(once)
        complain(`${manifest.name}, ${detector}, tuning ${tuning}, repeat ${repeat}: ${reason}`)
      },
    })
    progress.stop()
    const failed = failures === 0 ? '' : `, ${failures} failed`
    note(`${options.trials}: ${jobs.length} trials asked for, ${before} were there, ${made} made${failed}`)
  } finally {
    progress.stop()
    file.close()
  }
  return failures === 0 ? 0 : 1
}

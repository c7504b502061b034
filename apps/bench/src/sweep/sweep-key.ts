/** What a trial of a sweep is of, and where: as a trial's key, with the parameters and the training rows. */
import type { CheckedParameters } from '@oddflow/detectors'
import { type Trial, trialKey } from '@oddflow/evaluation'
import { type Job, jobKey } from '../run/job.js'
import type { SweepName } from './names.js'

export function sweepTrialKey(name: SweepName, trial: Trial): string {
  return [trialKey(trial), rowsPart(name, trial.trainRows), JSON.stringify(trial.parameters)].join(' ')
}

/** `parameters`: what becomes of the job's options. */
export function sweepJobKey(
  name: SweepName,
  job: Job,
  parameters: CheckedParameters,
  machine: string,
): string {
  return [jobKey(job, machine), rowsPart(name, job.setting?.trainRows), JSON.stringify(parameters)].join(' ')
}

/** How many there are is known before a trial only where it is what is swept. */
const rowsPart = (name: SweepName, rows: number | null | undefined): string =>
  name === 'rows' ? `${rows}` : 'all'

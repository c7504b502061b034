/** `oddflow-bench reproduce`: data sets × detectors × tuning, each a few repeats, into a file of trials. */
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { DataError } from '@oddflow/core'
import { DETECTOR_NAMES, type DetectorName, isDetectorName } from '@oddflow/detectors'
import { dataKey, type Tuning, trialKey } from '@oddflow/evaluation'
import { isAvailable } from '../datasets/load-repeat.js'
import { chooseManifests, OWN_MANIFESTS, readManifests } from '../datasets/read-manifests.js'
import { UsageError } from '../errors.js'
import { complain, note } from '../output/messages.js'
import { createProgress } from '../output/progress.js'
import { jobKey, planJobs } from '../run/job.js'
import { describeMachine, describeVersions } from '../run/machine.js'
import { runJobs } from '../run/run-jobs.js'
import { openTrials } from '../run/trials-file.js'

export interface ReproduceOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets?: readonly string[]
  readonly detectors?: readonly string[]
  readonly tuning: 'none' | 'minimal' | 'both'
  readonly repeats: number
  readonly seed: number
  readonly workers?: number
  readonly testRuns: number
  readonly machine: string
  readonly trials: string
}

/** Resolves to the exit code: 1 when a trial could not be made. */
export async function reproduce(options: ReproduceOptions): Promise<number> {
  const detectors = (options.detectors ?? DETECTOR_NAMES).map(checkDetector)
  const tunings: Tuning[] = options.tuning === 'both' ? ['none', 'minimal'] : [options.tuning]
  const chosen = chooseManifests(readManifests(options.manifests ?? OWN_MANIFESTS), options.datasets)
  const manifests = chosen.filter((manifest) => isAvailable(manifest, options.data))
  const absent = chosen.filter((manifest) => !manifests.includes(manifest)).map(({ name }) => name)
  if (absent.length > 0) {
    const message = `no data of ${absent.join(', ')} in ${options.data}; see: oddflow-bench data verify`
    if (options.datasets !== undefined) throw new DataError(message)
    if (manifests.length > 0) note(`left out: ${message}`)
  }
  if (manifests.length === 0) throw new DataError(`${options.data}: holds none of the data sets; give --data`)
  const workers = options.workers ?? Math.max(1, availableParallelism() - 1)
  const machine = describeMachine(options.machine, workers)
  const jobs = planJobs({ manifests, detectors, tunings, repeats: options.repeats, seed: options.seed })
  const file = openTrials(options.trials)
  const progress = createProgress()
  let failures = 0
  let made = 0
  try {
    if (file.tornBytes > 0) note(`${options.trials}: a line of a run that was stopped is done again`)
    const dataOf = new Map(file.trials.map((trial) => [dataKey(trial), trial.dataSha256]))
    const there = new Set(file.trials.map(trialKey))
    const missing = jobs.filter((job) => !there.has(jobKey(job, machine.name)))
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

function checkDetector(name: string): DetectorName {
  if (isDetectorName(name)) return name
  throw new UsageError(`${name}: no such detector; there are ${DETECTOR_NAMES.join(', ')}`)
}

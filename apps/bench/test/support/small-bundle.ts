/** Trials of every detector on small data, and the bundle of them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DETECTOR_NAMES } from '@oddflow/detectors'
import { readManifests } from '../../src/datasets/manifest.js'
import { type Bundle, makeBundle } from '../../src/machines/make-bundle.js'
import { type Job, runTrial } from '../../src/run/job.js'
import { encodeTrial, type Trial } from '../../src/run/trial.js'
import { sampleTrial } from './sample-trial.js'
import { writeSmallData } from './small-data.js'

export interface SmallWork {
  readonly data: string
  readonly manifests: string
  readonly trials: readonly Trial[]
  /** File of the trials. */
  readonly trialsFile: string
}

export function writeSmallWork(folder: string): SmallWork {
  const { data, manifests } = writeSmallData(folder, ['blue'], 1)
  const [manifest] = readManifests(manifests)
  const { machine, versions } = sampleTrial()
  const trials = DETECTOR_NAMES.map((detector) => {
    const job: Job = { manifest: manifest!, features: 'iat-size', detector, tuning: 'none', repeat: 0 }
    return runTrial(job, { data, machine, versions, testRuns: 2 })
  })
  const trialsFile = join(folder, 'trials.jsonl')
  writeFileSync(trialsFile, trials.map((trial) => `${encodeTrial(trial)}\n`).join(''))
  return { data, manifests, trials, trialsFile }
}

export function makeSmallBundle(
  { data, manifests, trials }: SmallWork,
  folder: string,
  refitRows = 40,
): Bundle {
  return makeBundle({
    trials,
    manifests: readManifests(manifests),
    data,
    folder,
    testRuns: 2,
    refitRows,
    onItem() {},
  })
}

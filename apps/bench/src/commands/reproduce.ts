/** `oddflow-bench reproduce`: data sets × detectors × tuning, each a few repeats, into a file of trials. */

import { DataError, OddFlowError } from '@oddflow/core'
import { type Trial, type Tuning, trialKey } from '@oddflow/evaluation'
import { availableManifests, featuresOf, trainRowsThere } from '../datasets/load-repeat.js'
import { FEATURES, type Manifest } from '../datasets/manifest.js'
import { UsageError } from '../errors.js'
import { jobKey, planJobs } from '../run/job.js'
import { isMethodName, isTunable, METHOD_NAMES, type MethodName } from '../run/trial-model.js'
import { runIntoFile } from '../run/trials-file.js'

/**
 * One number of training rows a file: a trial's key says nothing of n, and trials of two n would stand in one table as
 * if they were one. So a file that has trials of another n than is asked for is refused before anything is run.
 */

export interface CheckTrainRowsOptions {
  readonly manifests: readonly Manifest[]
  readonly data: string
  /** On the command line. */
  readonly trainRows?: number
  /** The file, for the message. */
  readonly path: string
}

/** Throws DataError that names the data set and both numbers. */
export function checkTrainRows(trials: readonly Trial[], options: CheckTrainRowsOptions): void {
  const { manifests, data, trainRows, path } = options
  const asked = new Map<string, number | null>()
  for (const { dataset, repeat, trainRows: found } of trials) {
    const manifest = manifests.find(({ name }) => name === dataset)
    if (manifest === undefined) continue
    const key = `${dataset} ${repeat}`
    if (!asked.has(key)) asked.set(key, trainRows ?? rowsThere(manifest, data, repeat))
    const expected = asked.get(key) ?? null
    if (expected !== null && expected !== found) {
      throw new DataError(
        `${path}: has trials of ${dataset} with ${found} training rows, and ${expected} are asked for; give another --trials`,
      )
    }
  }
}

/** null where they cannot be read, which each trial says for itself. */
function rowsThere(manifest: Manifest, data: string, repeat: number): number | null {
  try {
    return trainRowsThere(manifest, data, repeat)
  } catch (error) {
    if (error instanceof OddFlowError) return null
    throw error
  }
}

export interface ReproduceOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets?: readonly string[]
  readonly features?: readonly string[]
  readonly detectors?: readonly string[]
  readonly tuning: 'none' | 'minimal' | 'both'
  readonly repeats: number
  readonly seed: number
  readonly workers?: number
  readonly testRuns: number
  readonly trainRows?: number
  readonly machine: string
  readonly trials: string
}

/** Resolves to the exit code: 1 when a trial could not be made. */
export async function reproduce(options: ReproduceOptions): Promise<number> {
  const detectors = (options.detectors ?? METHOD_NAMES).map(checkMethod)
  for (const name of options.features ?? []) {
    if ((FEATURES as readonly string[]).includes(name)) continue
    throw new UsageError(`${name}: no such features; there are ${FEATURES.join(', ')}`)
  }
  const tunings: Tuning[] = options.tuning === 'both' ? ['none', 'minimal'] : [options.tuning]
  if (options.tuning === 'minimal') {
    const fixed = options.detectors === undefined ? [] : detectors.filter((detector) => !isTunable(detector))
    if (fixed.length > 0) {
      throw new UsageError(
        `${fixed.join(', ')}: nothing to tune; leave it out, or take --tuning none or both`,
      )
    }
  }
  const manifests = availableManifests(options)
  const isAsked = (features: string): boolean => options.features?.includes(features) ?? true
  const featuresFor = (manifest: Manifest): string[] => featuresOf(manifest, options.data).filter(isAsked)
  const there = new Set(manifests.flatMap(featuresFor))
  const absent = options.features?.filter((features) => !there.has(features)) ?? []
  if (absent.length > 0) {
    const of = manifests.map(({ name }) => name).join(', ')
    throw new DataError(`${options.data}: holds no rows of ${absent.join(', ')} for ${of}`)
  }
  const jobs = planJobs({
    manifests,
    featuresOf: featuresFor,
    detectors,
    tunings,
    repeats: options.repeats,
    seed: options.seed,
    ...(options.trainRows === undefined ? {} : { trainRows: options.trainRows }),
  })
  const checkThere = (trials: readonly Trial[]): void =>
    checkTrainRows(trials, { ...options, manifests, path: options.trials })
  return runIntoFile({ ...options, jobs, keyOf: trialKey, keyOfJob: jobKey, checkThere })
}

function checkMethod(name: string): MethodName {
  if (isMethodName(name)) return name
  throw new UsageError(`${name}: no such detector; there are ${METHOD_NAMES.join(', ')}`)
}

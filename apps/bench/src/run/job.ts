/** Jobs: the trials that a run is to make, in an order that does not depend on what is there already. */
import { type Tuning, workKey } from '@oddflow/evaluation'
import { repeatsOf } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'
import type { SweepSetting } from '../sweep/plans.js'
import type { MethodName } from './methods.js'
import { isTunable } from './recipe.js'

export interface Job {
  readonly manifest: Manifest
  readonly features: string
  /** As the trial calls it. */
  readonly detector: MethodName
  readonly tuning: Tuning
  readonly repeat: number
  readonly seed: number
  /** n, where it is stated. */
  readonly trainRows?: number
  /** Of a sweep: in the place of what the tuning says. */
  readonly setting?: SweepSetting
}

export interface PlanOptions {
  readonly manifests: readonly Manifest[]
  /** Of a manifest, those that are to be run. */
  readonly featuresOf: (manifest: Manifest) => readonly string[]
  readonly detectors: readonly MethodName[]
  readonly tunings: readonly Tuning[]
  /** At most so many repeats of each data set. */
  readonly repeats: number
  readonly seed: number
  /** n, where it is stated. */
  readonly trainRows?: number
}

/** Repeats outermost: a run cut short has all methods side by side. A detector without choices is not tuned. */
export function planJobs({
  manifests,
  featuresOf,
  detectors,
  tunings,
  repeats,
  seed,
  trainRows,
}: PlanOptions): Job[] {
  const stated = trainRows === undefined ? {} : { trainRows }
  const jobs: Job[] = []
  for (const tuning of tunings) {
    for (let repeat = 0; repeat < repeats; repeat++) {
      for (const manifest of manifests) {
        if (repeat >= repeatsOf(manifest)) continue
        for (const features of featuresOf(manifest)) {
          for (const detector of detectors) {
            if (tuning === 'none' || isTunable(detector)) {
              jobs.push({ manifest, features, detector, tuning, repeat, seed, ...stated })
            }
          }
        }
      }
    }
  }
  return jobs
}

/** As `trialKey` of the trial that comes of it. */
export function jobKey({ manifest, ...job }: Job, machine: string): string {
  return `${workKey({ ...job, dataset: manifest.name })} ${machine}`
}

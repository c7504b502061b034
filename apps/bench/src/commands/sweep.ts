/** `oddflow-bench sweep nu|scaler|rows`: untuned trials over a range of settings, into a file of their own. */
import { checkParameters, type DetectorName, keptParameters } from '@oddflow/detectors'
import { availableManifests } from '../datasets/available.js'
import { featuresOf, repeatsOf } from '../datasets/load-repeat.js'
import { UsageError } from '../errors.js'
import type { Job } from '../run/job.js'
import { runIntoFile } from '../run/run-into-file.js'
import { SWEEP_DATASETS, type SweepName } from '../sweep/names.js'
import { sweepSettings } from '../sweep/plans.js'
import { sweepJobKey, sweepTrialKey } from '../sweep/sweep-key.js'

export interface SweepOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets?: readonly string[]
  readonly detectors?: readonly string[]
  readonly repeats: number
  readonly seed: number
  readonly workers?: number
  readonly testRuns: number
  readonly machine: string
  readonly trials: string
}

/** Resolves to the exit code: 1 when a trial could not be made. */
export async function sweep(name: SweepName, options: SweepOptions): Promise<number> {
  const manifests = availableManifests({ ...options, datasets: options.datasets ?? SWEEP_DATASETS })
  const settings = sweepSettings(name).filter(
    ({ options: { detector } }) => options.detectors?.includes(detector) ?? true,
  )
  const swept = new Set(sweepSettings(name).map(({ options: { detector } }) => detector as string))
  for (const detector of options.detectors ?? []) {
    if (!swept.has(detector)) {
      throw new UsageError(`${detector}: is not in sweep ${name}; there are ${[...swept].join(', ')}`)
    }
  }
  const jobs = Array.from({ length: options.repeats }, (_, repeat) =>
    manifests
      .filter((manifest) => repeat < repeatsOf(manifest))
      .flatMap((manifest) =>
        settings.map((setting): Job => {
          // IAT+SIZE where there are several
          const features = featuresOf(manifest, options.data)[0]!
          const detector: DetectorName = setting.options.detector
          return { manifest, features, detector, tuning: 'none', repeat, seed: options.seed, setting }
        }),
      ),
  ).flat()
  return runIntoFile({
    ...options,
    jobs,
    keyOf: (trial) => sweepTrialKey(name, trial),
    keyOfJob: (job, machine) =>
      sweepJobKey(name, job, keptParameters(checkParameters(job.setting?.options ?? {})), machine),
  })
}

/**
 * Sweeps: what the paper does not show. Each is a list of settings over a few data sets, all untuned, all without the
 * support guard, so that what differs is what is swept.
 *
 * - `nu`: the paper's OCSVM has nu = 0.5, where half of all training rows are support vectors, and its savings in time
 *   and space are against that. Here OCSVM runs over nu beside OC-KJL and OC-Nystrom over m, d and k.
 * - `scaler`: AUC of every detector over scalers and bandwidth quantiles.
 * - `rows`: AUC, detection time and space of every detector over the number n of training rows.
 */
import { SCALER_NAMES } from '@oddflow/core'
import { DETECTOR_NAMES, DETECTORS, type DetectorName, type DetectorOptions } from '@oddflow/detectors'
import type { SweepName } from './names.js'

export interface SweepSetting {
  readonly options: DetectorOptions & { readonly detector: DetectorName }
  /** The first so many training rows; null: all. */
  readonly trainRows: number | null
}

/** Of the pair distances; at the paper's 0.25 one of its data sets stands on a step. */
export const SWEEP_QUANTILE = 0.3

const NUS: readonly number[] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5]
const LANDMARKS: readonly number[] = [25, 50, 100, 200]
const DIMENSIONS: readonly number[] = [2, 5, 10]
const COMPONENTS: readonly number[] = [1, 5, 20]
const QUANTILES: readonly number[] = [0.1, 0.3, 0.5, 0.7, 0.9]
const ROWS: readonly number[] = [500, 1000, 2000, 3000, 4000, 5000]

function base(detector: DetectorName): SweepSetting['options'] {
  const applies = (option: string): boolean =>
    (DETECTORS[detector].options as readonly string[]).includes(option)
  return {
    detector,
    ...(applies('bandwidthQuantile') ? { bandwidthQuantile: SWEEP_QUANTILE } : {}),
    ...(applies('centre') ? { centre: false } : {}),
    ...(applies('supportGuard') ? { supportGuard: false } : {}),
  }
}

/** In the order in which they are run. */
export function sweepSettings(name: SweepName): SweepSetting[] {
  switch (name) {
    case 'nu':
      return [
        ...NUS.map((nu) => ({ options: { ...base('ocsvm'), nu }, trainRows: null })),
        ...(['oc-kjl', 'oc-nystrom'] as const).flatMap((detector) =>
          LANDMARKS.flatMap((m) =>
            DIMENSIONS.flatMap((d) =>
              COMPONENTS.map((k) => ({ options: { ...base(detector), m, d, k }, trainRows: null })),
            ),
          ),
        ),
      ]
    case 'scaler':
      return SCALER_NAMES.flatMap((scaler) =>
        DETECTOR_NAMES.flatMap((detector) => {
          const options = { ...base(detector), scaler }
          const swept = 'bandwidthQuantile' in options ? QUANTILES : [null]
          return swept.map((q) => ({
            options: q === null ? options : { ...options, bandwidthQuantile: q },
            trainRows: null,
          }))
        }),
      )
    case 'rows':
      return ROWS.flatMap((trainRows) =>
        DETECTOR_NAMES.map((detector) => ({ options: base(detector), trainRows })),
      )
  }
}

/**
 * The figures of the paper's tables, from trials alone ("Results Averaging"): each repeat's ratio to the baseline's
 * mean, averaged. AUC and space count once for work on several machines, as trained; times compare on one machine
 * alone.
 */
import { millisPer100, type Spread, spread } from '@oddflow/evaluation'
import { type TestSample, type Trial, workKey } from '../run/trial.js'

/** The method that others are compared with. */
export const BASELINE = 'ocsvm'

/** What a figure is of. */
export type Setting = Pick<Trial, 'dataset' | 'features' | 'tuning' | 'detector'>

/** A figure that is summarized over trials. */
type Metric =
  | { readonly kind: 'auc' | 'auc-retained'; readonly sample: TestSample }
  | { readonly kind: 'space-bytes' | 'space-reduction' }
  | { readonly kind: 'train-millis-per-100' | 'train-speedup'; readonly machine: string }
  | { readonly kind: 'test-millis-per-100' | 'test-speedup'; readonly machine: string }

/** null where there is no trial of the setting, of the machine, or of the baseline that a ratio needs, and where a ratio would be to 0. */
export function summarise(trials: readonly Trial[], setting: Setting, metric: Metric): Spread | null {
  const values = valuesOf(trials, setting, metric)
  switch (metric.kind) {
    case 'auc-retained':
    case 'space-reduction':
    case 'train-speedup':
    case 'test-speedup': {
      const baseline = spread(valuesOf(trials, { ...setting, detector: BASELINE }, metric))
      if (baseline === null) return null
      const retained = metric.kind === 'auc-retained'
      const ratios = values.map((value) => (retained ? value / baseline.mean : baseline.mean / value))
      // a clock too coarse to see a pass gives times of 0, and nothing is a ratio to those
      return ratios.every(Number.isFinite) ? spread(ratios) : null
    }
    default:
      return spread(values)
  }
}

/** The trials that the figure is made from, those of the baseline included where it is a ratio. */
export function trialsBehind(trials: readonly Trial[], setting: Setting): Trial[] {
  return trials.filter((trial) => isOf(trial, setting) || isOf(trial, { ...setting, detector: BASELINE }))
}

function valuesOf(trials: readonly Trial[], setting: Setting, metric: Metric): number[] {
  const chosen = trials.filter((trial) => isOf(trial, setting))
  switch (metric.kind) {
    case 'auc':
    case 'auc-retained':
      return oncePerWork(
        chosen.filter(({ results }) => results.some(({ sample }) => sample === metric.sample)),
      ).map(({ results }) => results.find(({ sample }) => sample === metric.sample)!.auc)
    case 'space-bytes':
    case 'space-reduction':
      return oncePerWork(chosen).map(({ spaceNumbers }) => 8 * spaceNumbers)
    case 'train-millis-per-100':
    case 'train-speedup':
      return chosen
        .filter(({ machine }) => machine.name === metric.machine)
        .flatMap(({ trainMillis, trainRows }) =>
          trainMillis === null ? [] : [millisPer100([trainMillis], trainRows)],
        )
    default:
      return chosen
        .filter(({ machine }) => machine.name === metric.machine)
        .map(({ testMillis, testRows }) => millisPer100(testMillis, testRows))
  }
}

function oncePerWork(trials: readonly Trial[]): Trial[] {
  const byWork = new Map<string, Trial>()
  for (const trial of trials) {
    const known = byWork.get(workKey(trial))
    if (known === undefined || (known.trainMillis === null && trial.trainMillis !== null)) {
      byWork.set(workKey(trial), trial)
    }
  }
  return [...byWork.values()]
}

function isOf(trial: Trial, setting: Setting): boolean {
  return (
    trial.dataset === setting.dataset &&
    trial.features === setting.features &&
    trial.tuning === setting.tuning &&
    trial.detector === setting.detector
  )
}

/** A trial's model as the bytes of its file, with a threshold from the training rows; trials use scores alone. */
import { DataError, type Matrix } from '@oddflow/core'
import {
  calibrateThreshold,
  createScoreWorkspace,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorModel,
  type DetectorName,
  type DetectorOptions,
  encodeModelFile,
  type Provenance,
  scoreSamples,
} from '@oddflow/detectors'
import {
  applicableGrid,
  auc,
  averagePrecision,
  type Candidate,
  delongInterval,
  gridCandidates,
  PAPER_GRID,
} from '@oddflow/evaluation'
import type { TestResult, Tuning } from './trial.js'

/**
 * Methods: the detectors, and `…-centred`, KJL with each row of its sketch less its mean, as in the authors' code and
 * in the independent implementation.
 */
const CENTRED = ['oc-kjl-centred', 'oc-kjl-qs-centred', 'oc-kjl-svm-centred'] as const
type CentredName = (typeof CENTRED)[number]

export type MethodName = DetectorName | CentredName
export const METHOD_NAMES = [...DETECTOR_NAMES, ...CENTRED] as const

type MethodOptions = DetectorOptions & { readonly detector: DetectorName }

const VARIANTS: Readonly<Record<CentredName, MethodOptions>> = {
  'oc-kjl-centred': { detector: 'oc-kjl', centre: true },
  'oc-kjl-qs-centred': { detector: 'oc-kjl-qs', centre: true },
  'oc-kjl-svm-centred': { detector: 'oc-kjl-svm', centre: true },
}

export function isMethodName(name: string): name is MethodName {
  return (METHOD_NAMES as readonly string[]).includes(name)
}

/** The detector, and what the method sets of its options. */
export function methodOptions(method: MethodName): MethodOptions {
  return method in VARIANTS ? VARIANTS[method as CentredName] : { detector: method as DetectorName }
}

/**
 * The paper's settings ("Implementation Details and Hyperparameter Choices"): quantile 0.25, KJL not centred, no
 * support guard. An option is set only where it applies, so a new detector takes part as it is.
 */
export const UNTUNED_QUANTILE = 0.25

function applies(detector: DetectorName, option: string): boolean {
  return (DETECTORS[detector].options as readonly string[]).includes(option)
}

/** Every candidate, in the order in which ties go to the first; one without tuning. */
export function candidatesOf(method: MethodName, tuning: Tuning): Candidate[] {
  const own = methodOptions(method)
  const fixed: DetectorOptions = {
    ...(applies(own.detector, 'centre') ? { centre: false } : {}),
    ...(applies(own.detector, 'supportGuard') ? { supportGuard: false } : {}),
    ...own,
  }
  const grid = tuning === 'minimal' ? PAPER_GRID : { bandwidthQuantile: [UNTUNED_QUANTILE] }
  return gridCandidates(fixed, applicableGrid(fixed, grid))
}

/** Whether there is anything to choose. */
export function isTunable(method: MethodName): boolean {
  return candidatesOf(method, 'minimal').length > 1
}

export function scoresOf(model: DetectorModel, rows: Matrix): Float64Array {
  return scoreSamples(model, rows, new Float64Array(rows.rows), createScoreWorkspace(model))
}

/** `isNovel`: 1 for novel rows, as many as there are scores. Throws DataError when a class is not there. */
export function measureScores(scores: Float64Array, isNovel: Float64Array): Omit<TestResult, 'sample'> {
  const area = auc(scores, isNovel)
  const interval = delongInterval(scores, isNovel)
  const precision = averagePrecision(scores, isNovel)
  if (area.value === null) throw new DataError(`no AUC: ${area.reason}`)
  if (precision.value === null) throw new DataError(`no average precision: ${precision.reason}`)
  return {
    normal: area.normal,
    novel: area.novel,
    auc: area.value,
    aucVariance: interval.value === null ? null : interval.variance,
    averagePrecision: precision.value,
  }
}

/** The same bytes for the same model and provenance on every machine. */
export function encodeTrialModel(
  detector: DetectorModel,
  train: Matrix,
  provenance: Omit<Provenance, 'rows'>,
): Uint8Array {
  return encodeModelFile({
    detector,
    contract: {
      featureSet: 'rows',
      featureSetVersion: 1,
      dimension: train.cols,
      scaler: detector.parameters.scaler,
    },
    threshold: calibrateThreshold(scoresOf(detector, train), 0.05),
    onePacketRule: null,
    provenance: { ...provenance, rows: train.rows },
  })
}

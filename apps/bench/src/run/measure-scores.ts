/** What scores are worth against the labels: the figures of a trial's test result. */
import { DataError } from '@oddflow/core'
import { auc, averagePrecision, delongInterval, type TestResult } from '@oddflow/evaluation'

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

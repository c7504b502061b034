/** Scores of rows by a model, and what they are worth. */
import { concatRows, DataError, type Matrix } from '@oddflow/core'
import {
  createScoreWorkspace,
  type DetectorModel,
  isNovel,
  scoreSamples,
  type Threshold,
} from '@oddflow/detectors'
import { auc } from '@oddflow/evaluation'

export function scoresOf(model: DetectorModel, rows: Matrix): Float64Array {
  return scoreSamples(model, rows, new Float64Array(rows.rows), createScoreWorkspace(model))
}

/** `labels`: 1 = novel. Throws DataError where rows of one kind are missing. */
export function areaOf(scores: Float64Array, labels: ArrayLike<number>): number {
  const { value } = auc(scores, labels)
  if (value === null) throw new DataError('expected normal rows and novel ones to judge')
  return value
}

export function aucOf(model: DetectorModel, normal: Matrix, novel: Matrix): number {
  const scores = scoresOf(model, concatRows([normal, novel]))
  return areaOf(scores, new Uint8Array(scores.length).fill(1, normal.rows))
}

interface Judge {
  readonly detector: DetectorModel
  readonly threshold: Threshold
}

/** Share of rows called novel; 0 of none. */
export function novelShare({ detector, threshold }: Judge, rows: Matrix): number {
  if (rows.rows === 0) return 0
  return scoresOf(detector, rows).filter((score) => isNovel(score, threshold)).length / rows.rows
}

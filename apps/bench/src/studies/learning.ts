/** What the studies of mixtures that learn on share: rows of the authors and models. */
import { createRng, type Matrix, takeRows } from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  type DetectorOptions,
  fitDetector,
  type SavedModel,
} from '@oddflow/detectors'
import { VERSION } from '../version.js'
import { scoresOf } from './judge.js'
import { publishedRows } from './published-rows.js'
import { withSeeds } from './study.js'

export const INTRODUCTION = `What \`oddflow update\` and \`createOnlineUpdater\` do, on real rows. OC-KJL-QS with the guard and everything else by default,
n rows of which a fifth calibrates the threshold at \`--fpr 0.01\`.`

export const withLearningSeeds = withSeeds('seeds of models and streams', 3)

export const seedList = (seeds: number): number[] => Array.from({ length: seeds }, (_, i) => i + 1)

export interface LearningRows {
  readonly set: string
  readonly train: Matrix
  /** Test rows. */
  readonly normal: Matrix
  readonly novel: Matrix
}

/** Of one of the authors' sets, by its folder: the first repeat. */
export function loadRows(paper: string, set: string): LearningRows {
  const { train, test, isNovel } = publishedRows(paper)
    .find(({ folder }) => folder === set)!
    .load(0)
  const ofLabel = (label: number): Matrix =>
    takeRows(
      test,
      Array.from({ length: test.rows }, (_, i) => i).filter((i) => isNovel[i] === label),
    )
  return { set, train, normal: ofLabel(0), novel: ofLabel(1) }
}

export function part(rows: Matrix, from: number, to: number): Matrix {
  return takeRows(
    rows,
    Array.from({ length: to - from }, (_, i) => from + i),
  )
}

/** A fifth of the rows, the first, calibrates it at --fpr 0.01. */
export function modelOf(rows: Matrix, seed: number, options: DetectorOptions = {}): SavedModel {
  const calibration = Math.floor(rows.rows / 5)
  const parameters = checkParameters(options)
  const fitted = part(rows, calibration, rows.rows)
  const detector = fitDetector(fitted, parameters, createRng(seed).fork('fit'))
  return {
    detector,
    contract: {
      featureSet: 'rows',
      featureSetVersion: 1,
      dimension: rows.cols,
      scaler: parameters.scaler,
    },
    threshold: calibrateThreshold(scoresOf(detector, part(rows, 0, calibration)), 0.01),
    onePacketRule: null,
    provenance: { oddflowVersion: VERSION, seed, dataSha256: '0'.repeat(64), rows: rows.rows },
  }
}

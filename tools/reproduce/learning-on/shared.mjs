/** What the experiments of learning-on.mjs share: rows, models, verdicts, and the setting that stands beside figures. */

import { readFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { concatRows, createRng, takeRows } from '../../../packages/core/dist/index.js'
import {
  calibrateThreshold,
  checkParameters,
  createScoreWorkspace,
  fitDetector,
  isNovel,
  scoreSamples,
} from '../../../packages/detectors/dist/index.js'
import { auc } from '../../../packages/evaluation/dist/index.js'
import { readNpy } from '../read-npy.mjs'

export const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')

export function setting(name, seconds) {
  return {
    command: `node ${name === 'million' ? '--expose-gc ' : ''}tools/reproduce/learning-on.mjs ${name}`,
    machine: `${cpus()[0].model}, ${cpus().length} logical CPUs, ${process.arch}`,
    node: process.version,
    loadAverage: loadavg()[0].toFixed(1),
    seconds,
  }
}

/** Training rows, and normal and novel test rows, of one of the paper's sets. */
export function loadSet(data, set) {
  const test = readNpy(join(data, 'paper', set, 'X_test.npy'))
  const labels = readNpy(join(data, 'paper', set, 'y_test.npy')).data
  const numbers = Array.from(labels.keys())
  return {
    train: readNpy(join(data, 'paper', set, 'X_train_r0.npy')),
    normal: takeRows(
      test,
      numbers.filter((i) => Number(labels[i]) === 0),
    ),
    novel: takeRows(
      test,
      numbers.filter((i) => Number(labels[i]) === 1),
    ),
  }
}

export function part(rows, from, to) {
  return takeRows(
    rows,
    Array.from({ length: to - from }, (_, i) => from + i),
  )
}

export function scoresOf(model, rows) {
  return scoreSamples(model, rows, new Float64Array(rows.rows), createScoreWorkspace(model))
}

export function aucOf(model, normal, novel) {
  const scores = scoresOf(model, concatRows([normal, novel]))
  return auc(
    scores,
    Uint8Array.from(scores, (_, i) => (i < normal.rows ? 0 : 1)),
  ).value
}

export function novelShare({ detector, threshold }, rows) {
  if (rows.rows === 0) return 0
  return scoresOf(detector, rows).reduce((sum, score) => sum + isNovel(score, threshold), 0) / rows.rows
}

/** A model as `oddflow train` makes it: a fifth of the rows, the first, calibrates it at fpr 0.01. */
export function trainModel(rows, seed, options = {}) {
  const calibration = Math.floor(rows.rows / 5)
  const parameters = checkParameters(options)
  const fit = part(rows, calibration, rows.rows)
  const detector = fitDetector(fit, parameters, createRng(seed).fork('fit'))
  return {
    detector,
    contract: { featureSet: 'rows', featureSetVersion: 1, dimension: rows.cols, scaler: parameters.scaler },
    threshold: calibrateThreshold(scoresOf(detector, part(rows, 0, calibration)), 0.01),
    onePacketRule: null,
    provenance: { oddflowVersion: '0.0.0', seed, dataSha256: '0'.repeat(64), rows: rows.rows },
  }
}

export function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1]
}

export function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** The version that stands in a package's manifest. */
export function versionOf(name) {
  return JSON.parse(readFileSync(join(checkout, 'packages', name, 'package.json'), 'utf8')).version
}

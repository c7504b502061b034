/**
 * One item of work on the machine where this runs. A model is read from its file, written again (the same bytes must
 * come of it), and scores the rows, then again for the time; or a model is fitted and written.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRng, decodeNpyMatrix } from '@oddflow/core'
import {
  checkStoredParameters,
  createScoreWorkspace,
  decodeModelFile,
  encodeModelFile,
  fitDetector,
  scoreSamples,
} from '@oddflow/detectors'
import { timeRuns } from '@oddflow/evaluation'
import { encodeTrialModel, measureScores } from '../../run/trial-model.js'
import { hashScores, sha256 } from '../digest.js'
import type { ItemOutcome } from '../runner-line.js'
import { type FitItem, isFitItem, type ScoreItem, type Work, type WorkItem } from '../work.js'

const clock = (): number => performance.now()

/** `folder`: of the bundle, whose files have been held against their hashes. */
export function runItem(item: WorkItem, work: Work, folder: string): ItemOutcome {
  return isFitItem(item) ? runFit(item, work, folder) : runScore(item, work, folder)
}

function runScore(item: ScoreItem, { testRuns }: Work, folder: string): ItemOutcome {
  const saved = decodeModelFile(readFileSync(join(folder, item.model)))
  const rows = decodeNpyMatrix(readFileSync(join(folder, item.rows)))
  const labels = decodeNpyMatrix(readFileSync(join(folder, item.labels)))
  const workspace = createScoreWorkspace(saved.detector)
  const scores = scoreSamples(saved.detector, rows, new Float64Array(rows.rows), workspace)
  const out = new Float64Array(rows.rows)
  const testMillis = timeRuns(() => scoreSamples(saved.detector, rows, out, workspace), {
    clock,
    runs: testRuns,
  })
  return {
    modelSha256: sha256(encodeModelFile(saved)),
    scoresSha256: hashScores(scores),
    result: { sample: item.work.sample, ...measureScores(scores, labels.data) },
    testRows: rows.rows,
    testMillis: [...testMillis],
    fitMillis: null,
  }
}

function runFit(item: FitItem, { oddflowVersion }: Work, folder: string): ItemOutcome {
  const train = decodeNpyMatrix(readFileSync(join(folder, item.rows)))
  const { seed, dataSha256 } = item.work
  const parameters = checkStoredParameters(item.parameters)
  const started = clock()
  const detector = fitDetector(train, parameters, createRng(seed))
  const fitMillis = clock() - started
  const bytes = encodeTrialModel(detector, train, { oddflowVersion, seed, dataSha256 })
  return {
    modelSha256: sha256(bytes),
    scoresSha256: null,
    result: null,
    testRows: null,
    testMillis: null,
    fitMillis,
  }
}

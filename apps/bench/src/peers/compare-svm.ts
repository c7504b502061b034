/**
 * One repeat of one data set: our one-class SVM, and that of a peer over the same rows with the same kernel, nu and
 * tolerance, one after the other. Tuned, both have the bandwidth that our trial chose; ours must then give that
 * trial's AUC to the last bit, or the comparison would be of something else than what the tables show.
 */
import { cpus, loadavg } from 'node:os'
import { createRng, DataError } from '@oddflow/core'
import {
  type CheckedParameters,
  checkStoredParameters,
  createScoreWorkspace,
  fitDetector,
  scoreSamples,
} from '@oddflow/detectors'
import { type Trial, type Tuning, timeRuns } from '@oddflow/evaluation'
import { openScratchFolder } from '@oddflow/program'
import { loadRepeat } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'
import { measureScores } from '../run/measure-scores.js'
import { candidatesOf } from '../run/recipe.js'
import { median } from './median.js'
import type { Peer, PeerReading } from './peer-reading.js'
import { runPeer } from './run-peers.js'

export interface SvmWork {
  readonly manifest: Manifest
  /** Folder of the data sets. */
  readonly data: string
  readonly tuning: Tuning
  readonly repeat: number
  readonly seed: number
  /** Timed passes over the test rows. */
  readonly testRuns: number
  /** Of OCSVM over these rows; null where none was run. There must be one where it is tuned. */
  readonly trial: Trial | null
}

/** null when the peer is not installed. Throws DataError where the trial is not what this program gives. */
export async function compareSvm(peer: Peer, work: SvmWork): Promise<PeerReading | null> {
  const { manifest, data, tuning, repeat, seed, testRuns, trial } = work
  const { train, tests, dataSha256 } = loadRepeat(manifest, data, repeat, seed, 'iat-size', trial?.trainRows)
  const [{ sample, data: test }, { data: timed }] = [tests[0]!, tests[tests.length - 1]!]
  const parameters = parametersOf(work)
  const started = performance.now()
  const model = fitDetector(train, parameters, createRng(seed).fork(`repeat ${repeat}`))
  const trainMillis = performance.now() - started
  const { kernel } = model.svm
  if (kernel.kind !== 'rbf') throw new RangeError('an rbf kernel was asked for')
  const workspace = createScoreWorkspace(model)
  const scores = scoreSamples(model, test.rows, new Float64Array(test.rows.rows), workspace)
  const { auc } = measureScores(scores, test.isNovel.data)
  const known = trial?.results.find((result) => result.sample === sample)?.auc
  if (trial !== null && (known !== auc || trial.dataSha256 !== dataSha256)) {
    throw new DataError(
      `the trial has AUC ${known ?? 'none'}, this program gives ${auc}; the trials are of other rows or another version: run oddflow-bench reproduce into a new file`,
    )
  }
  const out = new Float64Array(timed.rows.rows)
  const score = (): unknown => scoreSamples(model, timed.rows, out, workspace)
  score()
  const testMillis = timeRuns(score, { clock: () => performance.now(), runs: testRuns })
  const folder = openScratchFolder('oddflow-bench-peer')
  try {
    const theirs = await runPeer(peer, {
      folder: folder.path,
      train,
      test: test.rows,
      timed: timed.rows,
      bandwidth: kernel.bandwidth,
      nu: parameters.nu,
      tolerance: parameters.tolerance,
      runs: testRuns,
    })
    if (theirs === null) return null
    return {
      format: 2,
      dataset: manifest.name,
      dataSha256,
      tuning,
      repeat,
      seed,
      trainRows: train.rows,
      testRows: timed.rows.rows,
      peer,
      version: theirs.version,
      bandwidthQuantile: parameters.bandwidthQuantile,
      bandwidth: kernel.bandwidth,
      nu: parameters.nu,
      theirs: {
        auc: measureScores(theirs.scores, test.isNovel.data).auc,
        supportVectors: theirs.supportVectors,
        trainMillis: theirs.trainMillis,
        testMillis: theirs.testMillis === null ? null : median(theirs.testMillis),
      },
      ours: {
        auc,
        supportVectors: model.svm.dualCoefficients.length,
        trainMillis,
        testMillis: median([...testMillis]),
      },
      node: process.versions.node,
      cpu: (cpus()[0]?.model ?? 'unknown').trim().slice(0, 200),
      loadAverage: loadavg()[0] ?? null,
    }
  } finally {
    folder.remove()
  }
}

function parametersOf({ tuning, trial }: SvmWork): CheckedParameters & { readonly detector: 'ocsvm' } {
  if (tuning === 'minimal' && trial === null) throw new RangeError('tuned rows need their trial')
  const parameters =
    trial === null ? candidatesOf('ocsvm', tuning)[0]!.parameters : checkStoredParameters(trial.parameters)
  if (parameters.detector !== 'ocsvm')
    throw new DataError(`expected a trial of ocsvm, found ${parameters.detector}`)
  return parameters
}

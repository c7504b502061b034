/** Jobs: the trials that a run is to make, in an order that does not depend on what is there already. */

import { loadavg, platform } from 'node:os'
import { createRng, type Rng } from '@oddflow/core'
import {
  type CheckedParameters,
  checkParameters,
  createScoreWorkspace,
  decodeModelFile,
  fitDetector,
  modelSpaceNumbers,
  scoreSamples,
} from '@oddflow/detectors'
import { selectParameters, timeRuns } from '@oddflow/evaluation'
import type { SweepSetting } from '../commands/sweep.js'
import { firstRows, type LoadedRepeat, loadRepeat } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'
import { VERSION } from './machine.js'
import { checkTrial, type TestResult, type Trial, type TrialMachine, type Tuning, workKey } from './trial.js'
import { candidatesOf, encodeTrialModel, type MethodName, measureScores } from './trial-model.js'

/** Of all randomness of a trial. */
export const SEED = 1

export interface RunSettings {
  /** Folder of the data sets. */
  readonly data: string
  readonly machine: TrialMachine
  readonly versions: Readonly<Record<string, string>>
  /** Timed passes over the test sample. */
  readonly testRuns: number
}

const clock = (): number => performance.now()

/**
 * One trial as the paper runs it: choose parameters, train, write, read, test, and test again for the time. Randomness
 * depends on seed and repeat alone, so candidates differ only in what is chosen.
 */
export function runTrial(job: Job, settings: RunSettings): Trial {
  // Windows keeps none, and says 0
  const loadAverage = platform() === 'win32' ? null : (loadavg()[0] ?? null)
  const loaded = loadRepeat(job.manifest, settings.data, job.repeat, SEED, job.features, job.trainRows)
  const train = firstRows(loaded.train, job.setting?.trainRows ?? null, job.manifest.name)
  const { dataSha256 } = loaded
  const rng = createRng(SEED).fork(`repeat ${job.repeat}`)
  const chosen = choose(job, loaded, rng)
  const started = clock()
  const fitted = fitDetector(train, chosen.parameters, rng)
  const trainMillis = clock() - started
  const bytes = encodeTrialModel(fitted, train, { oddflowVersion: VERSION, seed: SEED, dataSha256 })
  const { detector: model } = decodeModelFile(bytes)
  const workspace = createScoreWorkspace(model)
  const results = loaded.tests.map(({ sample, data }): TestResult => {
    const scores = scoreSamples(model, data.rows, new Float64Array(data.rows.rows), workspace)
    return { sample, ...measureScores(scores, data.isNovel.data) }
  })
  // the paper times its 600 points; where there are not as many, all there are
  const timed = loaded.tests[loaded.tests.length - 1]!.data.rows
  const out = new Float64Array(timed.rows)
  const testMillis = timeRuns(() => scoreSamples(model, timed, out, workspace), {
    clock,
    runs: settings.testRuns,
  })
  return checkTrial({
    formatVersion: 1,
    dataset: job.manifest.name,
    dataSha256,
    features: job.features,
    dimension: train.cols,
    detector: job.detector,
    tuning: job.tuning,
    repeat: job.repeat,
    seed: SEED,
    trainRows: train.rows,
    validationAuc: chosen.validationAuc,
    parameters: fitted.parameters,
    results,
    trainMillis,
    tuneMillis: chosen.tuneMillis,
    testRows: timed.rows,
    testMillis: [...testMillis],
    spaceNumbers: modelSpaceNumbers(model),
    machine: settings.machine,
    loadAverage,
    versions: settings.versions,
  })
}

interface Choice {
  readonly parameters: CheckedParameters
  readonly validationAuc: number | null
  readonly tuneMillis: number | null
}

function choose({ detector, tuning, setting }: Job, { train, validation }: LoadedRepeat, rng: Rng): Choice {
  if (setting !== undefined) {
    return { parameters: checkParameters(setting.options), validationAuc: null, tuneMillis: null }
  }
  const candidates = candidatesOf(detector, tuning)
  if (tuning === 'none') {
    return { parameters: candidates[0]!.parameters, validationAuc: null, tuneMillis: null }
  }
  const started = clock()
  const rows = { rows: validation.rows, isNovel: Uint8Array.from(validation.isNovel.data) }
  const { best, results } = selectParameters(train, rows, candidates, rng)
  return {
    parameters: candidates[best]!.parameters,
    validationAuc: results[best]!.auc,
    tuneMillis: clock() - started,
  }
}

export interface Job {
  readonly manifest: Manifest
  readonly features: string
  /** As the trial calls it. */
  readonly detector: MethodName
  readonly tuning: Tuning
  readonly repeat: number
  /** n, where it is stated. */
  readonly trainRows?: number
  /** Of a sweep: in the place of what the tuning says. */
  readonly setting?: SweepSetting
}

/** As `trialKey` of the trial that comes of it. */
export function jobKey({ manifest, ...job }: Job, machine: string): string {
  return `${workKey({ ...job, dataset: manifest.name, seed: SEED })} ${machine}`
}

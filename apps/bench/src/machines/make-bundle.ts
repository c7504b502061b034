/**
 * A bundle: a folder with one program, models, rows and `work.json`, for another machine. Models are fitted again from
 * the trials and must give the trial's AUC to the last bit; otherwise trials and program are of different versions.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRng, DataError, encodeNpy, type Matrix } from '@oddflow/core'
import { checkStoredParameters, decodeModelFile, fitDetector } from '@oddflow/detectors'
import { FileError } from '@oddflow/program'
import { type LoadedRepeat, loadRepeat } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'
import { hashMatrices, part } from '../datasets/pools.js'
import { packagePath, writeFileWhole } from '../files.js'
import { VERSION } from '../run/machine.js'
import { type Trial, workKey } from '../run/trial.js'
import {
  encodeTrialModel,
  isMethodName,
  type MethodName,
  measureScores,
  scoresOf,
} from '../run/trial-model.js'
import {
  type FitItem,
  hashScores,
  PROGRAM_FILE,
  type ScoreItem,
  sha256,
  WORK_FILE,
  type Work,
  type WorkItem,
} from './work.js'

const PROGRAM = packagePath(`dist/${PROGRAM_FILE}`)

export interface Bundle {
  readonly folder: string
  /** Of work.json, and so of everything. */
  readonly sha256: string
  readonly work: Work
}

interface BundleOptions {
  readonly trials: readonly Trial[]
  readonly manifests: readonly Manifest[]
  /** Folder of the data sets. */
  readonly data: string
  readonly folder: string
  readonly testRuns: number
  /** Rows of the fits that are repeated on the machine; 0 for none. */
  readonly refitRows: number
  /** Called before each item is made. */
  onItem(done: number, name: string): void
}

/** Throws FileError when the folder holds anything, DataError when the trials are not this program's. */
export function makeBundle(options: BundleOptions): Bundle {
  const { folder, trials } = options
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new FileError('file.exists', `${folder}: is not empty; give a new folder`, { field: folder })
  }
  const files: Record<string, string> = {}
  const write = (path: string, bytes: Uint8Array): string => {
    const hash = sha256(bytes)
    if (files[path] === undefined) writeFileWhole(join(folder, path), bytes)
    files[path] = hash
    return hash
  }
  write(PROGRAM_FILE, readFileSync(PROGRAM))
  const items: WorkItem[] = []
  const sorted = [...trials].sort((a, b) => (workKey(a) < workKey(b) ? -1 : 1))
  const refits = options.refitRows === 0 ? [] : firstOfEach(sorted)
  for (const trial of sorted) {
    options.onItem(items.length, `${trial.dataset} ${trial.detector}`)
    items.push(scoreItem(trial, load(trial, options), write))
  }
  for (const trial of refits) {
    options.onItem(items.length, `${trial.dataset} ${trial.detector}, ${options.refitRows} rows`)
    items.push(fitItem(trial, load(trial, options).train, options.refitRows, write))
  }
  const work: Work = { format: 1, oddflowVersion: VERSION, testRuns: options.testRuns, files, items }
  const bytes = Buffer.from(`${JSON.stringify(work, null, 1)}\n`)
  writeFileWhole(join(folder, WORK_FILE), bytes)
  return { folder, sha256: sha256(bytes), work }
}

type Write = (path: string, bytes: Uint8Array) => string

function load(
  { dataset, features, repeat, seed, trainRows, dataSha256 }: Trial,
  { manifests, data }: BundleOptions,
): LoadedRepeat {
  const manifest = manifests.find(({ name }) => name === dataset)
  if (manifest === undefined) throw new DataError(`${dataset}: no manifest has this name`)
  const loaded = loadRepeat(manifest, data, repeat, seed, features, trainRows)
  if (loaded.dataSha256 !== dataSha256) {
    throw new DataError(`${dataset}, repeat ${repeat}: the rows differ from those of the trial (hashes)`)
  }
  return loaded
}

function scoreItem(trial: Trial, { train, tests }: LoadedRepeat, write: Write): ScoreItem {
  const { dataset, features, tuning, repeat, seed, dataSha256 } = trial
  const parameters = checkStoredParameters(trial.parameters)
  const detector = methodOf(trial)
  const fitted = fitDetector(train, parameters, createRng(seed).fork(`repeat ${repeat}`))
  const bytes = encodeTrialModel(fitted, train, { oddflowVersion: VERSION, seed, dataSha256 })
  const { detector: model } = decodeModelFile(bytes)
  // as the trial was timed: the sample of the paper's size where there is one
  const { sample, data } = tests[tests.length - 1]!
  const scores = scoresOf(model, data.rows)
  const measured = { sample, ...measureScores(scores, data.isNovel.data) }
  const known = trial.results.find((result) => result.sample === sample)
  if (known === undefined || JSON.stringify(measured) !== JSON.stringify(known)) {
    throw new DataError(
      `${workKey(trial)}: the trial has AUC ${known?.auc ?? 'none'}, this program gives ${measured.auc}; the trials are of another version: run oddflow-bench reproduce into a new file`,
    )
  }
  const name = `${dataset}-${features}-${detector}-${tuning}-r${repeat}-s${seed}`
  return {
    work: { kind: 'score', dataset, features, detector, tuning, repeat, seed, dataSha256, sample },
    model: `models/${name}.model`,
    ...writeTest(data, write),
    expected: { modelSha256: write(`models/${name}.model`, bytes), scoresSha256: hashScores(scores) },
  }
}

function methodOf(trial: Trial): MethodName {
  if (isMethodName(trial.detector)) return trial.detector
  throw new DataError(`${workKey(trial)}: no detector has this name`)
}

/** Test rows that several items share are one file. */
function writeTest(
  { rows, isNovel }: LoadedRepeat['tests'][number]['data'],
  write: Write,
): { rows: string; labels: string } {
  const name = hashMatrices([rows, isNovel]).slice(0, 16)
  write(`rows/test-${name}.npy`, encodeNpy(rows))
  write(`rows/labels-${name}.npy`, encodeNpy(isNovel))
  return { rows: `rows/test-${name}.npy`, labels: `rows/labels-${name}.npy` }
}

function fitItem(trial: Trial, all: Matrix, refitRows: number, write: Write): FitItem {
  const { dataset, features, seed } = trial
  const parameters = checkStoredParameters(trial.parameters)
  const train = part(all, 0, Math.min(refitRows, all.rows))
  const dataSha256 = hashMatrices([train])
  const rows = `rows/train-${dataSha256.slice(0, 16)}.npy`
  write(rows, encodeNpy(train))
  const fitted = fitDetector(train, parameters, createRng(seed))
  const bytes = encodeTrialModel(fitted, train, { oddflowVersion: VERSION, seed, dataSha256 })
  return {
    work: {
      kind: 'fit',
      dataset,
      features,
      detector: methodOf(trial),
      seed,
      trainRows: train.rows,
      dataSha256,
    },
    rows,
    parameters,
    expected: { modelSha256: sha256(bytes), scoresSha256: null },
  }
}

/** Of each data set, features, detector and seed: the first trial, untuned before tuned. */
function firstOfEach(trials: readonly Trial[]): Trial[] {
  const found = new Map<string, Trial>()
  for (const trial of [...trials].sort((a, b) => (a.tuning < b.tuning ? 1 : -1))) {
    const key = [trial.dataset, trial.features, trial.detector, trial.seed].join(' ')
    if (!found.has(key)) found.set(key, trial)
  }
  return [...found.values()].sort((a, b) => (workKey(a) < workKey(b) ? -1 : 1))
}

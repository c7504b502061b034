/**
 * A million rows, one by one: memory, positive definiteness, time, equal bytes on replay. Rows are real ones (sfrig)
 * with noise, one in 500 from far away, and old rows are forgotten, so components come and go.
 */

import { loadavg } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import { type DetectorOptions, encodeModelFile, type SavedModel } from '@oddflow/detectors'
import { createOnlineUpdater, type LearningOptions, type OnlineUpdater } from '@oddflow/online'
import { z } from 'zod'
import { whole } from '../commands/options.js'
import { part } from '../datasets/pools.js'
import { count, list, text } from '../files.js'
import { note } from '../output.js'
import { fixed, tableOf } from '../tables/table.js'
import { loadRows, modelOf } from './learning-plan.js'
import { defineStudy } from './study.js'

const TRAINING = 1000
const ROUND_ROWS = 1000
const SAMPLES = 10
/** A mixture in an embedding has full covariances; over the rows themselves they may be either. */
const MODELS: readonly { readonly name: string; readonly options: DetectorOptions }[] = [
  { name: 'oc-kjl-qs', options: {} },
  { name: 'gmm, full', options: { detector: 'gmm', scaler: 'standard', covariance: 'full' } },
  { name: 'gmm, diagonal', options: { detector: 'gmm', scaler: 'standard', covariance: 'diagonal' } },
]
const LEARNING: LearningOptions = {
  roundRows: ROUND_ROWS,
  novel: 'learn',
  guard: null,
  reservoirRows: 200,
  forgetting: { kind: 'exponential', halfLifeRows: 2000 },
}

const figures = z.strictObject({
  updates: count,
  /** Of the machine at the end: other work makes the times longer. */
  loadAverage: z.number().min(0),
  models: list({
    name: text,
    microsPerUpdate: z.number().positive(),
    /** Heap and buffers, after garbage collection. */
    memory: list({ updates: count, bytes: count }).min(1),
    componentsAdded: count,
    componentsRemoved: count,
    componentsMerged: count,
    /** Entries of the diagonals of precisions' factors, looked at after each round. */
    notPositiveDefinite: count,
    sameBytes: z.boolean(),
    fileBytes: count,
  }).min(1),
})
type MillionFigures = z.infer<typeof figures>

function collectGarbage(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
}

function measureModel(
  name: string,
  saved: SavedModel,
  train: Matrix,
  updates: number,
): MillionFigures['models'][number] {
  const collect = collectGarbage()
  const memory: { updates: number; bytes: number }[] = []
  let notPositiveDefinite = 0
  const begun = performance.now()
  const learner = learnRows(saved, train, updates, ({ detector }, done) => {
    const { means, covarianceType, precisionCholesky } = detector.mixture
    const d = means.cols
    const [size, step] = covarianceType === 'diagonal' ? [d, 1] : [d * d, d + 1]
    for (let at = 0; at < precisionCholesky.length; at += size) {
      for (let a = 0; a < d; a++) if (!(precisionCholesky[at + a * step]! > 0)) notPositiveDefinite++
    }
    if (Math.floor((SAMPLES * done) / updates) <= memory.length) return
    collect()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    memory.push({ updates: done, bytes: heapUsed + arrayBuffers })
  })
  const micros = 1000 * (performance.now() - begun)
  const bytes = encodeModelFile(learner.saved())
  const again = encodeModelFile(learnRows(saved, train, updates, () => {}).saved())
  const { componentsAdded, componentsRemoved, componentsMerged } = learner.counters
  return {
    name,
    microsPerUpdate: micros / updates,
    memory,
    componentsAdded,
    componentsRemoved,
    componentsMerged,
    notPositiveDefinite,
    sameBytes: Buffer.compare(again, bytes) === 0,
    fileBytes: bytes.length,
  }
}

/** Calls `visit` after each round. */
function learnRows(
  saved: SavedModel,
  { rows, cols, data }: Matrix,
  updates: number,
  visit: (learner: OnlineUpdater, done: number) => void,
): OnlineUpdater {
  const learner = createOnlineUpdater(saved, { learning: LEARNING, seed: 3 })
  const rng = createRng(11)
  for (let done = 1; done <= updates; done++) {
    const start = rng.nextBelow(rows) * cols
    const far = rng.nextBelow(500) === 0 ? 1 + 20 * rng.nextFloat() : 1
    const row = new Float64Array(cols)
    for (let c = 0; c < cols; c++) row[c] = data[start + c]! * far * (1 + 0.01 * rng.nextNormal())
    learner.arrive(matrixOf(1, cols, row), { assumeNormal: true })
    if (done % ROUND_ROWS === 0) visit(learner, done)
  }
  return learner
}

function page({ updates, loadAverage, models }: MillionFigures): string {
  const memoryText = (bytes: readonly number[]): string =>
    [bytes[0]!, bytes.at(-1)!, Math.max(...bytes)].map((size) => `${fixed(size / 1e6, 1)} MB`).join(', ')
  const grouped = (value: number): string => value.toLocaleString('en')
  return `${grouped(updates)} rows, 1 an arrival (Method 1, a reservoir of 200, forgetting by half in 2,000 rows, components added for what is
novel). Heap and buffers after garbage collection: after ${grouped(models[0]!.memory[0]!.updates)}, at the end, at most.
Times are of the clock, at a load average of ${fixed(loadAverage, 1)}.

${tableOf(models, 1, [
  ['model', ({ name }) => name],
  ['µs a row', ({ microsPerUpdate }) => fixed(microsPerUpdate, 0)],
  ['memory', ({ memory }) => memoryText(memory.map(({ bytes }) => bytes))],
  [
    'components that came, died, were merged',
    (m) => [m.componentsAdded, m.componentsRemoved, m.componentsMerged].join(', '),
  ],
  ['covariances not positive definite', ({ notPositiveDefinite }) => `${notPositiveDefinite}`],
  [
    'again',
    ({ sameBytes }) => `${sameBytes ? 'the same bytes' : 'OTHER BYTES'} (the first ${grouped(updates)})`,
  ],
  ['bytes of the file', ({ fileBytes }) => grouped(fileBytes)],
])}`
}

interface MillionOptions {
  readonly rows: number
}

export const learningMillion = defineStudy<MillionOptions, MillionFigures>({
  name: 'learning-million',
  title: 'Learning on: a million rows',
  description: 'memory, time and replay of mixtures that learn a million rows one by one (data/paper)',
  configure: (command) =>
    command.option(
      '--rows <count>',
      'number of rows to learn, in each of two runs',
      whole(ROUND_ROWS, 100_000_000),
      1_000_000,
    ),
  figures,
  run: async ({ data, rows }) => {
    const { train } = loadRows(join(data, 'paper'), 'sfrig')
    const models = MODELS.map(({ name, options }) => {
      const saved = modelOf(part(train, 0, TRAINING), 1, options)
      const measured = measureModel(name, saved, train, rows)
      note(`${name}: ${fixed(measured.microsPerUpdate, 0)} µs a row`)
      return measured
    })
    return { updates: rows, loadAverage: loadavg()[0] ?? 0, models }
  },
  page,
})

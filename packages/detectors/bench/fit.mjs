/**
 * Time of a fit and of scoring on n = 5,000 rows of D = 23 (the authors' ctu rows).
 *
 *   node packages/detectors/bench/fit.mjs [folder of the paper's rows]
 *
 * Medians of 5 fits and of 9 runs over the rows; prints machine and version. The folder defaults to
 * data/paper under ODDFLOW_SHARED, or ../shared beside the checkout.
 */
import { existsSync } from 'node:fs'
import { cpus } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRng } from '@oddflow/core'
import { gaussianKernel, nearestNeighbours, pairDistanceQuantiles } from '@oddflow/linalg'
import {
  checkParameters,
  createScoreWorkspace,
  defaultNeighbours,
  embedSamples,
  fitDetector,
  quickShiftPlusPlus,
  scoreSamples,
} from '../dist/index.js'
import { readNpy } from './npy.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
const folder =
  process.argv[2] ?? join(process.env.ODDFLOW_SHARED ?? join(checkout, '../shared'), 'data/paper')
if (!existsSync(join(folder, 'ctu'))) {
  console.error(`no rows in ${folder}: give the folder that holds ctu/X_train_r0.npy`)
  process.exit(2)
}
const train = readNpy(join(folder, 'ctu/X_train_r0.npy'))
const median = (runs, f) => {
  const times = []
  for (let i = 0; i < runs; i++) {
    const t = performance.now()
    f()
    times.push(performance.now() - t)
  }
  return times.sort((a, b) => a - b)[runs >> 1]
}
console.log(
  `${cpus()[0].model}, ${cpus().length} logical CPUs, Node ${process.version}, ${process.arch}; n=${train.rows} D=${train.cols}, one thread`,
)
console.log(
  `quantile of all pair distances    ${median(5, () => pairDistanceQuantiles(train, [0.3], createRng(1))).toFixed(0)} ms`,
)
for (const detector of ['oc-kjl-qs', 'oc-nystrom-qs', 'oc-kjl', 'oc-nystrom']) {
  const parameters = checkParameters({ detector })
  let model
  const stages = new Map()
  const runFit = () => {
    let stage
    let since = performance.now()
    model = fitDetector(train, parameters, createRng(1), {
      onProgress(p) {
        const now = performance.now()
        if (stage !== undefined) stages.set(stage, (stages.get(stage) ?? 0) + now - since)
        stage = p.stage
        since = now
      },
    })
  }
  runFit()
  stages.clear()
  const ms = median(5, runFit)
  const k = model.mixture.weights.length
  const split = [...stages].map(([s, t]) => `${s} ${(t / 5).toFixed(0)}`).join(', ')
  console.log(
    `${detector.padEnd(14)} fit ${ms.toFixed(0)} ms (${split}); k=${k}, ${model.fitReport.iterations} EM steps`,
  )
  const workspace = createScoreWorkspace(model)
  for (const batch of [100, 1]) {
    const parts = []
    for (let i = 0; i + batch <= train.rows; i += batch) {
      parts.push({
        rows: batch,
        cols: train.cols,
        data: train.data.slice(i * train.cols, (i + batch) * train.cols),
      })
    }
    const out = new Float64Array(batch)
    const t = median(9, () => {
      for (const part of parts) scoreSamples(model, part, out, workspace)
    })
    console.log(
      `${''.padEnd(14)} score, ${batch} row(s) a call: ${((1e6 * t) / (parts.length * batch)).toFixed(0)} ns a row`,
    )
  }
  const embedded = new Float64Array(train.rows * model.embedding.projection.rows)
  const te = median(9, () => embedSamples(model, train, embedded, workspace))
  console.log(`${''.padEnd(14)} embedding alone: ${((1e6 * te) / train.rows).toFixed(0)} ns a row`)
  if (detector === 'oc-kjl-qs') {
    const points = { rows: train.rows, cols: model.embedding.projection.rows, data: embedded }
    const neighbours = defaultNeighbours(train.rows)
    const tn = median(3, () => nearestNeighbours(points, neighbours))
    const tq = median(3, () => quickShiftPlusPlus(points, neighbours, 0.9))
    console.log(
      `${''.padEnd(14)} ${neighbours} nearest neighbours ${tn.toFixed(0)} ms, QuickShift++ with them ${tq.toFixed(0)} ms`,
    )
  }
}
const tk = median(5, () =>
  gaussianKernel(
    { ...train, rows: 1000, data: train.data.slice(0, 1000 * train.cols) },
    { ...train, rows: 100, data: train.data.slice(0, 100 * train.cols) },
    50,
  ),
)
console.log(`kernel 1000 × 100                 ${tk.toFixed(1)} ms`)

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
import { createKdTree, neighbourRadii, pairDistanceQuantiles } from '@oddflow/linalg'
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
/** Medians of wall time and of this process's CPU time (which a busy machine inflates less), in milliseconds. */
function median(runs, f) {
  const wall = []
  const cpu = []
  for (let i = 0; i < runs; i++) {
    const before = process.cpuUsage()
    const t = performance.now()
    f()
    wall.push(performance.now() - t)
    const { user, system } = process.cpuUsage(before)
    cpu.push((user + system) / 1000)
  }
  const middle = (v) => v.sort((a, b) => a - b)[runs >> 1]
  return { wall: middle(wall), cpu: middle(cpu) }
}
const millis = ({ wall, cpu }) => `${wall.toFixed(0)} ms (CPU ${cpu.toFixed(0)})`
const nanos = ({ wall, cpu }, rows) =>
  `${((1e6 * wall) / rows).toFixed(0)} ns a row (CPU ${((1e6 * cpu) / rows).toFixed(0)})`
console.log(
  `${cpus()[0].model}, ${cpus().length} logical CPUs, Node ${process.version}, ${process.arch}; n=${train.rows} D=${train.cols}, one thread`,
)
console.log(
  `quantile of all pair distances    ${millis(median(5, () => pairDistanceQuantiles(train, [0.3], createRng(1))))}`,
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
    `${detector.padEnd(14)} fit ${millis(ms)} (wall: ${split}); k=${k}, ${model.fitReport.iterations} EM steps`,
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
    console.log(`${''.padEnd(14)} score, ${batch} row(s) a call: ${nanos(t, parts.length * batch)}`)
  }
  const embedded = new Float64Array(train.rows * model.embedding.projection.rows)
  const te = median(9, () => embedSamples(model, train, embedded, workspace))
  console.log(`${''.padEnd(14)} embedding alone: ${nanos(te, train.rows)}`)
  if (detector === 'oc-kjl-qs') {
    const points = { rows: train.rows, cols: model.embedding.projection.rows, data: embedded }
    const neighbours = defaultNeighbours(train.rows)
    const tn = median(3, () => neighbourRadii(createKdTree(points), neighbours))
    const tq = median(3, () => quickShiftPlusPlus(points, neighbours, 0.9))
    console.log(
      `${''.padEnd(14)} radii of ${neighbours} neighbours ${millis(tn)}, QuickShift++ with them ${millis(tq)}`,
    )
  }
}

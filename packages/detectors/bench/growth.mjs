/**
 * How the time and memory of an OC-KJL-QS fit grow with the rows: one size a process, so that the peak is its own.
 *
 *   for n in 5000 50000 500000; do node packages/detectors/bench/growth.mjs $n [folder of the paper's rows]; done
 *
 * Rows are drawn from the authors' ctu rows and jittered by a hundredth of each column's standard deviation. Prints CPU
 * time, the process's peak resident memory, and what the model says was sampled.
 */
import { cpus } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRng } from '@oddflow/core'
import { checkParameters, fitDetector } from '../dist/index.js'
import { readNpy } from './npy.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
const n = Number(process.argv[2] ?? 5000)
const folder =
  process.argv[3] ?? join(process.env.ODDFLOW_SHARED ?? join(checkout, '../shared'), 'data/paper')
const source = readNpy(join(folder, 'ctu/X_train_r0.npy'))
const { cols } = source
const rng = createRng(2)
const jitter = Array.from({ length: cols }, (_, j) => {
  const column = Array.from({ length: source.rows }, (_, i) => source.data[i * cols + j])
  const mean = column.reduce((a, b) => a + b, 0) / column.length
  return 0.01 * Math.sqrt(column.reduce((a, b) => a + (b - mean) ** 2, 0) / column.length)
})
const rows = { rows: n, cols, data: new Float64Array(n * cols) }
for (let i = 0; i < n; i++) {
  const from = rng.nextBelow(source.rows) * cols
  for (let j = 0; j < cols; j++) {
    rows.data[i * cols + j] = source.data[from + j] + jitter[j] * rng.nextNormal()
  }
}
const parameters = checkParameters({})
fitDetector(source, parameters, createRng(1)) // compiles
const before = process.cpuUsage()
const { mixture, fitReport } = fitDetector(rows, parameters, createRng(1))
const { user, system } = process.cpuUsage(before)
const peak = (process.resourceUsage().maxRSS / 1024).toFixed(0)
console.log(
  `n=${n} D=${cols}: ${((user + system) / 1000).toFixed(0)} ms CPU, peak ${peak} MB; k=${mixture.weights.length}, ${fitReport.iterations} EM steps; ${fitReport.notes.join('; ')}`,
)
console.log(`${cpus()[0].model}, Node ${process.version}, ${process.arch}`)

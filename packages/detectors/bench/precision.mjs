/**
 * What float32 kernel values change: scores and AUC of each detector that has both precisions, on the paper
 * authors' rows.
 *
 *   node packages/detectors/bench/precision.mjs [folder of the paper's rows] > table.md
 *
 * Both models come from the same rows and seed. Beside the largest and the median difference of scores stands the
 * change of AUC, and next to it the change that rounding the float64 scores to seven decimals makes: where that is as
 * large, the AUC rests on orders among scores that are equal for all that a detector can know. The folder defaults
 * to data/paper under ODDFLOW_SHARED, or ../shared beside the checkout.
 */
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRng } from '@oddflow/core'
import { checkParameters, createScoreWorkspace, fitDetector, scoreSamples } from '../dist/index.js'
import { readNpy } from './npy.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
const folder =
  process.argv[2] ?? join(process.env.ODDFLOW_SHARED ?? join(checkout, '../shared'), 'data/paper')
if (!existsSync(join(folder, 'ctu'))) {
  console.error(`no rows in ${folder}: give the folder that holds ctu/X_train_r0.npy`)
  process.exit(2)
}

/** Share of pairs (normal, novel) with the novel one below, ties half. */
function auc(scores, novel) {
  const order = Array.from(scores.keys()).sort((a, b) => scores[a] - scores[b])
  let above = 0
  let pairs = 0
  let normals = 0
  for (let i = 0; i < order.length; ) {
    let end = i
    let tiedNovel = 0
    while (end < order.length && scores[order[end]] === scores[order[i]]) tiedNovel += novel[order[end++]]
    const tiedNormal = end - i - tiedNovel
    above += tiedNovel * (normals + tiedNormal / 2)
    normals += tiedNormal
    pairs += tiedNovel
    i = end
  }
  return 1 - above / (pairs * normals)
}

console.log(
  '| set | detector | scaler | guard | AUC f64 | change by f32 | change by rounding | median | largest |',
)
console.log('|---|---|---|---|--:|--:|--:|--:|--:|')
const worst = new Map()
for (const set of ['aecho', 'ctu', 'unb', 'sfrig', 'dwshr']) {
  const train = readNpy(join(folder, set, 'X_train_r0.npy'))
  const test = readNpy(join(folder, set, 'X_test.npy'))
  const novel = readNpy(join(folder, set, 'y_test.npy')).data
  for (const detector of ['oc-kjl-qs', 'oc-nystrom-qs', 'ocsvm']) {
    for (const scaler of ['none', 'standard']) {
      for (const supportGuard of detector === 'ocsvm' ? [undefined] : [true, false]) {
        const [double, single] = ['f64', 'f32'].map((precision) => {
          const model = fitDetector(
            train,
            checkParameters({ detector, scaler, supportGuard, precision }),
            createRng(1),
          )
          return scoreSamples(model, test, new Float64Array(test.rows), createScoreWorkspace(model))
        })
        // the same fit in float64, so that what differs is scoring alone
        const exact = auc(double, novel)
        const change = auc(single, novel) - exact
        const rounding =
          auc(
            double.map((s) => Math.round(s * 1e7) / 1e7),
            novel,
          ) - exact
        const differences = double.map((s, i) => Math.abs(s - single[i])).sort()
        const median = differences[differences.length >> 1]
        const largest = differences[differences.length - 1]
        const cells = [
          exact.toFixed(5),
          change.toExponential(1),
          rounding.toExponential(1),
          median.toExponential(1),
          largest.toExponential(1),
        ]
        console.log(
          `| ${set} | ${detector} | ${scaler} | ${supportGuard === undefined ? '' : supportGuard ? 'yes' : 'no'} | ${cells.join(' | ')} |`,
        )
        const key = `${detector} ${scaler}`
        worst.set(key, Math.max(worst.get(key) ?? 0, Math.abs(change)))
      }
    }
  }
}
console.log('')
for (const [key, value] of worst) console.log(`largest change of AUC, ${key}: ${value.toExponential(1)}`)

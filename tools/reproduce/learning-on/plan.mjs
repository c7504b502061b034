/**
 * The text's own plan: two models from the same first 500 rows; the online one takes in each new row, the batch one is
 * trained anew on all rows so far. Time per arrival, and AUC on the test set.
 *
 * Fitting anew after each of 4,500 rows would take hours and is the same curve with more points: the batch model is
 * fitted at every 500 rows. The online model takes rows one at a time (Method 1 and Method 2) and in batches of 100.
 */
import { createLearner } from '../../../packages/detectors/dist/index.js'
import { aucOf, loadSet, mean, median, part, trainModel } from './shared.mjs'

const SETS = ['aecho', 'sfrig', 'ctu']
const SEEDS = [1, 2, 3]
const FIRST = 500
const LAST = 5000
const STEP = 500
const WAYS = [
  { name: 'one by one, Method 1', rows: 1, learning: { method: 1 }, seeds: SEEDS },
  { name: 'batches of 100, Method 1', rows: 100, learning: { method: 1 }, seeds: SEEDS },
  { name: 'batches of 100, growing U each round', rows: 100, learning: GROWING(), seeds: SEEDS },
]
/** Method 2 converges after each arrival, so it is measured over the first of them alone. */
const METHOD_2_ARRIVALS = 300

function GROWING() {
  return { sketch: { kind: 'grow', rows: 10, everyRounds: 1, maximumLandmarks: 200 } }
}

export function planExperiment(data) {
  return { first: FIRST, seeds: SEEDS, sets: SETS.map((set) => onSet(data, set)) }
}

function onSet(data, set) {
  const { train, normal, novel } = loadSet(data, set)
  const grid = Array.from({ length: (LAST - FIRST) / STEP + 1 }, (_, i) => FIRST + i * STEP)
  const batch = SEEDS.map((seed) =>
    grid.map((n) => {
      const begun = performance.now()
      const { detector } = trainModel(part(train, 0, n), seed)
      const millis = performance.now() - begun
      return { n, millis, auc: aucOf(detector, normal, novel) }
    }),
  )
  const online = WAYS.map(({ name, rows, learning, seeds }) => ({
    name,
    runs: seeds.map((seed) => runOnline({ train, normal, novel }, seed, rows, learning, LAST)),
  }))
  const method2 = runOnline({ train, normal, novel }, 1, 1, { method: 2 }, FIRST + METHOD_2_ARRIVALS)
  const at = (points, n) => points.find((p) => p.n === n)
  const result = {
    set,
    batch: grid.map((n) => ({
      n,
      auc: mean(batch.map((points) => at(points, n).auc)),
      millis: median(batch.map((points) => at(points, n).millis)),
    })),
    online: online.map(({ name, runs }) => ({
      name,
      points: grid.map((n) => ({
        n,
        auc: mean(runs.map(({ points }) => at(points, n).auc)),
        millis: median(runs.map(({ points }) => at(points, n).millis)),
      })),
      refusedRounds: runs.reduce((sum, { refusedRounds }) => sum + refusedRounds, 0),
      rounds: runs.reduce((sum, { rounds }) => sum + rounds, 0),
    })),
    method2Millis: method2.points[method2.points.length - 1].millis,
  }
  console.log(
    set,
    JSON.stringify(result.batch.at(-1)),
    JSON.stringify(result.online.map((o) => o.points.at(-1))),
  )
  return result
}

/** Rows are taken as normal, as training rows are; `millis` is the mean time per row since the last point. */
function runOnline({ train, normal, novel }, seed, rows, learning, last) {
  const learner = createLearner(trainModel(part(train, 0, FIRST), seed), { learning, seed })
  const points = [{ n: FIRST, auc: aucOf(learner.detector, normal, novel), millis: 0 }]
  let spent = 0
  let since = 0
  for (let at = FIRST; at < last; at += rows) {
    const arrivals = part(train, at, at + rows)
    const begun = performance.now()
    learner.arrive(arrivals, { assumeNormal: true })
    spent += performance.now() - begun
    since += rows
    if ((at + rows) % STEP !== 0 && at + rows !== last) continue
    points.push({ n: at + rows, auc: aucOf(learner.detector, normal, novel), millis: spent / since })
    spent = 0
    since = 0
  }
  const { rounds, refusedRounds } = learner.counters
  return { points, rounds, refusedRounds }
}

/**
 * The text's own plan: two models from the same first 500 rows; the online one takes in each new row, the batch one is
 * trained anew on all rows so far. Time per arrival, and AUC on the test set. Time is the processor's, which other work on the
 * machine changes less than it does the clock's.
 *
 * Fitting anew after each of 4,500 rows would take hours and is the same curve with more points: the batch model is
 * fitted at every 500 rows, and the online one asked for its AUC at every 100. It takes rows one at a time (Method 1 and
 * Method 2) and in batches of 100; with a sketch that grows each round; and, in batches of 500, as the text's loop does it, with every row
 * kept and projected again.
 */
import { createLearner } from '../../../packages/detectors/dist/index.js'
import { aucOf, loadSet, mean, median, part, trainModel } from './shared.mjs'

const SETS = ['aecho', 'sfrig', 'ctu']
const SEEDS = [1, 2, 3]
const FIRST = 500
const LAST = 5000
const STEP = 500
const ONLINE_STEP = 100
const WAYS = [
  { name: 'one by one, Method 1', rows: 1, learning: { method: 1 }, seeds: SEEDS },
  { name: 'batches of 100, Method 1', rows: 100, learning: { method: 1 }, seeds: SEEDS },
  { name: 'batches of 100, growing U each round', rows: 100, learning: GROWING(), seeds: SEEDS },
  {
    name: "batches of 500, the text's loop",
    rows: 500,
    learning: { ...GROWING(), roundRows: 500, reservoirRows: 'all', calibrationShare: 0, guard: null },
    seeds: SEEDS,
    keepsAll: true,
  },
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
  const onlineGrid = Array.from(
    { length: (LAST - FIRST) / ONLINE_STEP + 1 },
    (_, i) => FIRST + i * ONLINE_STEP,
  )
  const batch = SEEDS.map((seed) =>
    grid.map((n) => {
      const begun = processorMillis()
      const { detector } = trainModel(part(train, 0, n), seed)
      const millis = processorMillis() - begun
      return { n, millis, auc: aucOf(detector, normal, novel) }
    }),
  )
  const online = WAYS.map((way) => ({
    name: way.name,
    runs: way.seeds.map((seed) => runOnline({ train, normal, novel }, seed, way, LAST)),
  }))
  const method2 = runOnline(
    { train, normal, novel },
    1,
    { rows: 1, learning: { method: 2 } },
    FIRST + METHOD_2_ARRIVALS,
  )
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
      points: onlineGrid
        .filter((n) => runs[0].points.some((p) => p.n === n))
        .map((n) => ({
          n,
          auc: mean(runs.map(({ points }) => at(points, n).auc)),
          millis: median(runs.map(({ points }) => at(points, n).millis)),
        })),
      refusedRounds: runs.reduce((sum, { refusedRounds }) => sum + refusedRounds, 0),
      rounds: runs.reduce((sum, { rounds }) => sum + rounds, 0),
    })),
    method2Millis: mean(method2.points.slice(1).map(({ millis }) => millis)),
  }
  console.log(
    set,
    JSON.stringify(result.batch.at(-1)),
    JSON.stringify(result.online.map((o) => o.points.at(-1))),
  )
  return result
}

/** Rows are taken as normal, as training rows are; `millis` is the mean time per row since the last point. */
function runOnline({ train, normal, novel }, seed, { rows, learning, keepsAll = false }, last) {
  const first = part(train, 0, FIRST)
  const learner = createLearner(trainModel(first, seed), {
    learning,
    seed,
    // a fifth of them calibrates, as `trainModel` has it
    ...(keepsAll ? { trainingRows: part(train, FIRST / 5, FIRST) } : {}),
  })
  const points = [{ n: FIRST, auc: aucOf(learner.detector, normal, novel), millis: 0 }]
  let spent = 0
  let since = 0
  for (let at = FIRST; at < last; at += rows) {
    const arrivals = part(train, at, at + rows)
    const begun = processorMillis()
    learner.arrive(arrivals, { assumeNormal: true })
    spent += processorMillis() - begun
    since += rows
    if ((at + rows) % ONLINE_STEP !== 0) continue
    points.push({ n: at + rows, auc: aucOf(learner.detector, normal, novel), millis: spent / since })
    spent = 0
    since = 0
  }
  const { rounds, refusedRounds } = learner.counters
  return { points, rounds, refusedRounds }
}

function processorMillis() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/**
 * A mode of behaviour that training lacked: one of four clusters of normal rows (Lloyd's k-means on standardised
 * rows) is taken out of the training rows, and comes later with the rest.
 *
 * Frozen: as trained, which is also what an update is that changes nothing. Update: every row is said to be normal. By
 * itself: novel rows are held until their like came in three of ten periods. Whole: trained with the mode from the
 * beginning.
 */
import { concatRows, createRng, takeRows } from '../../../packages/core/dist/index.js'
import { createLearner } from '../../../packages/detectors/dist/index.js'
import { aucOf, loadSet, novelShare, part, trainModel } from './shared.mjs'

const SETS = ['aecho', 'sfrig']
const SEEDS = [1, 2, 3]
const CLUSTERS = 4
const TRAINING = 1250
const PERIODS = 10
/** Rows of the mode, and others, in each period. */
const MODE_ROWS = 50
const OTHER_ROWS = 50

export function modeExperiment(data) {
  const cases = SETS.flatMap((set) => {
    const { train, normal, novel } = loadSet(data, set)
    const cluster = kMeans(part(train, 0, 2000), CLUSTERS, createRng(1))
    const ofTrain = cluster(train)
    const ofNormal = cluster(normal)
    return Array.from({ length: CLUSTERS }, (_, mode) => mode)
      .filter((mode) => {
        const size = ofTrain.filter((c) => c === mode).length
        return size >= PERIODS * 20 && size <= 0.7 * train.rows && ofNormal.includes(mode)
      })
      .flatMap((mode) =>
        SEEDS.map((seed) => oneCase({ set, train, normal, novel, ofTrain, ofNormal, mode, seed })),
      )
  })
  return { seeds: SEEDS, cases }
}

function oneCase({ set, train, normal, novel, ofTrain, ofNormal, mode, seed }) {
  const numbers = Array.from(ofTrain.keys())
  const inside = numbers.filter((i) => ofTrain[i] === mode)
  const outside = numbers.filter((i) => ofTrain[i] !== mode)
  const frozen = trainModel(takeRows(train, outside.slice(0, TRAINING)), seed)
  const whole = trainModel(part(train, 0, TRAINING), seed)
  const periods = Array.from({ length: PERIODS }, (_, p) =>
    concatRows([
      takeRows(train, outside.slice(TRAINING + p * OTHER_ROWS, TRAINING + (p + 1) * OTHER_ROWS)),
      takeRows(train, inside.slice(p * MODE_ROWS, (p + 1) * MODE_ROWS)),
    ]),
  )
  const run = (learning, assumeNormal) => {
    const learner = createLearner(frozen, { learning, seed })
    for (const [period, rows] of periods.entries()) learner.arrive(rows, { period, assumeNormal })
    learner.endRound()
    return learner.saved()
  }
  const updated = run({}, true)
  const byItself = run({ confirmPeriods: 3 }, false)
  const modeRows = takeRows(
    normal,
    Array.from(ofNormal.keys()).filter((i) => ofNormal[i] === mode),
  )
  const figures = (saved) => ({
    auc: aucOf(saved.detector, normal, novel),
    modeNovel: novelShare(saved, modeRows),
    falsePositives: novelShare(saved, normal),
    detected: novelShare(saved, novel),
  })
  const result = {
    set,
    mode,
    seed,
    modeShare: inside.length / train.rows,
    frozen: figures(frozen),
    updated: figures(updated),
    byItself: figures(byItself),
    whole: figures(whole),
  }
  console.log(
    set,
    mode,
    seed,
    ...['frozen', 'updated', 'byItself', 'whole'].map((k) => result[k].auc.toFixed(3)),
  )
  return result
}

/** The numbers of the clusters of rows, by centres found in standardised rows. */
export function kMeans(rows, k, rng) {
  const { cols, data, rows: n } = rows
  const centre = new Float64Array(cols)
  const scale = new Float64Array(cols)
  for (let i = 0; i < n; i++) for (let c = 0; c < cols; c++) centre[c] += data[i * cols + c] / n
  for (let i = 0; i < n; i++)
    for (let c = 0; c < cols; c++) scale[c] += (data[i * cols + c] - centre[c]) ** 2 / n
  for (let c = 0; c < cols; c++) scale[c] = Math.sqrt(scale[c]) || 1
  const value = (of, i, c) => (of.data[i * cols + c] - centre[c]) / scale[c]
  const centres = Array.from({ length: k }, () => {
    const i = rng.nextBelow(n)
    return Array.from({ length: cols }, (_, c) => value(rows, i, c))
  })
  const assign = (of) =>
    Array.from({ length: of.rows }, (_, i) => {
      let best = 0
      let nearest = Number.POSITIVE_INFINITY
      centres.forEach((point, j) => {
        let sum = 0
        for (let c = 0; c < cols; c++) sum += (value(of, i, c) - point[c]) ** 2
        if (sum < nearest) {
          nearest = sum
          best = j
        }
      })
      return best
    })
  for (let step = 0; step < 20; step++) {
    const owner = assign(rows)
    centres.forEach((point, j) => {
      const own = owner.flatMap((cluster, i) => (cluster === j ? [i] : []))
      if (own.length === 0) return
      for (let c = 0; c < cols; c++)
        point[c] = own.reduce((sum, i) => sum + value(rows, i, c), 0) / own.length
    })
  }
  return assign
}

/**
 * A slow poisoner: one flow in a hundred, every day for thirty days, is his, and he knows the model. Each of them is as
 * far on the way from a normal row to the target (thirty novel rows next to one another that the model flags) as the
 * model of that day lets pass.
 *
 * Nobody's poison, for comparison; without a guard; with it, watching made points alone; with it, watching other known-novel rows too; and learning only
 * what the model as it was trained finds normal too. Detection of the target, false positives on unseen normal rows.
 */
import { concatRows, createRng, matrixOf, takeRows } from '../../../packages/core/dist/index.js'
import { createLearner, createScoreWorkspace, scoreSamples } from '../../../packages/detectors/dist/index.js'
import { loadSet, novelShare, part, scoresOf, trainModel } from './shared.mjs'

const SETS = ['sfrig', 'aecho']
const DAYS = 30
const FLOWS_A_DAY = 300
const POISON_A_DAY = 3
const TARGET_ROWS = 30
const TRAINING = 1500
const STEPS_OF_THE_WAY = 50

const GUARD = { maximumNoveltyLoss: 0.02, maximumFalsePositiveRise: 0.1, shadowAgrees: false }
const WAYS = [
  { name: 'no guard, no poisoner', learning: { guard: null }, known: false, poison: 0 },
  { name: 'no guard', learning: { guard: null }, known: false },
  { name: 'guard, made points', learning: { guard: GUARD }, known: false },
  { name: 'guard, known-novel rows too', learning: { guard: GUARD }, known: true },
  { name: 'guard, shadow agrees', learning: { guard: { ...GUARD, shadowAgrees: true } }, known: false },
]

export function poisonExperiment(data) {
  return {
    days: DAYS,
    flowsADay: FLOWS_A_DAY,
    poisonADay: POISON_A_DAY,
    sets: SETS.map((set) => onSet(data, set)),
  }
}

function onSet(data, set) {
  const { train, normal, novel } = loadSet(data, set)
  const saved = trainModel(part(train, 0, TRAINING), 1)
  const scores = scoresOf(saved.detector, novel)
  const flagged = Array.from(scores.keys()).filter((i) => scores[i] <= saved.threshold.value)
  const first = flagged[createRng(7).nextBelow(flagged.length)]
  const near = [...flagged].sort(
    (a, b) => distance(novel, a, novel, first) - distance(novel, b, novel, first),
  )
  const target = takeRows(novel, near.slice(0, TARGET_ROWS))
  const others = takeRows(novel, near.slice(TARGET_ROWS))
  const clean = part(train, TRAINING, train.rows)
  const nearest = Array.from({ length: target.rows }, (_, t) => {
    let best = 0
    for (let i = 1; i < clean.rows; i++) {
      if (distance(target, t, clean, i) < distance(target, t, clean, best)) best = i
    }
    return best
  })
  const runs = WAYS.map(({ name, learning, known, poison: poisonADay = POISON_A_DAY }) => {
    const learner = createLearner(saved, { learning, seed: 1, ...(known ? { knownNovel: others } : {}) })
    const rng = createRng(9)
    const days = []
    for (let day = 1; day <= DAYS; day++) {
      const flows = takeRows(
        clean,
        Array.from({ length: FLOWS_A_DAY - POISON_A_DAY }, () => rng.nextBelow(clean.rows)),
      )
      let reached = 0
      const poison = Array.from({ length: poisonADay }, () => {
        const t = rng.nextBelow(target.rows)
        const { row, share } = farthest(learner, clean, nearest[t], target, t)
        reached += share / POISON_A_DAY
        return row
      })
      learner.arrive(concatRows([flows, ...poison]), { period: day })
      days.push({
        day,
        reached,
        detected: novelShare(learner, target),
        falsePositives: day % 5 === 0 ? novelShare(learner, normal) : null,
      })
    }
    learner.endRound()
    const { rounds, refusedRounds, refused, learnt } = learner.counters
    const result = { name, days, rounds, refusedRounds, refused, learnt }
    console.log(set, name, days.map((d) => d.detected.toFixed(2)).join(' '), refusedRounds, rounds)
    return result
  })
  return { set, frozen: { detected: 1, falsePositives: novelShare(saved, normal) }, known: others.rows, runs }
}

/** The row farthest on the way to the target that the model lets pass; where none does, the normal row itself. */
function farthest({ detector, threshold }, from, i, to, t) {
  const { cols } = from
  const way = matrixOf(STEPS_OF_THE_WAY + 1, cols, new Float64Array((STEPS_OF_THE_WAY + 1) * cols))
  for (let s = 0; s <= STEPS_OF_THE_WAY; s++) {
    const share = s / STEPS_OF_THE_WAY
    for (let c = 0; c < cols; c++) {
      way.data[s * cols + c] = (1 - share) * from.data[i * cols + c] + share * to.data[t * cols + c]
    }
  }
  const scores = scoreSamples(detector, way, new Float64Array(way.rows), createScoreWorkspace(detector))
  let best = 0
  for (let s = 0; s < way.rows; s++) if (scores[s] > threshold.value) best = s
  return { row: part(way, best, best + 1), share: best / STEPS_OF_THE_WAY }
}

function distance(a, i, b, j) {
  let sum = 0
  for (let c = 0; c < a.cols; c++) sum += (a.data[i * a.cols + c] - b.data[j * b.cols + c]) ** 2
  return sum
}

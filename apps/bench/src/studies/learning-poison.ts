/**
 * A slow poisoner who knows the model: one flow in a hundred, each as far from a normal row towards 30 novel rows as
 * that day's model lets pass.
 */

import { join } from 'node:path'
import { concatRows, createRng, type Matrix, matrixOf, takeRows } from '@oddflow/core'
import { createOnlineUpdater, type LearningOptions, type OnlineUpdater } from '@oddflow/online'
import { z } from 'zod'
import { whole } from '../commands/options.js'
import { part } from '../datasets/pools.js'
import { count, list, share, text } from '../files.js'
import { note } from '../output.js'
import { scoresOf } from '../run/trial-model.js'
import { tableOf } from '../tables/table.js'
import { novelShare } from './flows.js'
import { INTRODUCTION, loadRows, modelOf } from './learning-plan.js'
import { type Drawing, defineStudy, percent } from './study.js'

const SETS = ['sfrig', 'aecho']
const FLOWS_A_DAY = 300
const POISON_A_DAY = 3
const TARGET_ROWS = 30
const TRAINING = 1500
const STEPS_OF_THE_WAY = 50

interface Way {
  readonly name: string
  readonly learning: LearningOptions
  /** Whether the guard watches the other novel rows too. */
  readonly isKnown?: boolean
  readonly isClean?: boolean
}

const GUARD = { maximumNoveltyLoss: 0.02, maximumFalsePositiveRise: 0.1, shadowAgrees: false }
const WAYS: readonly Way[] = [
  { name: 'no guard, no poisoner', learning: { guard: null }, isClean: true },
  { name: 'no guard', learning: { guard: null } },
  { name: 'guard, made points', learning: { guard: GUARD } },
  { name: 'guard, known-novel rows too', learning: { guard: GUARD }, isKnown: true },
  { name: 'guard, shadow agrees', learning: { guard: { ...GUARD, shadowAgrees: true } } },
]

const figures = z.strictObject({
  sets: list({
    set: text,
    /** Share of normal test rows that the model flags as trained. */
    frozenFalsePositives: share,
    runs: list({
      name: text,
      /** `reached`: share of the way to the target, mean of the day; `detected`: share of the target. */
      days: list({ reached: share, detected: share }).min(1),
      /** At the end. */
      falsePositives: share,
      rounds: count,
      refusedRounds: count,
    }),
  }).min(1),
})
type PoisonFigures = z.infer<typeof figures>
type SetFigures = PoisonFigures['sets'][number]

function measureSet(paper: string, set: string, days: number): SetFigures {
  const { train, normal, novel } = loadRows(paper, set)
  const saved = modelOf(part(train, 0, TRAINING), 1)
  const scores = scoresOf(saved.detector, novel)
  const flagged = [...scores.keys()].filter((i) => scores[i]! <= saved.threshold.value)
  const first = flagged[createRng(7).nextBelow(flagged.length)]!
  const near = flagged.sort((a, b) => distance(novel, a, novel, first) - distance(novel, b, novel, first))
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
  const runs = WAYS.map(({ name, learning, isKnown = false, isClean = false }) => {
    const learner = createOnlineUpdater(saved, {
      learning,
      seed: 1,
      ...(isKnown ? { knownNovel: others } : {}),
    })
    const rng = createRng(9)
    const measured = Array.from({ length: days }, (_, day) => {
      const flows = Array.from({ length: FLOWS_A_DAY - POISON_A_DAY }, () => rng.nextBelow(clean.rows))
      let reached = 0
      const poison = Array.from({ length: isClean ? 0 : POISON_A_DAY }, () => {
        const t = rng.nextBelow(target.rows)
        const { row, share } = farthest(learner, clean, nearest[t]!, target, t)
        reached += share / POISON_A_DAY
        return row
      })
      learner.arrive(concatRows([takeRows(clean, flows), ...poison]), { period: day + 1 })
      return { reached: Math.min(reached, 1), detected: novelShare(learner, target) }
    })
    const falsePositives = novelShare(learner, normal)
    learner.endRound()
    const { rounds, refusedRounds } = learner.counters
    return { name, days: measured, falsePositives, rounds, refusedRounds }
  })
  return { set, frozenFalsePositives: novelShare(saved, normal), runs }
}

/** The row farthest on the way to the target that the model lets pass; where none does, the normal row itself. */
function farthest(
  { detector, threshold }: OnlineUpdater,
  from: Matrix,
  i: number,
  to: Matrix,
  t: number,
): { readonly row: Matrix; readonly share: number } {
  const { cols } = from
  const way = matrixOf(
    STEPS_OF_THE_WAY + 1,
    cols,
    Float64Array.from({ length: (STEPS_OF_THE_WAY + 1) * cols }, (_, at) => {
      const share = Math.floor(at / cols) / STEPS_OF_THE_WAY
      return (1 - share) * from.data[i * cols + (at % cols)]! + share * to.data[t * cols + (at % cols)]!
    }),
  )
  let best = 0
  for (const [s, score] of scoresOf(detector, way).entries()) if (score > threshold.value) best = s
  return { row: part(way, best, best + 1), share: best / STEPS_OF_THE_WAY }
}

function distance(a: Matrix, i: number, b: Matrix, j: number): number {
  let sum = 0
  for (let c = 0; c < a.cols; c++) sum += (a.data[i * a.cols + c]! - b.data[j * b.cols + c]!) ** 2
  return sum
}

function page({ sets }: PoisonFigures): string {
  return `${INTRODUCTION}

${sets[0]!.runs[0]!.days.length} days of ${FLOWS_A_DAY} flows, ${POISON_A_DAY} of them a poisoner's who knows the model: each as far on the way from a normal row to the target (30 novel
rows that the model flags) as the model of that day lets pass. Share of the target that is detected.

${tableOf(
  sets.flatMap(({ runs, ...set }) => runs.map((run) => ({ ...set, ...run }))),
  2,
  [
    ['set', ({ set }) => set],
    ['', ({ name }) => name],
    ['lowest', ({ days }) => percent(Math.min(...days.map(({ detected }) => detected)))],
    ['at the end', ({ days }) => percent(days.at(-1)!.detected)],
    [
      'farthest that a poisoned row got',
      ({ days }) => percent(Math.max(...days.map(({ reached }) => reached))),
    ],
    [
      'false positives at the end',
      (run) => `${percent(run.falsePositives)} (frozen: ${percent(run.frozenFalsePositives)})`,
    ],
    ['rounds refused', ({ refusedRounds, rounds }) => `${refusedRounds} of ${rounds}`],
  ],
)}

![poison](learning-poison.svg)`
}

function pictures({ sets }: PoisonFigures, { renderCurves }: Drawing): Record<string, string> {
  const points = sets.flatMap(({ set, runs }) =>
    runs.flatMap(({ name, days }) =>
      days.map(({ detected }, i) => ({ panel: set, curve: name, x: i + 1, y: 100 * detected })),
    ),
  )
  return {
    'learning-poison.svg': renderCurves('What a slow poisoner does to a model that learns on', points, [
      'day',
      'target detected, %',
    ]),
  }
}

interface PoisonOptions {
  readonly days: number
}

export const learningPoison = defineStudy<PoisonOptions, PoisonFigures>({
  name: 'learning-poison',
  title: 'Learning on: a slow poisoner',
  description: 'what a poisoner who knows the model can make an online-learning mixture accept (data/paper)',
  configure: (command) =>
    command.option('--days <count>', 'days that the poisoner is active', whole(1, 1000), 30),
  figures,
  run: async ({ data, days }) => ({
    sets: SETS.map((set) => {
      const measured = measureSet(join(data, 'paper'), set, days)
      note(`${set}: ${measured.runs.map((run) => percent(run.days.at(-1)!.detected)).join(', ')}`)
      return measured
    }),
  }),
  page,
  pictures,
})

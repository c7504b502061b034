/**
 * A mode that training lacked: one of four clusters of normal rows (k-means) is left out of training and comes later.
 * *By itself*: novel rows are held until similar rows came in three of ten periods.
 */

import { join } from 'node:path'
import { concatRows, createRng, type Matrix, type Rng, takeRows } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { createOnlineUpdater, type LearningOptions } from '@oddflow/online'
import { z } from 'zod'
import { numbersOf, part } from '../datasets/pools.js'
import { count, share, text } from '../files.js'
import { note } from '../output.js'
import { tableOf } from '../tables/table.js'
import { aucOf, novelShare } from './flows.js'
import {
  INTRODUCTION,
  type LearningRows,
  loadRows,
  modelOf,
  seedList,
  withLearningSeeds,
} from './learning-plan.js'
import { defineStudy, fraction, mean, percent, type SeedOptions, unique } from './study.js'

const SETS = ['aecho', 'sfrig']
const CLUSTERS = 4
const CLUSTERED_ROWS = 2000
const TRAINING = 1250
const PERIODS = 10
/** Rows of the mode, and others, in each period. */
const MODE_ROWS = 50
const OTHER_ROWS = 50
type Way = 'frozen' | 'updated' | 'byItself' | 'whole'

/** `modeNovel`: share of the mode's test rows that are called novel. */
const measured = z.strictObject({ auc: share, modeNovel: share })
const oneCase = z.strictObject({
  set: text,
  mode: count,
  seed: count,
  modeShare: share,
  frozen: measured,
  updated: measured,
  byItself: measured,
  whole: measured,
})
const figures = z.strictObject({ cases: z.array(oneCase).max(100_000) })
type ModeFigures = z.infer<typeof figures>
type Case = z.infer<typeof oneCase>

function measureSet(rows: LearningRows, seeds: readonly number[]): Case[] {
  const { train, normal } = rows
  const cluster = kMeans(part(train, 0, CLUSTERED_ROWS), CLUSTERS, createRng(1))
  const [ofTrain, ofNormal] = [cluster(train), cluster(normal)]
  const modes = Array.from({ length: CLUSTERS }, (_, mode) => mode).filter((mode) => {
    const size = ofTrain.filter((c) => c === mode).length
    return size >= PERIODS * 20 && size <= 0.7 * train.rows && ofNormal.includes(mode)
  })
  return modes.flatMap((mode) => seeds.map((seed) => measureCase(rows, ofTrain, ofNormal, mode, seed)))
}

function measureCase(
  { set, train, normal, novel }: LearningRows,
  ofTrain: readonly number[],
  ofNormal: readonly number[],
  mode: number,
  seed: number,
): Case {
  const inside = numbersOf(ofTrain, mode)
  const outside = ofTrain.flatMap((c, i) => (c === mode ? [] : [i]))
  const frozen = modelOf(takeRows(train, outside.slice(0, TRAINING)), seed)
  const periods = Array.from({ length: PERIODS }, (_, p) =>
    concatRows([
      takeRows(train, outside.slice(TRAINING + p * OTHER_ROWS, TRAINING + (p + 1) * OTHER_ROWS)),
      takeRows(train, inside.slice(p * MODE_ROWS, (p + 1) * MODE_ROWS)),
    ]),
  )
  const run = (learning: LearningOptions, assumeNormal: boolean): SavedModel => {
    const learner = createOnlineUpdater(frozen, { learning, seed })
    for (const [period, rows] of periods.entries()) learner.arrive(rows, { period, assumeNormal })
    learner.endRound()
    return learner.saved()
  }
  const modeRows = takeRows(normal, numbersOf(ofNormal, mode))
  const measure = (saved: SavedModel) => ({
    auc: aucOf(saved.detector, normal, novel),
    modeNovel: novelShare(saved, modeRows),
  })
  return {
    set,
    mode,
    seed,
    modeShare: inside.length / train.rows,
    frozen: measure(frozen),
    updated: measure(run({}, true)),
    byItself: measure(run({ confirmPeriods: 3 }, false)),
    whole: measure(modelOf(part(train, 0, TRAINING), seed)),
  }
}

/** Gives the numbers of the clusters of rows, by centres found in standardised rows. */
function kMeans(rows: Matrix, k: number, rng: Rng): (of: Matrix) => number[] {
  const { cols, data, rows: n } = rows
  const centre = new Float64Array(cols)
  const scale = new Float64Array(cols)
  for (let at = 0; at < data.length; at++) centre[at % cols]! += data[at]! / n
  for (let at = 0; at < data.length; at++) scale[at % cols]! += (data[at]! - centre[at % cols]!) ** 2 / n
  for (let c = 0; c < cols; c++) scale[c] = Math.sqrt(scale[c]!) || 1
  const value = (of: Matrix, i: number, c: number): number =>
    (of.data[i * cols + c]! - centre[c]!) / scale[c]!
  const columns = Array.from({ length: cols }, (_, c) => c)
  const centres = Array.from({ length: k }, () => {
    const i = rng.nextBelow(n)
    return columns.map((c) => value(rows, i, c))
  })
  const assign = (of: Matrix): number[] =>
    Array.from({ length: of.rows }, (_, i) => {
      const distances = centres.map((point) =>
        point.reduce((sum, at, c) => sum + (value(of, i, c) - at) ** 2, 0),
      )
      return distances.indexOf(Math.min(...distances))
    })
  for (let step = 0; step < 20; step++) {
    const owner = assign(rows)
    for (const [j, point] of centres.entries()) {
      const own = numbersOf(owner, j)
      if (own.length === 0) continue
      for (const c of columns) {
        point[c] = own.reduce((sum, i) => sum + value(rows, i, c), 0) / own.length
      }
    }
  }
  return assign
}

function page({ cases }: ModeFigures): string {
  const seeds = unique(cases.map(({ seed }) => seed))
  const groups = unique(cases.map(({ set, mode }) => `${set}, ${mode}`)).map((name) => {
    const own = cases.filter(({ set, mode }) => `${set}, ${mode}` === name)
    const of = (way: Way, key: 'auc' | 'modeNovel'): number => mean(own.map((one) => one[way][key]))
    return { name, modeShare: own[0]!.modeShare, of }
  })
  const lost = groups.filter(({ of }) => of('whole', 'auc') - of('frozen', 'auc') >= 0.05)
  const regained = lost.filter(({ of }) => of('updated', 'auc') - of('frozen', 'auc') >= 0.05)
  return `${INTRODUCTION}

One of four clusters of the normal rows is taken out of training (1,250 rows) and comes later: 1,000 rows, half of them
of the mode. *Whole* had it from the beginning. AUC, and the share of the mode's own test rows that are called novel;
means of seeds ${seeds.join(', ')}.

${tableOf(groups, 1, [
  ['set, mode', ({ name }) => name],
  ['share of rows', ({ modeShare }) => percent(modeShare)],
  ['frozen', ({ of }) => fraction(of('frozen', 'auc'))],
  ['updated, said to be normal', ({ of }) => fraction(of('updated', 'auc'))],
  ['by itself, confirmed', ({ of }) => fraction(of('byItself', 'auc'))],
  ['whole', ({ of }) => fraction(of('whole', 'auc'))],
  ['mode novel: frozen', ({ of }) => percent(of('frozen', 'modeNovel'))],
  ['updated', ({ of }) => percent(of('updated', 'modeNovel'))],
  ['by itself', ({ of }) => percent(of('byItself', 'modeNovel'))],
])}

In ${lost.length} of ${groups.length} cases the frozen model is .05 or more below the whole one; in ${regained.length} of these the update gains .05 or more.
An update that changes nothing is the frozen column.`
}

export const learningMode = defineStudy<SeedOptions, ModeFigures>({
  name: 'learning-mode',
  title: 'Learning on: a mode that training lacked',
  description:
    'train without one kind of normal rows and add it by an update: how much of the lost AUC comes back (data/paper)',
  configure: withLearningSeeds,
  figures,
  run: async ({ data, seeds }) => ({
    cases: SETS.flatMap((set) => {
      const cases = measureSet(loadRows(join(data, 'paper'), set), seedList(seeds))
      note(`${set}: ${cases.map(({ updated }) => fraction(updated.auc)).join(', ')}`)
      return cases
    }),
  }),
  page,
})

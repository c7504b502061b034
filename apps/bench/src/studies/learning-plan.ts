/**
 * The paper source's plan: an online and a batch model from the same first 500 rows; time of an arrival, and AUC. The
 * batch model is fitted at every 500 rows, since a fit after each of 4,500 rows takes hours and gives the same curve.
 */

import { join } from 'node:path'
import { createRng, type Matrix, takeRows } from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  type DetectorOptions,
  fitDetector,
  type SavedModel,
} from '@oddflow/detectors'
import { createOnlineUpdater, type LearningOptions } from '@oddflow/online'
import { z } from 'zod'
import { publishedRows } from '../datasets/load-repeat.js'
import { numbersOf, part } from '../datasets/pools.js'
import { count, list, share, text } from '../files.js'
import { note } from '../output.js'
import { processorSeconds, VERSION } from '../run/machine.js'
import { scoresOf } from '../run/trial-model.js'
import { fixed, markdownTable } from '../tables/table.js'
import { aucOf } from './flows.js'
import {
  type Drawing,
  defineStudy,
  fraction,
  mean,
  median,
  type SeedOptions,
  signed,
  withSeeds,
} from './study.js'

// ---- what the studies of online learning share: rows of the authors, and models of them

export const INTRODUCTION = `What \`oddflow update\` and \`createOnlineUpdater\` do, on real rows. OC-KJL-QS with the guard and everything else by default,
n rows of which a fifth calibrates the threshold at \`--fpr 0.01\`.`

export const withLearningSeeds = withSeeds('seeds of models and streams', 3)

export const seedList = (seeds: number): number[] => Array.from({ length: seeds }, (_, i) => i + 1)

export interface LearningRows {
  readonly set: string
  readonly train: Matrix
  /** Test rows. */
  readonly normal: Matrix
  readonly novel: Matrix
}

/** Of one of the authors' sets, by its folder: the first repeat. */
export function loadRows(paper: string, set: string): LearningRows {
  const { train, test, isNovel } = publishedRows(paper)
    .find(({ folder }) => folder === set)!
    .load(0)
  const ofLabel = (label: number): Matrix => takeRows(test, numbersOf(isNovel, label))
  return { set, train, normal: ofLabel(0), novel: ofLabel(1) }
}

/** A fifth of the rows, the first, calibrates it at --fpr 0.01. */
export function modelOf(rows: Matrix, seed: number, options: DetectorOptions = {}): SavedModel {
  const calibration = Math.floor(rows.rows / 5)
  const parameters = checkParameters(options)
  const fitted = part(rows, calibration, rows.rows)
  const detector = fitDetector(fitted, parameters, createRng(seed).fork('fit'))
  return {
    detector,
    contract: {
      featureSet: 'rows',
      featureSetVersion: 1,
      dimension: rows.cols,
      scaler: parameters.scaler,
    },
    threshold: calibrateThreshold(scoresOf(detector, part(rows, 0, calibration)), 0.01),
    onePacketRule: null,
    provenance: { oddflowVersion: VERSION, seed, dataSha256: '0'.repeat(64), rows: rows.rows },
  }
}

// ---- this study

const SETS = ['aecho', 'sfrig', 'ctu']
const FIRST = 500
const LAST = 5000
const STEP = 500
const ONLINE_STEP = 100
const GROWING: LearningOptions = {
  sketch: { kind: 'grow', rows: 10, everyRounds: 1, maximumLandmarks: 200 },
}

interface Way {
  readonly name: string
  /** Of an arrival. */
  readonly rows: number
  readonly learning: LearningOptions
  readonly keepsAll?: boolean
}

const WAYS: readonly Way[] = [
  { name: 'one by one, Method 1', rows: 1, learning: { method: 1 } },
  { name: 'batches of 100, Method 1', rows: 100, learning: { method: 1 } },
  { name: 'batches of 100, growing U each round', rows: 100, learning: GROWING },
  {
    name: "batches of 500, the text's loop",
    rows: 500,
    learning: { ...GROWING, roundRows: 500, reservoirRows: 'all', calibrationShare: 0, guard: null },
    keepsAll: true,
  },
]
/** Method 2 converges after each arrival, so it is measured over the first of them alone. */
const METHOD_2: Way = { name: 'one by one, Method 2', rows: 1, learning: { method: 2 } }
const METHOD_2_ARRIVALS = 300

/** `millis`: of processor time; online, a row since the point before. */
const point = z.strictObject({ n: count, auc: share, millis: z.number().min(0) })
const figures = z.strictObject({
  seeds: z.array(count).max(100_000),
  /** Means of AUC and medians of times over seeds. */
  sets: list({
    set: text,
    batch: z.array(point).max(100_000),
    online: list({
      name: text,
      points: z.array(point).max(100_000),
      refusedRounds: count,
      rounds: count,
    }),
    method2Millis: z.number().min(0),
  }),
})
type PlanFigures = z.infer<typeof figures>
type SetFigures = PlanFigures['sets'][number]
type Point = z.infer<typeof point>

const overSeeds = (runs: readonly (readonly Point[])[]): Point[] =>
  runs[0]!.map(({ n }, i) => ({
    n,
    auc: mean(runs.map((points) => points[i]!.auc)),
    millis: median(runs.map((points) => points[i]!.millis)),
  }))

function measureSet(rows: LearningRows, seeds: readonly number[]): SetFigures {
  const { set, train, normal, novel } = rows
  const batch = seeds.map((seed) =>
    Array.from({ length: (LAST - FIRST) / STEP + 1 }, (_, i) => {
      const n = FIRST + i * STEP
      const begun = process.cpuUsage()
      const { detector } = modelOf(part(train, 0, n), seed)
      const millis = 1000 * processorSeconds(begun)
      return { n, auc: aucOf(detector, normal, novel), millis }
    }),
  )
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
  return {
    set,
    batch: overSeeds(batch),
    online: WAYS.map((way) => {
      const runs = seeds.map((seed) => runOnline(rows, seed, way, LAST))
      return {
        name: way.name,
        points: overSeeds(runs.map(({ points }) => points)),
        refusedRounds: sum(runs.map(({ refusedRounds }) => refusedRounds)),
        rounds: sum(runs.map(({ rounds }) => rounds)),
      }
    }),
    method2Millis: mean(
      runOnline(rows, 1, METHOD_2, FIRST + METHOD_2_ARRIVALS)
        .points.slice(1)
        .map(({ millis }) => millis),
    ),
  }
}

/** Rows are taken as normal, as training rows are. */
function runOnline(
  { train, normal, novel }: LearningRows,
  seed: number,
  { rows, learning, keepsAll = false }: Way,
  last: number,
): { points: Point[]; rounds: number; refusedRounds: number } {
  const learner = createOnlineUpdater(modelOf(part(train, 0, FIRST), seed), {
    learning,
    seed,
    // a fifth of them calibrates
    ...(keepsAll ? { trainingRows: part(train, FIRST / 5, FIRST) } : {}),
  })
  const points = [{ n: FIRST, auc: aucOf(learner.detector, normal, novel), millis: 0 }]
  let spent = 0
  for (let n = FIRST + rows; n <= last; n += rows) {
    const arrivals = part(train, n - rows, n)
    const begun = process.cpuUsage()
    learner.arrive(arrivals, { assumeNormal: true })
    spent += 1000 * processorSeconds(begun)
    if (n % ONLINE_STEP !== 0) continue
    const since = Math.max(rows, ONLINE_STEP)
    points.push({ n, auc: aucOf(learner.detector, normal, novel), millis: spent / since })
    spent = 0
  }
  const { rounds, refusedRounds } = learner.counters
  return { points, rounds, refusedRounds }
}

const last = <T>(values: readonly T[]): T => values[values.length - 1]!

function tableOf({ set, batch, online, method2Millis }: SetFigures): string[][] {
  const training = last(batch)
  /** Over the last 500 rows. */
  const perArrival = (points: readonly Point[]): number =>
    mean(points.filter(({ n }) => n > last(points).n - 500).map(({ millis }) => millis))
  const times = (millis: number): string[] => [
    fixed(millis, 2),
    fixed(training.millis, 0),
    fixed(training.millis / millis, 0),
  ]
  return [
    ...online.map(({ name, points, refusedRounds, rounds }) => [
      ...[set, name, fraction(points[0]!.auc), fraction(last(points).auc), fraction(training.auc)],
      signed(last(points).auc - training.auc),
      ...times(perArrival(points)),
      `${refusedRounds} of ${rounds}`,
    ]),
    [set, 'one by one, Method 2 (first 300)', '', '', '', '', ...times(method2Millis), ''],
  ]
}

function page({ sets, seeds }: PlanFigures): string {
  return `${INTRODUCTION}

The plan in the paper's source: both models begin with ${FIRST} rows; the online one learns every arriving row as normal,
like training rows; the batch one is trained again, here at every 500 rows. AUC on the whole test set, mean of seeds
${seeds.join(', ')}; processor time per arrival (the last 500) against one training at n = 5,000, medians. The text's loop keeps every row,
projects all of them again, and has no guard; the other ways are bounded. Where U grows, it is by ten rows a batch.

${markdownTable(
  [
    ...['set', 'online', 'AUC at 500', 'AUC at 5,000', 'batch', 'difference', 'ms per arrival'],
    ...['ms of a training', 'ratio', 'rounds refused'],
  ],
  sets.flatMap(tableOf),
  2,
)}

![auc](learning-plan-auc.svg)

Where the mixture alone learns, AUC stays. Training again changes landmarks too, and on these sets loses AUC with more rows. A
row becomes a landmark only where ten rows like it are there. By default landmarks come only when something new is to be
learned or the learned rows have moved.

![time](learning-plan-time.svg)`
}

function pictures({ sets }: PlanFigures, { renderCurves }: Drawing): Record<string, string> {
  const points = sets.flatMap(({ set, batch, online }) => [
    ...batch.map((point) => ({ panel: set, curve: 'batch: trained again', ...point })),
    ...online.flatMap(({ name, points }) =>
      points.map((point) => ({ panel: set, curve: `online: ${name}`, ...point })),
    ),
  ])
  return {
    'learning-plan-auc.svg': renderCurves(
      'AUC of models that learn on beside models trained again',
      points.map(({ panel, curve, n, auc }) => ({ panel, curve, x: n, y: auc })),
      ['rows', 'AUC'],
    ),
    'learning-plan-time.svg': renderCurves(
      'Time of an arrival beside that of a training',
      points.flatMap(({ panel, curve, n, millis }) =>
        millis > 0 ? [{ panel, curve, x: n, y: millis }] : [],
      ),
      ['rows', 'ms per arrival (batch: per training)'],
      true,
    ),
  }
}

export const learningPlan = defineStudy<SeedOptions, PlanFigures>({
  name: 'learning-plan',
  title: 'Learning on: online against batch',
  description: 'mixtures that learn online, compared with retrained ones (data/paper)',
  configure: withLearningSeeds,
  figures,
  async run({ data, seeds }) {
    const list = seedList(seeds)
    const sets = SETS.map((set) => {
      const measured = measureSet(loadRows(join(data, 'paper'), set), list)
      note(`${set}: ${measured.online.map(({ points }) => fraction(last(points).auc)).join(', ')}`)
      return measured
    })
    return { seeds: list, sets }
  },
  page,
  pictures,
})

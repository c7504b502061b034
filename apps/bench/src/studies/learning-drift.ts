/**
 * Drift made from real data: the frozen model beside the updating one. What true novelties did to the model shows a
 * second stream without them, and a third with as many normal rows in their place (any row changes a draw).
 */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import {
  concatRows,
  createRng,
  type Matrix,
  matrixOf,
  type Rng,
  shuffleInPlace,
  takeRows,
} from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { extractMatrix, learnFeatureContract } from '@oddflow/flows'
import {
  createDriftMonitor,
  createOnlineUpdater,
  type LearningOptions,
  type OnlineUpdater,
  type StepReport,
} from '@oddflow/online'
import { z } from 'zod'
import { part } from '../datasets/pools.js'
import { count, list, share, text } from '../files.js'
import { note } from '../output.js'
import { fixed, tableOf } from '../tables/table.js'
import { pairsIn } from './attacks.js'
import { aucOf, collectFlows, novelShare, variantNamed, wholeCapture } from './flows.js'
import { INTRODUCTION, loadRows, modelOf, seedList, withLearningSeeds } from './learning-plan.js'
import {
  type Drawing,
  defineStudy,
  fraction,
  mean,
  percent,
  type SeedOptions,
  signed,
  unique,
} from './study.js'

const PERIODS = 40
const CHANGE = 10
const GRADUAL_PERIODS = 10
/** Periods from the change on that are looked at by themselves. */
const SETTLING = 10
const ROWS = 100
const TRAINING = 1500
/** The default: one row in five is kept from learning, to set the threshold. */
const HELD_BACK = 5
const LEARNING: LearningOptions = {
  // a round is a period, with whatever novelties are in it
  roundRows: 1000,
  confirmPeriods: 3,
  confirmRows: 10,
  forgetting: { kind: 'exponential', halfLifeRows: 1000 },
  guard: { maximumNoveltyLoss: 0.05, maximumFalsePositiveRise: 1, shadowAgrees: false },
}
/** Periods with true novelties in them. */
const BURSTS = [4, 5, 20, 21, 32, 33]
const BURST_ROWS = 5
const PAIR = 'huebridge_vs_wemolink'
const FLOOD = 'dlinkhomehub_vs_synflood'
const FLOOD_ROWS = 500

/** Share of the novelties that is detected, on a model at the end; AUC on rows that no model has seen. */
const atEnd = z.strictObject({ detected: share, auc: share })
const run = z.strictObject({
  seed: count,
  periods: list({
    /** Shares of normal rows called novel. */
    frozen: share,
    updating: share,
    /** Of the updating model; null before it has settled. */
    auc: share.nullable(),
  }).length(PERIODS),
  /** The first period with an alarm. */
  alarmPeriod: count.nullable(),
  held: count,
  confirmed: count,
  /** Rows that came, and what became of them. */
  novelties: z.strictObject({ rows: count, normalToFrozen: count, learntAsNormal: count, confirmed: count }),
  end: z.strictObject({
    frozen: atEnd,
    updating: atEnd,
    anew: atEnd,
    withoutNovelties: atEnd,
    withNormalRows: atEnd,
  }),
})
const figures = z.strictObject({
  cases: list({ name: text, runs: z.array(run).min(1).max(100) }),
})
type DriftFigures = z.infer<typeof figures>
type Run = z.infer<typeof run>

interface DriftCase {
  readonly name: string
  readonly training: Matrix
  readonly novel: Matrix
  /** Of the changed traffic. */
  readonly unseen: Matrix
  rowsAt(period: number, rng: Rng, count: number): Matrix
}

function draw(rows: Matrix, rng: Rng, count: number): Matrix {
  return takeRows(
    rows,
    Array.from({ length: count }, () => rng.nextBelow(rows.rows)),
  )
}

/** Interarrival times half as long again, packets a tenth longer. Odd columns of IAT+SIZE rows, and the last, are sizes. */
function shifted({ rows, cols, data }: Matrix, amount: number): Matrix {
  return matrixOf(
    rows,
    cols,
    data.map((value, at) => {
      const column = at % cols
      const isSize = column % 2 === 1 || column === cols - 1
      return value * (1 + amount * (isSize ? 0.1 : 0.5))
    }),
  )
}

async function driftCases(data: string): Promise<DriftCase[]> {
  const made = ['sfrig', 'aecho'].flatMap((set) => {
    const { train, normal, novel } = loadRows(join(data, 'paper'), set)
    const rest = part(train, TRAINING, train.rows)
    const amounts: Readonly<Record<string, (period: number) => number>> = {
      abrupt: (period) => Number(period >= CHANGE),
      gradual: (period) => Math.min(1, Math.max(0, (period - CHANGE + 1) / GRADUAL_PERIODS)),
    }
    return Object.entries(amounts).map(
      ([kind, amountAt]): DriftCase => ({
        name: `${set}, ${kind}`,
        training: part(train, 0, TRAINING),
        novel,
        unseen: shifted(normal, 1),
        rowsAt: (period, rng, count) => shifted(draw(rest, rng, count), amountAt(period)),
      }),
    )
  })
  const pairs = join(data, 'pairs')
  return pairsIn(pairs, [PAIR, FLOOD]).length < 2 ? made : [...made, await replacedDevice(pairs)]
}

/** Another device takes the place of the first, under the first one's contract; a flood is the novelty. */
async function replacedDevice(pairs: string): Promise<DriftCase> {
  const flowsOf = (...path: string[]) => {
    const folder = join(pairs, ...path)
    const files = readdirSync(folder).filter((file) => file.endsWith('.pcap'))
    return collectFlows(
      files.sort().map((file) => wholeCapture(join(folder, file))),
      variantNamed('before'),
    )
  }
  const own = await flowsOf(PAIR, 'normal')
  const contract = learnFeatureContract(own, { featureSet: 'iat-size' })
  const rows = extractMatrix(own, contract)
  const order = Array.from({ length: rows.rows }, (_, i) => i)
  const first = takeRows(rows, shuffleInPlace(Uint32Array.from(order), createRng(3)))
  const second = extractMatrix(await flowsOf(PAIR, 'novel'), contract)
  const half = second.rows >> 1
  const rest = part(first, TRAINING, first.rows)
  const later = part(second, 0, half)
  return {
    name: 'huebridge, replaced by wemolink',
    training: part(first, 0, TRAINING),
    novel: part(extractMatrix(await flowsOf(FLOOD, 'novel'), contract), 0, FLOOD_ROWS),
    unseen: part(second, half, second.rows),
    rowsAt: (period, rng, count) => draw(period < CHANGE ? rest : later, rng, count),
  }
}

function measureRun(one: DriftCase, seed: number): Run {
  const { training, novel, unseen, rowsAt } = one
  const saved = modelOf(training, seed)
  const measure = (model: SavedModel | OnlineUpdater) => ({
    detected: novelShare(model, novel),
    auc: aucOf(model.detector, unseen, novel),
  })
  const { learner, ...stream } = followStream(one, saved, seed)
  const rng = createRng(100 + seed)
  const anew = modelOf(
    concatRows(Array.from({ length: TRAINING / ROWS }, () => rowsAt(PERIODS - 1, rng, ROWS))),
    seed,
  )
  const { held, confirmed } = learner.counters
  return {
    seed,
    ...stream,
    held,
    confirmed,
    end: {
      frozen: measure(saved),
      updating: measure(learner),
      anew: measure(anew),
      withoutNovelties: measure(takeStream(one, saved, seed, () => part(novel, 0, 0))),
      withNormalRows: measure(
        takeStream(one, saved, seed, (period, planting) => rowsAt(period, planting, BURST_ROWS)),
      ),
    },
  }
}

interface Arrival {
  readonly period: number
  readonly normal: Matrix
  readonly planted: Matrix
  readonly learner: OnlineUpdater
}

/** Calls `before` each period's arrivals; it gives what is called once the planted rows have come, and the round ended. */
function takeStream(
  { novel, rowsAt }: DriftCase,
  saved: SavedModel,
  seed: number,
  plant: (period: number, rng: Rng) => Matrix,
  before: (arrival: Arrival) => (report: StepReport) => void = () => () => {},
): OnlineUpdater {
  const learner = createOnlineUpdater(saved, { learning: LEARNING, seed })
  // the normal rows are the same whatever is planted
  const rng = createRng(4 + seed)
  const planting = createRng(54 + seed)
  for (let period = 0; period < PERIODS; period++) {
    const normal = rowsAt(period, rng, ROWS)
    const planted = BURSTS.includes(period) ? plant(period, planting) : part(novel, 0, 0)
    const after = before({ period, normal, planted, learner })
    learner.arrive(normal, { period: period + 1 })
    const report = learner.arrive(planted, { period: period + 1 })
    learner.endRound()
    after(report)
  }
  return learner
}

/** The stream with the true novelties in it, period by period. */
function followStream(
  one: DriftCase,
  saved: SavedModel,
  seed: number,
): Pick<Run, 'periods' | 'alarmPeriod' | 'novelties'> & { readonly learner: OnlineUpdater } {
  const { novel, unseen } = one
  const monitor = createDriftMonitor(saved)
  const novelties = { rows: 0, normalToFrozen: 0, learntAsNormal: 0, confirmed: 0 }
  const periods: Run['periods'] = []
  let alarmPeriod: number | null = null
  /** Planted rows on hold. */
  let waiting: { readonly period: number; readonly row: string }[] = []
  const keyOf = ({ cols, data }: Matrix, i: number): string => data.slice(i * cols, (i + 1) * cols).join()
  const learner = takeStream(
    one,
    saved,
    seed,
    (_, rng) => draw(novel, rng, BURST_ROWS),
    ({ period, normal, planted, learner }) => {
      periods.push({
        frozen: novelShare(saved, normal),
        updating: novelShare(learner, normal),
        // the AUC of a single period depends on chance: a few hundred similar rows swap places with novelties
        auc: period >= CHANGE + SETTLING ? aucOf(learner.detector, unseen, novel) : null,
      })
      return (report) => {
        novelties.rows += planted.rows
        novelties.normalToFrozen += planted.rows - report.novelToFrozen
        novelties.learntAsNormal += report.learnt
        const { rows, numbers } = learner.state.held
        const held = new Set(Array.from({ length: rows.rows }, (_, i) => keyOf(rows, i)))
        const before = learner.counters.arrived - planted.rows
        for (let i = 0; i < planted.rows; i++) {
          const isForThreshold = (before + i) % HELD_BACK === HELD_BACK - 1
          if (report.novel[i] === 1 && !isForThreshold) waiting.push({ period, row: keyOf(planted, i) })
        }
        // a row that is gone from hold was confirmed, unless newer rows pushed it out
        waiting = waiting.filter((one) => {
          if (held.has(one.row)) return true
          if (one.period + 1 >= numbers[0]!) novelties.confirmed++
          return false
        })
        monitor.add(concatRows([normal, planted]))
        if (alarmPeriod === null && monitor.report().changesCounted > 0) alarmPeriod = period
      }
    },
  )
  return { learner, periods, alarmPeriod, novelties }
}

/** After how many periods from the change the false positives are 5 % or less for three periods in a row. */
function recoveryOf({ periods }: Run): number | null {
  const recovered = periods.findIndex(
    (_, p) => p > CHANGE && periods.slice(p, p + 3).every(({ updating }) => updating <= 0.05),
  )
  return recovered < 0 ? null : recovered - CHANGE
}

const settledAuc = ({ periods }: Run): number => mean(periods.flatMap(({ auc }) => auc ?? []))

function spanOf(values: readonly number[]): string {
  const [low, high] = [fraction(Math.min(...values)), fraction(Math.max(...values))]
  return low === high ? low : `${low} to ${high}`
}

type Case = DriftFigures['cases'][number]

function caseTable(cases: readonly Case[]): string {
  const both =
    (from: number, to: number) =>
    ({ runs }: Case): string =>
      (['frozen', 'updating'] as const)
        .map((way) => mean(runs.map(({ periods }) => mean(periods.slice(from, to).map((p) => p[way])))))
        .map(percent)
        .join(', ')
  const each =
    (value: (run: Run) => number | string) =>
    ({ runs }: Case): string =>
      runs.map(value).join(', ')
  const auc =
    (value: (run: Run) => number) =>
    ({ runs }: Case): string =>
      spanOf(runs.map(value))
  return tableOf(cases, 1, [
    ['case', ({ name }) => name],
    ['before', both(0, CHANGE)],
    ['ten periods from the change', both(CHANGE, CHANGE + SETTLING)],
    ['after', both(CHANGE + SETTLING, PERIODS)],
    ['recovered after', each((run) => recoveryOf(run) ?? 'never')],
    [
      'first drift alarm after',
      each(({ alarmPeriod }) => (alarmPeriod === null ? 'never' : alarmPeriod - CHANGE)),
    ],
    ['AUC: frozen', auc(({ end }) => end.frozen.auc)],
    ['updating', auc(settledAuc)],
    ['retrained', auc(({ end }) => end.anew.auc)],
    ['rows confirmed of held', each(({ confirmed, held }) => `${confirmed} of ${held}`)],
  ])
}

function noveltyTable(cases: readonly Case[]): string {
  const points = (value: number): string => `${value < 0 ? '−' : '+'}${fixed(100 * Math.abs(value), 1)}`
  const lines = cases.flatMap(({ name, runs }) =>
    runs.map(({ seed, novelties, end }) => ({
      ...{ name, seed, ...novelties },
      ...{ updating: end.updating, without: end.withoutNovelties, instead: end.withNormalRows },
    })),
  )
  return tableOf(lines, 1, [
    ['case', ({ name }) => name],
    ['seed', ({ seed }) => `${seed}`],
    ['normal to the frozen model', ({ normalToFrozen, rows }) => `${normalToFrozen} of ${rows}`],
    ['found normal, learned', ({ learntAsNormal }) => `${learntAsNormal}`],
    ['confirmed', ({ confirmed }) => `${confirmed}`],
    ['detected: with, without', (l) => `${percent(l.updating.detected)}, ${percent(l.without.detected)}`],
    ['difference', ({ updating, without }) => points(updating.detected - without.detected)],
    ['normal rows instead', ({ instead, without }) => points(instead.detected - without.detected)],
    ['AUC: with, without', (l) => `${fraction(l.updating.auc)}, ${fraction(l.without.auc)}`],
    ['difference', ({ updating, without }) => signed(updating.auc - without.auc)],
    ['normal rows instead', ({ instead, without }) => signed(instead.auc - without.auc)],
  ])
}

function page({ cases }: DriftFigures): string {
  const runs = cases.flatMap((one) => one.runs)
  const meanChange = (way: 'updating' | 'withNormalRows'): string =>
    signed(mean(runs.map(({ end }) => end[way].auc - end.withoutNovelties.auc)))
  const [lowest] = cases
    .flatMap(({ name, runs }) =>
      runs.map((run) => ({ name, seed: run.seed, auc: settledAuc(run), anew: run.end.anew.auc })),
    )
    .sort((a, b) => a.auc - b.auc)
  return `${INTRODUCTION}

${PERIODS} periods of ${ROWS} rows; the traffic changes at period ${CHANGE}. Shifted: interarrival times half as long again, packets a tenth
longer, at once or over ten periods. Replaced: another device's captures under the first one's contract. True novelties
(the test set's; a SYN flood for the devices) come five at a time in periods ${BURSTS.join(', ')}. The updating model holds
novel rows until ten like them came in three periods, at least every second one, and forgets by half in 1,000 rows; no row
has a label. Seeds ${unique(runs.map(({ seed }) => seed)).join(', ')} of model and stream. False positives: frozen, updating; means. Recovered: false positives of
5 % or less for three periods in a row. AUC on rows of the changed traffic that no model has seen: the updating model's is the mean
of the periods from ten after the change on, *retrained* is trained on as many rows of the changed traffic; spans of the seeds.

${caseTable(cases)}

![drift](learning-drift.svg)

A gradual change is learned row by row. Landmarks follow when the learned rows lie farther from them than landmarks lie from
one another. The lowest AUC of an updating model over these periods is ${fraction(lowest!.auc)}, in seed ${lowest!.seed} of ${lowest!.name}; training
again gives ${fraction(lowest!.anew)} there.

## What is learned from the true novelties

The same stream with the same seeds, with the ${BURSTS.length * BURST_ROWS} novelties and without them: detection and AUC at the end, with − without. Any
rows change something (another draw for the reservoir), so the last columns say by how much as many normal rows in their place
do. Beside it what became of the novelties: normal to the frozen model too, found normal as they came and learned, and
found novel but confirmed later.

${noveltyTable(cases)}

The share of novelties that is detected at so few false positives is a step: these sets' novelties stand close together, all a
little above the threshold or all a little below it, so it moves by tens of points where AUC moves by hundredths.
In the mean of all cases and seeds the novelties change AUC by ${meanChange('updating')}, as many normal rows in their place by ${meanChange('withNormalRows')}.

Without labels nothing tells a novelty that the model finds normal from a normal row. A row on hold is confirmed only when it
has enough rows near itself, which keeps out most of the others.`
}

function pictures({ cases }: DriftFigures, { renderCurves }: Drawing): Record<string, string> {
  const points = cases.flatMap(({ name, runs }) =>
    Array.from({ length: PERIODS }, (_, period) =>
      (['frozen', 'updating'] as const).map((way) => ({
        panel: name,
        curve: way,
        x: period,
        y: 100 * mean(runs.map(({ periods }) => periods[period]![way])),
      })),
    ).flat(),
  )
  return {
    'learning-drift.svg': renderCurves('False positives while the traffic changes', points, [
      'period',
      'false positives, %',
    ]),
  }
}

export const learningDrift = defineStudy<SeedOptions, DriftFigures>({
  name: 'learning-drift',
  title: 'Learning on: drift',
  description:
    'mixtures that learn online while normal traffic changes, without and with novel rows (data/paper, data/pairs)',
  configure: withLearningSeeds,
  figures,
  async run({ data, seeds }) {
    const cases: DriftFigures['cases'] = []
    for (const one of await driftCases(data)) {
      const runs = seedList(seeds).map((seed) => measureRun(one, seed))
      cases.push({ name: one.name, runs })
      note(`${one.name}: AUC ${runs.map(({ end }) => fraction(end.updating.auc)).join(', ')}`)
    }
    return { cases }
  },
  page,
  pictures,
})

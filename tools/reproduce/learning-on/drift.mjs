/**
 * Drift made of real data, the frozen model beside the updating one: false positives by period before, while and after the
 * traffic changes, what becomes of true novelties in it, and when the drift signals speak.
 *
 * Abrupt and gradual: from a period on (or, gradually, over ten of them) every interarrival time of the normal rows is
 * half as long again and every packet a tenth longer. Replaced: another device, of the pairs of captures, takes the
 * place of the first (huebridge by wemolink, one feature contract for both), the novelties being a SYN flood.
 *
 * Updating: novel rows are held until their like came in three periods, ten of them; forgotten by half after 1,000 rows.
 * True novelties come in bursts of two periods, as scans and floods do, so that persistence tells them from drift. Each of
 * their rows is followed: normal to the frozen model too, found normal as it came, or confirmed later. What they did to the
 * model is another question, and only a counterfactual answers it: the same stream with the same seeds once more, without
 * them. Any rows at all change something (a draw for the reservoir falls otherwise), so a third stream has as many normal
 * rows in their place, and says how much that is.
 *
 * Anew: models trained on as many rows of the changed traffic, which is what there is to be had. The share of novelties
 * that a threshold at so few false positives detects is a step where they stand close together, so AUC stands beside it.
 * Both at the end, on rows that no model has seen.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { concatRows, createRng, matrixOf, takeRows } from '../../../packages/core/dist/index.js'
import { createDriftMonitor, createLearner } from '../../../packages/detectors/dist/index.js'
import { scaleRows } from '../../../packages/detectors/dist/scaler.js'
import { readNpy } from '../read-npy.mjs'
import { aucOf, checkout, loadSet, mean, novelShare, part, trainModel } from './shared.mjs'

const PERIODS = 40
const CHANGE = 10
const GRADUAL_PERIODS = 10
/** Periods from the change on that are looked at by themselves. */
const SETTLING = 10
const ROWS = 100
const TRAINING = 1500
const SEEDS = [1, 2, 3]
/** One row in so many is kept from learning, to set the threshold: the default. */
const HELD_BACK = 5
export const LEARNING = {
  // a round is a period, with whatever novelties are in it
  roundRows: 1000,
  confirmPeriods: 3,
  confirmRows: 10,
  forgetting: { kind: 'exponential', halfLifeRows: 1000 },
  guard: { maximumNoveltyLoss: 0.05, maximumFalsePositiveRise: 1, shadowAgrees: false },
}
/** Periods with true novelties in them, five rows in each. */
const BURSTS = [4, 5, 20, 21, 32, 33]
const BURST_ROWS = 5

export function driftExperiment(data) {
  const cases = driftCases(data).map((one) => {
    const runs = SEEDS.map((seed) => run(one, seed))
    for (const { seed, ...figures } of runs) {
      const { periods, ...rest } = figures
      console.log(one.name, seed, JSON.stringify(rest))
    }
    return { name: one.name, runs }
  })
  return { periods: PERIODS, change: CHANGE, rows: ROWS, bursts: BURSTS, seeds: SEEDS, cases }
}

/** Rows to train on, those of each period, novelties, and unseen rows of the changed traffic. */
export function driftCases(data) {
  const cases = []
  for (const set of ['sfrig', 'aecho']) {
    const { train, normal, novel } = loadSet(data, set)
    const rest = part(train, TRAINING, train.rows)
    for (const kind of ['abrupt', 'gradual']) {
      const amountAt = (period) =>
        kind === 'abrupt'
          ? Number(period >= CHANGE)
          : Math.min(1, Math.max(0, (period - CHANGE + 1) / GRADUAL_PERIODS))
      cases.push({
        name: `${set}, ${kind}`,
        training: part(train, 0, TRAINING),
        novel,
        unseen: shifted(normal, 1),
        rowsAt: (period, rng, count) => shifted(draw(rest, rng, count), amountAt(period)),
      })
    }
  }
  const pair = pairRows(data)
  if (pair !== null) {
    const { first, second, novel } = pair
    const half = second.rows >> 1
    const rest = part(first, TRAINING, first.rows)
    const later = part(second, 0, half)
    cases.push({
      name: 'huebridge, replaced by wemolink',
      training: part(first, 0, TRAINING),
      novel,
      unseen: part(second, half, second.rows),
      rowsAt: (period, rng, count) => draw(period < CHANGE ? rest : later, rng, count),
    })
  }
  return cases
}

/** What comes in the periods of bursts, beside the normal rows. */
const PLANTED = { novelties: 'novelties', nothing: 'nothing', normal: 'normal' }

function run(one, seed) {
  const { training, novel, unseen, rowsAt } = one
  const saved = trainModel(training, seed)
  const { learner, ...result } = walk(one, saved, seed, PLANTED.novelties)
  const figures = (model) => ({
    detected: novelShare(model, novel),
    falsePositives: novelShare(model, unseen),
    auc: aucOf(model.detector, unseen, novel),
  })
  const rng = createRng(100 + seed)
  const anew = trainModel(
    concatRows(Array.from({ length: TRAINING / ROWS }, () => rowsAt(PERIODS - 1, rng, ROWS))),
    seed,
  )
  return {
    seed,
    ...result,
    counters: learner.counters,
    end: {
      frozen: figures(saved),
      updating: figures(learner),
      anew: figures(anew),
      withoutNovelties: figures(walk(one, saved, seed, PLANTED.nothing).learner),
      withNormalRows: figures(walk(one, saved, seed, PLANTED.normal).learner),
    },
  }
}

/** The stream, with what is planted in it; the normal rows of it are the same whatever that is. */
export function walk(
  { novel, unseen, rowsAt },
  saved,
  seed,
  planted,
  { learning = LEARNING, visit = () => {} } = {},
) {
  const learner = createLearner(saved, { learning, seed })
  const rng = createRng(4 + seed)
  const plantedRng = createRng(54 + seed)
  const monitor = createDriftMonitor(saved)
  const followed = followNovelties(learner, saved)
  const periods = []
  let alarm = null
  for (let period = 0; period < PERIODS; period++) {
    const normal = rowsAt(period, rng, ROWS)
    let bursts = part(novel, 0, 0)
    if (BURSTS.includes(period) && planted !== PLANTED.nothing) {
      bursts =
        planted === PLANTED.novelties
          ? draw(novel, plantedRng, BURST_ROWS)
          : rowsAt(period, plantedRng, BURST_ROWS)
    }
    if (planted === PLANTED.novelties) {
      periods.push({
        period,
        frozen: novelShare(saved, normal),
        updating: novelShare(learner, normal),
        detectedFrozen: novelShare(saved, novel),
        detectedUpdating: novelShare(learner, novel),
        // one period's AUC is chance where a few hundred rows alike change places with as many novelties
        auc: period >= CHANGE + SETTLING ? aucOf(learner.detector, unseen, novel) : null,
      })
    }
    learner.arrive(normal, { period: period + 1 })
    const report = learner.arrive(bursts, { period: period + 1 })
    const round = learner.endRound()
    visit({ period, learner, normal, bursts, round })
    if (planted !== PLANTED.novelties) continue
    followed.after(bursts, report, period)
    monitor.add(concatRows([normal, bursts]))
    if (alarm === null && monitor.report().changesCounted > 0) alarm = period
  }
  if (planted !== PLANTED.novelties) return { learner }
  const of = (key, from, to) => mean(periods.slice(from, to).map((p) => p[key]))
  const spans = (from, to) => ({ frozen: of('frozen', from, to), updating: of('updating', from, to) })
  const recovered = periods.find(
    (p) => p.period > CHANGE && periods.slice(p.period, p.period + 3).every((q) => q.updating <= 0.05),
  )
  return {
    learner,
    periods,
    before: spans(0, CHANGE),
    during: spans(CHANGE, CHANGE + SETTLING),
    after: spans(CHANGE + SETTLING, PERIODS),
    aucAfter: of('auc', CHANGE + SETTLING, PERIODS),
    recoveryPeriods: recovered === undefined ? null : recovered.period - CHANGE,
    alarmPeriod: alarm,
    novelties: followed.counts,
  }
}

/**
 * What became of the true novelties. A row of theirs that is on hold is gone from there when it is confirmed, unless it was
 * pushed out.
 */
function followNovelties(learner, saved) {
  const counts = { rows: 0, normalToFrozen: 0, learntAsNormal: 0, confirmed: 0 }
  let waiting = []
  return {
    counts,
    after(bursts, { novel, novelToFrozen, learnt }, period) {
      counts.rows += bursts.rows
      counts.normalToFrozen += bursts.rows - novelToFrozen
      counts.learntAsNormal += learnt
      const scaled = scaleRows(saved.detector.scaler, bursts)
      const key = (rows, i) => rows.data.slice(i * rows.cols, (i + 1) * rows.cols).join()
      const { rows, numbers } = learner.saved().learned.held
      const held = new Set(Array.from({ length: rows.rows }, (_, i) => key(rows, i)))
      const before = learner.counters.arrived - bursts.rows
      for (let i = 0; i < bursts.rows; i++) {
        const isForThreshold = (before + i) % HELD_BACK === HELD_BACK - 1
        if (novel[i] === 1 && !isForThreshold) waiting.push({ period, key: key(scaled, i) })
      }
      waiting = waiting.filter((row) => {
        if (held.has(row.key)) return true
        if (row.period + 1 >= numbers[0]) counts.confirmed++
        return false
      })
    },
  }
}

function draw(rows, rng, count) {
  return takeRows(
    rows,
    Array.from({ length: count }, () => rng.nextBelow(rows.rows)),
  )
}

/** iat1, size1, iat2, …, size(p−1), size(p): odd columns, and the last, are sizes. */
function shifted({ rows, cols, data }, amount) {
  const out = data.map((value, at) => {
    const column = at % cols
    const isSize = column % 2 === 1 || column === cols - 1
    return value * (1 + amount * (isSize ? 0.1 : 0.5))
  })
  return matrixOf(rows, cols, out)
}

/** Rows of two devices and of a flood under the contract of the first; null where there are no captures. */
function pairRows(data) {
  const pairs = join(data, 'pairs')
  if (!existsSync(pairs)) return null
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-drift-'))
  const oddflow = (...args) =>
    execFileSync(process.execPath, [join(checkout, 'apps/trainer/dist/main.js'), ...args], {
      stdio: 'ignore',
    })
  const captures = (...path) =>
    readdirSync(join(pairs, ...path))
      .filter((file) => file.endsWith('.pcap'))
      .sort()
      .map((file) => join(pairs, ...path, file))
  try {
    const hue = captures('huebridge_vs_wemolink', 'normal')
    oddflow('train', ...hue, '-o', join(folder, 'model'))
    const rowsOf = (name, files) => {
      oddflow('extract', ...files, '--model', join(folder, 'model'), '-o', join(folder, `${name}.npy`))
      return readNpy(join(folder, `${name}.npy`))
    }
    const first = rowsOf('first', hue)
    return {
      first: shuffled(first, createRng(3)),
      second: rowsOf('second', captures('huebridge_vs_wemolink', 'novel')),
      novel: part(rowsOf('novel', captures('dlinkhomehub_vs_synflood', 'novel')), 0, 500),
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function shuffled(rows, rng) {
  const order = Array.from({ length: rows.rows }, (_, i) => i)
  for (let i = order.length - 1; i > 0; i--) {
    const j = rng.nextBelow(i + 1)
    const kept = order[i]
    order[i] = order[j]
    order[j] = kept
  }
  return takeRows(rows, order)
}

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
 * their rows is followed: found normal as it came, or confirmed later, or never learnt.
 *
 * Anew: models trained on as many rows of the changed traffic, which is what there is to be had. The share of novelties
 * that a threshold at so few false positives detects is a step where they stand close together, so it is given for three
 * seeds; AUC is the steadier figure.
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
const ROWS = 100
const TRAINING = 1500
/** One row in so many is kept from learning, to set the threshold: the default. */
const HELD_BACK = 5
/** Seeds of the models that are trained anew. */
const SEEDS = [1, 2, 3]
const LEARNING = {
  // a round is a period, with whatever novelties are in it
  roundRows: 1000,
  confirmPeriods: 3,
  confirmRows: 10,
  forgetting: { kind: 'exponential', halfLifeRows: 1000 },
  guard: { lifted: 0.05, moved: 1, shadowAgrees: false },
}
/** Periods with true novelties in them, five rows in each. */
const BURSTS = [4, 5, 20, 21, 32, 33]
const BURST_ROWS = 5

export function driftExperiment(data) {
  const cases = []
  for (const set of ['sfrig', 'aecho']) {
    const { train, novel } = loadSet(data, set)
    const saved = trainModel(part(train, 0, TRAINING), 1)
    const rest = part(train, TRAINING, train.rows)
    for (const kind of ['abrupt', 'gradual']) {
      const amountAt = (period) =>
        kind === 'abrupt'
          ? Number(period >= CHANGE)
          : Math.min(1, Math.max(0, (period - CHANGE + 1) / GRADUAL_PERIODS))
      cases.push(
        run({
          name: `${set}, ${kind}`,
          saved,
          novel,
          rowsAt: (period, rng) => shifted(draw(rest, rng), amountAt(period)),
        }),
      )
    }
  }
  const pair = pairRows(data)
  if (pair !== null) {
    const { first, second, novel } = pair
    const saved = trainModel(part(first, 0, TRAINING), 1)
    const rest = part(first, TRAINING, first.rows)
    cases.push(
      run({
        name: 'huebridge, replaced by wemolink',
        saved,
        novel,
        rowsAt: (period, rng) => draw(period < CHANGE ? rest : second, rng),
      }),
    )
  }
  return { periods: PERIODS, change: CHANGE, rows: ROWS, bursts: BURSTS, cases }
}

function run({ name, saved, novel, rowsAt }) {
  const learner = createLearner(saved, { learning: LEARNING, seed: 1 })
  const rng = createRng(5)
  const monitor = createDriftMonitor(saved)
  const followed = followNovelties(learner)
  const periods = []
  let alarm = null
  for (let period = 0; period < PERIODS; period++) {
    const normal = rowsAt(period, rng)
    const bursts = BURSTS.includes(period) ? draw(novel, rng, BURST_ROWS) : part(novel, 0, 0)
    periods.push({
      period,
      frozen: novelShare(saved, normal),
      updating: novelShare(learner, normal),
      detectedFrozen: novelShare(saved, novel),
      detectedUpdating: novelShare(learner, novel),
    })
    learner.arrive(normal, { period: period + 1 })
    const report = learner.arrive(bursts, { period: period + 1 })
    learner.endRound()
    followed.after(bursts, report, period)
    monitor.add(concatRows([normal, bursts]))
    if (alarm === null && monitor.report().changesCounted > 0) alarm = period
  }
  const of = (key, from, to) => mean(periods.slice(from, to).map((p) => p[key]))
  const recovered = periods.find(
    (p) => p.period > CHANGE && periods.slice(p.period, p.period + 3).every((q) => q.updating <= 0.05),
  )
  const lastRows = concatRows([1, 2, 3].map(() => rowsAt(PERIODS - 1, rng)))
  const trainingRows = concatRows(Array.from({ length: TRAINING / ROWS }, () => rowsAt(PERIODS - 1, rng)))
  const anew = SEEDS.map((seed) => trainModel(trainingRows, seed))
  const result = {
    name,
    periods,
    before: { frozen: of('frozen', 0, CHANGE), updating: of('updating', 0, CHANGE) },
    during: { frozen: of('frozen', CHANGE, CHANGE + 10), updating: of('updating', CHANGE, CHANGE + 10) },
    after: { frozen: of('frozen', CHANGE + 10, PERIODS), updating: of('updating', CHANGE + 10, PERIODS) },
    recoveryPeriods: recovered === undefined ? null : recovered.period - CHANGE,
    alarmPeriod: alarm,
    detected: {
      frozen: novelShare(saved, novel),
      updating: novelShare(learner, novel),
      anew: anew.map((model) => novelShare(model, novel)),
    },
    auc: {
      frozen: aucOf(saved.detector, lastRows, novel),
      updating: aucOf(learner.detector, lastRows, novel),
      anew: anew.map((model) => aucOf(model.detector, lastRows, novel)),
    },
    novelties: followed.counts,
    counters: learner.counters,
  }
  console.log(name, JSON.stringify({ ...result, periods: undefined }))
  return result
}

/** What became of the true novelties: a row of theirs that is on hold is gone from there when it is confirmed, unless it was pushed out. */
function followNovelties(learner) {
  const counts = { rows: 0, learntAsNormal: 0, confirmed: 0 }
  let waiting = []
  return {
    counts,
    after(bursts, { novel, learnt }, period) {
      counts.rows += bursts.rows
      counts.learntAsNormal += learnt
      const scaled = scaleRows(learner.detector.scaler, bursts)
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

function draw(rows, rng, count = ROWS) {
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

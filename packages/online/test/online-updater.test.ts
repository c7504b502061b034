import { concatRows, createRng, type Matrix, matrixOf, takeRows } from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  createScoreWorkspace,
  type DetectorOptions,
  decodeModelFile,
  encodeModelFile,
  fitDetector,
  isNovel,
  mixtureCovariances,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { typedMixtureCovariances } from '@oddflow/detectors/parts'
import { describe, expect, it } from 'vitest'
import {
  createJournallingUpdater,
  createOnlineUpdater,
  type LearningModel,
  type LearningOptions,
  replayJournal,
} from '../src/index.js'
import { regularisationOf, scoreScaledRows } from '../src/learned-state.js'
import {
  createMixtureEvaluator,
  type LearningMixture,
  responsibilitiesInto,
} from '../src/mixture-statistics.js'
import { clusteredRows, maximiseFull, momentsOf } from './detectors.js'

const COLUMNS = 5
const TRAINING = 150

const scores = (saved: SavedModel, rows: Matrix) =>
  scoreSamples(saved.detector, rows, new Float64Array(rows.rows), createScoreWorkspace(saved.detector))

const novelShare = (saved: SavedModel, rows: Matrix) =>
  scores(saved, rows).reduce((sum, score) => sum + (isNovel(score, saved.threshold) ? 1 : 0), 0) / rows.rows

function train(options: DetectorOptions = {}, seed = 1): SavedModel {
  const embeds = options.detector === undefined || options.detector.startsWith('oc-')
  const parameters = checkParameters({ ...(embeds ? { m: 20, d: 3 } : {}), ...options })
  const detector = fitDetector(clusteredRows(TRAINING, COLUMNS), parameters, createRng(seed).fork('fit'))
  const calibration = scoreSamples(
    detector,
    clusteredRows(120, COLUMNS, 7),
    new Float64Array(120),
    createScoreWorkspace(detector),
  )
  return {
    detector,
    contract: { featureSet: 'rows', featureSetVersion: 1, dimension: COLUMNS, scaler: parameters.scaler },
    threshold: calibrateThreshold(calibration, 0.02),
    onePacketRule: null,
    provenance: { oddflowVersion: '0.1.0', seed, dataSha256: 'ab'.repeat(32), rows: TRAINING + 120 },
  }
}

/** A mode that training had nothing of. */
function newMode(n: number, seed = 3): Matrix {
  const rng = createRng(seed)
  return matrixOf(
    n,
    COLUMNS,
    Float64Array.from({ length: n * COLUMNS }, () => 60 + rng.nextNormal()),
  )
}

const part = (rows: Matrix, from: number, to: number) =>
  takeRows(
    rows,
    Array.from({ length: to - from }, (_, i) => from + i),
  )

const DETECTORS: [string, DetectorOptions][] = [
  ['oc-kjl-qs', {}],
  ['oc-kjl-qs, unguarded, standard', { supportGuard: false, scaler: 'standard' }],
  ['oc-kjl, centred', { detector: 'oc-kjl', centre: true, k: 4 }],
  ['oc-nystrom-qs, float32', { detector: 'oc-nystrom-qs', precision: 'f32' }],
  ['gmm, full', { detector: 'gmm', k: 4, scaler: 'standard' }],
  ['gmm, diagonal', { detector: 'gmm', k: 4, covariance: 'diagonal' }],
]

describe.each(DETECTORS)('learning on with %s', (_, options) => {
  const saved = train(options)
  const learning: LearningOptions = { roundRows: 40, confirmPeriods: 3, confirmRows: 6, guard: null }
  /** Normal rows, and one in ten of a new mode. */
  const stream = concatRows(
    Array.from({ length: 8 }, (_, i) => concatRows([clusteredRows(45, COLUMNS, 20 + i), newMode(5, 30 + i)])),
  )

  it('scores as the detector itself, bit for bit', () => {
    const rows = stream
    const plain = { ...saved.detector, scaler: { kind: 'none' } } as LearningModel
    expect(scoreScaledRows(plain, rows)).toEqual(scores({ ...saved, detector: plain }, rows))
  })

  it('writes a file that reads back, and goes on from it as if it had not stopped', () => {
    const whole = createOnlineUpdater(saved, { learning, seed: 4 })
    whole.arrive(part(stream, 0, 200), { period: 1 })
    const middle = encodeModelFile(whole.saved())
    expect(encodeModelFile(decodeModelFile(middle))).toEqual(middle)
    expect(decodeModelFile(middle)).toEqual(whole.saved())
    whole.arrive(part(stream, 200, 400), { period: 2 })
    const again = createOnlineUpdater(decodeModelFile(middle))
    again.arrive(part(stream, 200, 400), { period: 2 })
    expect(encodeModelFile(again.saved())).toEqual(encodeModelFile(whole.saved()))
    expect(encodeModelFile(saved)).not.toEqual(
      encodeModelFile({ ...saved, detector: whole.saved().detector }),
    )
  })

  it('learns a mode stated to be normal, and forgets nothing', () => {
    const updater = createOnlineUpdater(saved, { learning })
    const mode = newMode(300)
    // unguarded, what is far from every landmark may be normal, which is what the guard is for
    if (options.supportGuard !== false) expect(novelShare(saved, newMode(100, 9))).toBe(1)
    for (let i = 0; i < 300; i += 60) {
      updater.arrive(concatRows([part(mode, i, i + 60), clusteredRows(60, COLUMNS, i)]), {
        assumeNormal: true,
      })
    }
    updater.endRound()
    const updated = updater.saved()
    expect(novelShare(updated, newMode(100, 9))).toBeLessThan(0.2)
    expect(novelShare(updated, clusteredRows(200, COLUMNS, 50))).toBeLessThan(0.15)
    // what is neither stays novel
    const other = newMode(50, 8)
    const far = matrixOf(
      50,
      COLUMNS,
      other.data.map((value) => -value),
    )
    if (options.supportGuard !== false) expect(novelShare(updated, far)).toBe(1)
  })

  it('replays a journal to the same bytes, and undoes steps', () => {
    const lines: string[] = []
    const updater = createJournallingUpdater(saved, { learning, seed: 2 }, (line) => lines.push(line))
    const files: Uint8Array[] = []
    for (let i = 0; i < 400; i += 50) {
      updater.arrive(part(stream, i, i + 50), { period: i / 50 })
      files.push(encodeModelFile(updater.saved()))
    }
    updater.endRound()
    expect(encodeModelFile(replayJournal(saved, lines))).toEqual(encodeModelFile(updater.saved()))
    expect(encodeModelFile(replayJournal(saved, lines, 3))).toEqual(files[2])
    expect(encodeModelFile(replayJournal(saved, lines, 0)).length).toBeGreaterThan(0)
    const forged = lines.map((line, i) =>
      i === 1 ? line.replace('"rows":[[', '"rows":[[1e3,').replace(/,[^,]*\],/, '],') : line,
    )
    // another row: another count already, or the checksum
    expect(() => replayJournal(saved, forged)).toThrow(/ended with the model|rows, here there are/)
    expect(() => replayJournal(train(options, 5), lines)).toThrow(/begins with the model/)
  })
})

describe('the ways of a row', () => {
  const saved = train()
  const quiet: LearningOptions = { guard: null, calibrationShare: 0, roundRows: 50 }

  it('learns nothing of novel rows that are disregarded or on hold', () => {
    for (const novel of ['disregard', 'hold'] as const) {
      const updater = createOnlineUpdater(saved, { learning: { ...quiet, novel } })
      const report = updater.arrive(newMode(50))
      expect(report.learnt).toBe(0)
      expect(novel === 'hold' ? report.held : report.disregarded).toBe(50)
      const { weights } = (updater.saved().detector as LearningModel).mixture
      expect(weights.length).toBe((saved.detector as LearningModel).mixture.weights.length)
      expect(novelShare(updater.saved(), newMode(50, 6))).toBe(1)
    }
  })

  it('confirms what comes back in other periods, and not what comes at once', () => {
    const learning: LearningOptions = { ...quiet, confirmRows: 6, confirmPeriods: 3 }
    const burst = createOnlineUpdater(saved, { learning })
    burst.arrive(newMode(200), { period: 1 })
    expect(burst.counters.confirmed).toBe(0)
    const steady = createOnlineUpdater(saved, { learning })
    for (let period = 1; period <= 4; period++) steady.arrive(newMode(10, period), { period })
    expect(steady.counters.confirmed).toBeGreaterThanOrEqual(6)
    steady.endRound()
    expect(novelShare(steady.saved(), newMode(50, 77))).toBeLessThan(0.5)
  })

  it('adds up no bursts that have nothing to do with one another', () => {
    const learning: LearningOptions = { ...quiet, confirmRows: 6, confirmPeriods: 3 }
    const confirmedAfter = (periods: readonly number[]): number => {
      const updater = createOnlineUpdater(saved, { learning })
      for (const period of periods) updater.arrive(newMode(8, period), { period })
      return updater.counters.confirmed
    }
    expect(confirmedAfter([1, 2, 12, 13, 25, 40, 41])).toBe(0)
    expect(confirmedAfter([1, 3, 5])).toBeGreaterThanOrEqual(6)
    // what came long before does not stand in the way
    expect(confirmedAfter([1, 2, 60, 61, 62])).toBeGreaterThanOrEqual(6)
    expect(confirmedAfter([1, 2, 60, 61, 62])).toBeLessThanOrEqual(24)
  })

  it('counts every arrival once', () => {
    const updater = createOnlineUpdater(saved, { learning: { roundRows: 64, heldRows: 7 } })
    let sum = 0
    for (let i = 0; i < 5; i++) {
      const report = updater.arrive(concatRows([clusteredRows(37, COLUMNS, i), newMode(4, i)]))
      sum += report.learnt + report.held + report.disregarded + report.heldBack
    }
    expect(sum).toBe(5 * 41)
    expect(updater.counters.arrived).toBe(5 * 41)
  })

  it('keeps to its caps', () => {
    const updater = createOnlineUpdater(saved, {
      learning: {
        guard: null,
        roundRows: 30,
        reservoirRows: 50,
        maximumComponents: 6,
        sketch: { kind: 'grow', rows: 4, everyRounds: 1, maximumLandmarks: 40 },
      },
    })
    for (let i = 0; i < 12; i++) {
      const rows = newMode(30, i)
      updater.arrive(
        matrixOf(
          30,
          COLUMNS,
          rows.data.map((v) => v * (1 + i)),
        ),
        { assumeNormal: true },
      )
      const { detector } = updater.saved()
      const model = detector as LearningModel
      expect(model.mixture.weights.length).toBeLessThanOrEqual(
        Math.max(6, (saved.detector as LearningModel).mixture.weights.length),
      )
      expect('embedding' in model && model.embedding.landmarks.rows).toBeLessThanOrEqual(40)
      expect(updater.state.reservoir.rows.rows).toBeLessThanOrEqual(50)
    }
    expect(updater.counters.componentsMerged + updater.counters.componentsRemoved).toBeGreaterThan(0)
  })

  it('forgets by half-life', () => {
    const forgetting = { kind: 'exponential', halfLifeRows: 100 } as const
    const updater = createOnlineUpdater(saved, {
      learning: {
        guard: null,
        forgetting,
        roundRows: 50,
        sketch: { kind: 'replace', rows: 10, everyRounds: 1 },
      },
    })
    const stays = createOnlineUpdater(saved, { learning: { guard: null, roundRows: 50 } })
    for (let i = 0; i < 1500; i += 50) {
      updater.arrive(newMode(50, i), { assumeNormal: true })
      stays.arrive(newMode(50, i), { assumeNormal: true })
    }
    const mass = updater.state.statistics.masses.reduce((a, b) => a + b, 0)
    expect(mass).toBeLessThan(190)
    const old = clusteredRows(100, COLUMNS, 70)
    expect(novelShare(updater.saved(), old)).toBeGreaterThan(0.5)
    expect(novelShare(stays.saved(), old)).toBeLessThan(novelShare(updater.saved(), old))
  })

  it('keeps every row and begins from the training rows, as the loop of the text', () => {
    const rows = clusteredRows(TRAINING, COLUMNS)
    const updater = createOnlineUpdater(saved, {
      trainingRows: rows,
      learning: {
        method: 2,
        reservoirRows: 'all',
        calibrationShare: 0,
        guard: null,
        roundRows: 20,
        novel: 'learn',
      },
    })
    updater.arrive(clusteredRows(60, COLUMNS, 12))
    const { reservoir, base, statistics } = updater.state
    expect(reservoir.rows.rows).toBe(TRAINING + 60)
    expect(base.masses.every((mass) => mass === 0)).toBe(true)
    expect(statistics.masses.reduce((a, b) => a + b, 0)).toBeCloseTo(TRAINING + 60, 6)
    expect(() => createOnlineUpdater(saved, { learning: { reservoirRows: 'all' } })).toThrow(/training rows/)
  })
})

describe.each(['full', 'diagonal'] as const)('an update of a gmm with %s covariances', (covariance) => {
  it('is the batch M-step over training rows and arrivals, to 1e-8', () => {
    const saved = train({ detector: 'gmm', k: 4, covariance })
    const before = (saved.detector as LearningModel).mixture as LearningMixture
    const training = clusteredRows(TRAINING, COLUMNS)
    const arrivals = clusteredRows(80, COLUMNS, 12)
    const updater = createOnlineUpdater(saved, {
      trainingRows: training,
      // no round ends, so nothing but the step for what arrives has happened
      learning: { calibrationShare: 0, guard: null, roundRows: 1000, novel: 'disregard' },
    })
    const { novel } = updater.arrive(arrivals)
    const learnt = takeRows(
      arrivals,
      [...novel.keys()].filter((i) => novel[i] === 0),
    )
    expect(learnt.rows).toBeGreaterThan(70)
    const all = concatRows([training, learnt])
    const responsibilities = matrixOf(all.rows, 4, new Float64Array(all.rows * 4))
    const evaluator = createMixtureEvaluator(before)
    for (let i = 0; i < all.rows; i++) {
      responsibilitiesInto(evaluator, all.data, i * COLUMNS, responsibilities.data, i * 4)
    }
    const regularisation = regularisationOf(saved.detector as LearningModel)
    const full = maximiseFull(all, responsibilities, regularisation)!
    const batch =
      covariance === 'full'
        ? { means: full.means, covariances: mixtureCovariances(full) }
        : momentsOf(covariance, all, responsibilities, regularisation)
    const after = (updater.detector as LearningModel).mixture as LearningMixture
    const covariances =
      after.covarianceType === 'full' ? mixtureCovariances(after) : typedMixtureCovariances(after)
    const expectClose = (found: ArrayLike<number>, expected: ArrayLike<number>, scale = 0) => {
      expect(found.length).toBe(expected.length)
      for (let i = 0; i < found.length; i++) {
        const bound = 1e-8 * Math.max(scale, Math.abs(expected[i]!))
        expect(Math.abs(found[i]! - expected[i]!)).toBeLessThanOrEqual(bound)
      }
    }
    expectClose(after.means.data, batch.means.data)
    expectClose(covariances, batch.covariances, Math.max(...batch.covariances))
  })
})

describe('the time of an arrival', () => {
  it('is less than a tenth of that of a training', () => {
    const parameters = checkParameters({})
    const rows = clusteredRows(2000, COLUMNS)
    const millisOf = (work: () => void): number => {
      const begun = process.cpuUsage()
      work()
      const { user, system } = process.cpuUsage(begun)
      return (user + system) / 1000
    }
    const middle = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!
    const training = middle(
      [1, 2, 3].map((seed) => millisOf(() => fitDetector(rows, parameters, createRng(seed)))),
    )
    const updater = createOnlineUpdater({ ...train(), detector: fitDetector(rows, parameters, createRng(1)) })
    const arrivals = clusteredRows(300, COLUMNS, 5)
    const each = middle(
      [0, 1, 2].map((third) =>
        millisOf(() => {
          for (let i = 0; i < 100; i++) {
            const at = third * 100 + i
            updater.arrive(part(arrivals, at, at + 1), { assumeNormal: true })
          }
        }),
      ),
    )
    expect(updater.counters.rounds).toBe(3)
    expect(training / (each / 100)).toBeGreaterThan(10)
  })
})

describe('the guard against poisoning', () => {
  it('undoes a round that would have known-novel rows pass, and counts it', () => {
    const saved = train()
    const target = newMode(60, 5)
    const learning: LearningOptions = { roundRows: 60 }
    const guarded = createOnlineUpdater(saved, { learning, knownNovel: part(target, 0, 30) })
    const open = createOnlineUpdater(saved, { learning: { ...learning, guard: null } })
    const before = encodeModelFile({ ...guarded.saved(), learned: undefined as never })
    const report = guarded.arrive(target, { assumeNormal: true })
    expect(report.rounds[0]!.refused).toBe(true)
    expect(report.rounds[0]!.noveltyLoss).toBeGreaterThan(0.05)
    expect(guarded.counters.refused).toBeGreaterThan(40)
    expect(guarded.counters.learnt).toBe(0)
    expect(encodeModelFile({ ...guarded.saved(), learned: undefined as never })).toEqual(before)
    open.arrive(target, { assumeNormal: true })
    expect(novelShare(open.saved(), newMode(50, 2))).toBeLessThan(0.5)
    expect(novelShare(guarded.saved(), newMode(50, 2))).toBe(1)
  })
})

describe('what cannot learn on', () => {
  it('is refused by name', () => {
    expect(() => createOnlineUpdater(train({ detector: 'nearest' }))).toThrow(/nearest has no mixture/)
    expect(() => createOnlineUpdater(train({ detector: 'gmm', covariance: 'tied' }))).toThrow(/tied/)
    const saved = train()
    expect(() => createOnlineUpdater(saved, { learning: { roundRows: 0 } })).toThrow(/learning.roundRows/)
    expect(() => createOnlineUpdater(saved, { learning: { speed: 1 } as never })).toThrow(/learning.speed/)
    expect(() => createOnlineUpdater(saved).arrive(newMode(1), { period: -1 })).toThrow(/period/)
    const updater = createOnlineUpdater(saved)
    updater.arrive(clusteredRows(120, COLUMNS, 2))
    expect(() => createOnlineUpdater(updater.saved(), { seed: 2 })).toThrow(/updated before/)
  })
})

import { concatRows, createRng, type Matrix, matrixOf } from '@oddflow/core'
import { type DetectorOptions, decodeModelFile, encodeModelFile } from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import {
  createJournallingUpdater,
  createOnlineUpdater,
  DEFAULT_GUARD,
  type LearnedState,
  type LearningModel,
  learnedStateOf,
  replayJournal,
} from '../src/index.js'
import { emptyStatistics, mixtureOfStatistics, StatisticsError } from '../src/mixture-statistics.js'
import { sampleModel, sampleRows } from './detectors.js'

const DETECTORS: [string, DetectorOptions][] = [
  ['oc-kjl-qs', { detector: 'oc-kjl-qs' }],
  ['oc-kjl, unguarded', { detector: 'oc-kjl', supportGuard: false }],
  ['oc-nystrom-qs, float32', { detector: 'oc-nystrom-qs', precision: 'f32' }],
  ['gmm, full', { detector: 'gmm', k: 2 }],
  ['gmm, diagonal', { detector: 'gmm', k: 2, covariance: 'diagonal' }],
]

/** n ordinary rows, and in the places given rows of N(0, 1), cut at ±1.7, times the size. */
function withHuge(n: number, size: number, places: readonly number[], seed = 5): Matrix {
  const rows = sampleRows(seed, n)
  const rng = createRng(seed)
  for (const place of places) {
    for (let c = 0; c < rows.cols; c++)
      rows.data[place * rows.cols + c] = Math.max(-1.7, Math.min(1.7, rng.nextNormal())) * size
  }
  return rows
}

const numbersOf = ({ statistics, base, reservoir }: LearnedState) => [
  ...statistics.masses,
  ...statistics.means,
  ...statistics.scatters,
  ...base.means,
  ...base.scatters,
  ...reservoir.rows.data,
]

describe('a covariance that is not finite', () => {
  it.each(['full', 'diagonal'] as const)('is an error at once, and no endless search, %s', (type) => {
    for (const value of [Number.POSITIVE_INFINITY, Number.NaN]) {
      for (const part of ['masses', 'means', 'scatters'] as const) {
        const statistics = emptyStatistics(type, 2, 2)
        statistics.masses.fill(3)
        statistics[part][0] = value
        expect(() => mixtureOfStatistics(statistics, 1e-6)).toThrow(StatisticsError)
      }
    }
    const small = emptyStatistics(type, 1, 2)
    small.scatters.fill(1e300)
    expect(() => mixtureOfStatistics(small, 1e-6)).toThrow(StatisticsError)
  })
})

describe.each(DETECTORS)('rows too large to learn from, %s', (_, options) => {
  const saved = sampleModel(options)

  it.each([1e142, 1e155, 1e160, 1e308])('are disregarded and counted, of size %d', (size) => {
    const updater = createOnlineUpdater(saved, {
      learning: { roundRows: 50, guard: null, novel: 'learn', confirmPeriods: 1, maximumComponents: 11 },
    })
    const places = [3, 11, 12, 40, 77, 103, 150, 200, 222, 270, 299]
    const rows = withHuge(300, size, places)
    const report = updater.arrive(rows, { assumeNormal: true })
    expect(report.scores.every(Number.isFinite)).toBe(true)
    expect(report.disregarded).toBe(places.length)
    expect(report.rounds.every((round) => round.reason === null)).toBe(true)
    const one = sampleRows(6, 20)
    one.data.fill(size, one.cols * 3, one.cols * 4)
    expect(updater.arrive(one).disregarded).toBe(1)
    updater.endRound()
    const after = updater.saved()
    expect(numbersOf(learnedStateOf(after)!).every(Number.isFinite)).toBe(true)
    expect(encodeModelFile(decodeModelFile(encodeModelFile(after)))).toEqual(encodeModelFile(after))
    expect(updater.counters.arrived).toBe(320)
  })

  it('just within the limit are learned with finite numbers only', () => {
    const updater = createOnlineUpdater(saved, {
      learning: { roundRows: 50, guard: null, calibrationShare: 0, maximumComponents: 11 },
    })
    const report = updater.arrive(withHuge(300, 1e139, [1, 2, 3, 60, 61, 62, 63, 64, 65, 210, 211, 212]), {
      assumeNormal: true,
    })
    expect(report.disregarded).toBe(0)
    expect(report.rounds.every((round) => round.reason === null)).toBe(true)
    expect(numbersOf(updater.state).every(Number.isFinite)).toBe(true)
    expect(report.scores.every(Number.isFinite)).toBe(true)
    const again = updater.arrive(withHuge(60, 1e139, [7, 8]))
    expect(again.scores.every(Number.isFinite)).toBe(true)
    decodeModelFile(encodeModelFile(updater.saved()))
  })

  it('are refused by number among training and known-novel rows', () => {
    const huge = withHuge(30, 1e160, [7])
    expect(() => createOnlineUpdater(saved, { knownNovel: huge })).toThrow(/knownNovel: row 7/)
    expect(() => createOnlineUpdater(saved, { trainingRows: huge })).toThrow(/trainingRows: row 7/)
  })

  it('undo the round, counted and with its reason, where a state is made that overflows', () => {
    const far = sampleRows(8, 40)
    for (let i = 0; i < far.data.length; i++) far.data[i]! += 30
    for (const method of [1, 2] as const) {
      const updater = createOnlineUpdater(saved, {
        learning: { roundRows: 20, method, guard: { ...DEFAULT_GUARD, maximumNoveltyLoss: 0 } },
        knownNovel: far,
      })
      // no file has such a state; the round that the guard undoes goes back to it
      updater.state.base.scatters[0] = Number.POSITIVE_INFINITY
      const report = updater.arrive(far, { assumeNormal: true })
      expect(report.rounds.map(({ refused, reason }) => [refused, reason])).toEqual([
        [true, 'guard'],
        [true, 'overflow'],
      ])
      const { refusedRounds, learnt, refused } = updater.counters
      expect([refusedRounds, learnt, refused]).toEqual([2, 0, 40 - report.heldBack])
      expect(updater.saved().detector).toEqual(saved.detector)
    }
  })

  it('refuse a mixture whose numbers are too large to update', () => {
    const model = saved.detector as LearningModel
    const means = { ...model.mixture.means, data: model.mixture.means.data.slice() }
    means.data[0] = 1e200
    const detector = { ...model, mixture: { ...model.mixture, means } } as LearningModel
    expect(() => createOnlineUpdater({ ...saved, detector })).toThrow(/mixture.means: too large/)
    const narrow = model.mixture.precisionCholesky.slice()
    narrow[0] = 1e-200
    const wide = { ...model, mixture: { ...model.mixture, precisionCholesky: narrow } } as LearningModel
    expect(() => createOnlineUpdater({ ...saved, detector: wide })).toThrow(/precisionCholesky: too large/)
  })
})

describe('−0', () => {
  it.each(DETECTORS)('is 0 to an updater and its journal alike, %s', (_, options) => {
    const saved = sampleModel(options)
    const rows = concatRows([sampleRows(5, 60)])
    for (let i = 0; i < rows.data.length; i += 3) rows.data[i] = -0
    const lines: string[] = []
    const updater = createJournallingUpdater(
      saved,
      {
        learning: { roundRows: 20, guard: null },
        knownNovel: matrixOf(1, rows.cols, new Float64Array(rows.cols).fill(-0)),
      },
      (line) => lines.push(line),
    )
    updater.arrive(rows, { assumeNormal: true })
    expect(encodeModelFile(replayJournal(saved, lines))).toEqual(encodeModelFile(updater.saved()))
  })
})

import { concatRows, createRng, type Matrix, matrixOf } from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  createScoreWorkspace,
  type DetectorOptions,
  fitDetector,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { createPageHinkley } from '../src/drift.js'
import { createDriftMonitor, createLearningBudget } from '../src/index.js'
import { clusteredRows } from './detectors.js'

/** Bernoulli numbers whose rate changes after `change`. */
function bits(n: number, change: number, before: number, after: number, seed: number): number[] {
  const rng = createRng(seed)
  return Array.from({ length: n }, (_, i) => (rng.nextFloat() < (i < change ? before : after) ? 1 : 0))
}

describe('Page–Hinkley', () => {
  it('says that and where to the mean has gone', () => {
    for (const [after, direction] of [
      [0.7, 'up'],
      [0.1, 'down'],
    ] as const) {
      const changeOf = createPageHinkley()
      const alarms = bits(3000, 1500, 0.4, after, 4).flatMap((bit, i) => {
        const alarm = changeOf(bit)
        return alarm === null ? [] : [{ i, alarm }]
      })
      expect(alarms[0]!.alarm).toBe(direction)
      expect(alarms[0]!.i).toBeGreaterThanOrEqual(1500)
      expect(alarms[0]!.i).toBeLessThan(1700)
    }
  })

  it('follows the sums of its definition', () => {
    const values = bits(200, 100, 0.5, 0.9, 8)
    const changeOf = createPageHinkley()
    let mean = 0
    let sum = 0
    let lowest = 0
    const first = values.findIndex((value, i) => {
      mean += (value - mean) / (i + 1)
      sum += value - mean - 0.05
      lowest = Math.min(lowest, sum)
      return i >= 29 && sum - lowest > 15
    })
    expect(values.findIndex((value) => changeOf(value) === 'up')).toBe(first)
    expect(first).toBeGreaterThan(0)
  })
})

const COLUMNS = 5

function train(options: DetectorOptions = {}): SavedModel {
  const detector = fitDetector(clusteredRows(600, COLUMNS), checkParameters({ ...options }), createRng(1))
  const rows = clusteredRows(300, COLUMNS, 7)
  const scores = scoreSamples(detector, rows, new Float64Array(300), createScoreWorkspace(detector))
  return {
    detector,
    contract: { featureSet: 'rows', featureSetVersion: 1, dimension: COLUMNS, scaler: 'none' },
    threshold: calibrateThreshold(scores, 0.01),
    onePacketRule: null,
    provenance: { oddflowVersion: '0.1.0', seed: 1, dataSha256: 'ab'.repeat(32), rows: 900 },
  }
}

const moved = (rows: Matrix, by: number) =>
  matrixOf(
    rows.rows,
    rows.cols,
    rows.data.map((v) => v + by),
  )

describe.each<[string, DetectorOptions]>([
  ['oc-kjl-qs', { m: 40 }],
  ['oc-kjl-qs, unguarded', { m: 40, supportGuard: false }],
  ['gmm', { detector: 'gmm', k: 3 }],
])('drift signals of %s', (_, options) => {
  const saved = train(options)

  it('are silent on traffic like the training', () => {
    const monitor = createDriftMonitor(saved)
    for (let i = 0; i < 5; i++) monitor.add(clusteredRows(90, COLUMNS, 40 + i))
    const report = monitor.report()
    expect(report.findings).toEqual([])
    expect(report.rows).toBe(450)
    expect(report.shares.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 9)
  })

  it('speak when it moves, and when the change comes on the way say where', () => {
    const monitor = createDriftMonitor(saved)
    monitor.add(clusteredRows(600, COLUMNS, 3))
    monitor.add(moved(clusteredRows(600, COLUMNS, 4), 3))
    const { drifted, changes, novelShare } = monitor.report()
    expect(drifted).toBe(true)
    if (options.supportGuard === false) return
    expect(novelShare).toBeGreaterThan(0.1)
    expect(changes[0]!.row).toBeGreaterThan(600)
    expect(changes[0]!.row).toBeLessThan(760)
    expect(changes[0]!.direction).toBe('down')
  })

  it('speak when one component takes it all', () => {
    const rows = clusteredRows(600, COLUMNS, 3)
    const first = Array.from({ length: 200 }, (_, i) =>
      rows.data.slice(3 * i * COLUMNS, (3 * i + 1) * COLUMNS),
    )
    const monitor = createDriftMonitor(saved)
    monitor.add(concatRows(first.map((data) => matrixOf(1, COLUMNS, data))))
    const report = monitor.report()
    expect(report.occupancy).toBeGreaterThan(0.5)
    expect(report.findings.join(' ')).toContain('other components are busy')
  })
})

describe('rows out of sight', () => {
  it('are rows that no landmark sees', () => {
    const monitor = createDriftMonitor(train({ m: 40 }))
    monitor.add(clusteredRows(90, COLUMNS, 3))
    monitor.add(matrixOf(10, COLUMNS, new Float64Array(10 * COLUMNS).fill(1e4)))
    expect(monitor.report().unseenShare).toBeCloseTo(0.1, 9)
  })
})

describe('the learning budget', () => {
  const hour = 3_600_000_000

  it('is by device and hour of the traffic', () => {
    const budget = createLearningBudget(2)
    expect([budget.take('a', 0), budget.take('a', 1), budget.take('a', 2)]).toEqual([true, true, false])
    expect(budget.take('b', 3)).toBe(true)
    expect(budget.take('a', hour)).toBe(true)
    expect(budget.take('a', hour - 1)).toBe(true)
    expect(budget.take('a', hour - 1)).toBe(false)
    expect(budget.refused).toBe(2)
  })

  it('remembers at most its maximum of devices', () => {
    const budget = createLearningBudget(1, 2)
    for (const device of ['a', 'b', 'c']) expect(budget.take(device, 0)).toBe(true)
    expect(budget.take('c', 1)).toBe(false)
    expect(budget.take('a', 1)).toBe(true)
    expect(() => createLearningBudget(0)).toThrow(/rowsPerHour/)
  })
})

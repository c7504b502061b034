/** Thresholds of a budget, as traffic goes by: a fixed stream of scores, and a clock of packets. */

import { createRng, DataError } from '@oddflow/core'
import { calibrateThreshold } from '@oddflow/detectors'
import { parseNetwork } from '@oddflow/program'
import { describe, expect, it } from 'vitest'
import { AlertBudget } from '../../src/budget/alert-budget.js'
import {
  CALIBRATION,
  type Calibration,
  calibrationFields,
  createCalibrator,
  MICROS_PER_DAY,
} from '../../src/budget/calibration.js'
import { budgetThresholds } from '../../src/budget/thresholds.js'
import type { BudgetSettings } from '../../src/config/settings.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { sampleRecord } from '../support/sample-record.js'

const MODEL = '0123456789abcdef'
const HOUR = MICROS_PER_DAY / 24
const localNetworks = [parseNetwork('192.168.0.0/16')]
const folder = temporaryFolder()
/** Of 99 scores from −4 down to −102, at a rate of 5 %. */
const MODEL_THRESHOLD = calibrateThreshold(
  Float64Array.from({ length: 99 }, (_, i) => -4 - i),
  0.05,
)

const settings = (changes: Partial<BudgetSettings> = {}): BudgetSettings => ({
  falseAlertsPerDay: 1,
  per: 'network',
  calibration: null,
  calibrateHours: 24,
  ...changes,
})

/** Devices 1, 2, … with so many flows each, in so many days; scores are logarithms of uniform ones. */
function calibrationOf(flowsByDevice: readonly number[], days: number, seed = 1): Calibration {
  const rng = createRng(seed)
  const calibrator = createCalibrator(MODEL)
  for (const [i, flows] of flowsByDevice.entries()) {
    for (let f = 0; f < flows; f++) calibrator.addScore(Math.log(1 - rng.nextFloat()), macOf(i + 1))
  }
  calibrator.addWatched(days * MICROS_PER_DAY)
  return calibrator.snapshot()
}

const macOf = (device: number): string => `02:00:00:00:00:${device.toString(16).padStart(2, '0')}`

function budgetOf(changes: Partial<ConstructorParameters<typeof AlertBudget>[0]> = {}) {
  const log = keepingLog()
  const budget = new AlertBudget({
    settings: settings(),
    model: MODEL,
    saved: { threshold: MODEL_THRESHOLD },
    localNetworks,
    given: null,
    kept: null,
    save: null,
    log,
    ...changes,
  })
  return { budget, log }
}

describe('a made flow', () => {
  it('is judged by the threshold of a real one, device by device, and is counted nowhere', () => {
    const given = calibrationOf([4000, 40], 2)
    for (const options of [{ given, settings: settings({ per: 'device' }) }, { given }, {}] as const) {
      const { budget } = budgetOf(options)
      const before = budget.report()
      const made = [1, 2, 3].map((device) => budget.of(macOf(device)))
      expect(budget.report()).toEqual(before)
      expect(made).toEqual([1, 2, 3].map((device) => budget.judge(sampleRecord(device), -50)))
      expect(budget.report()).not.toEqual(before)
    }
  })
})

describe('a calibration file', () => {
  it('gives a busy device a lower threshold than a quiet one, and an unseen one the lowest', () => {
    // 2,000 flows a day and device 1: a rate of 1/2000; device 2: 1/20
    const { thresholds } = budgetThresholds(settings({ per: 'device' }), calibrationOf([4000, 40], 2))
    expect(thresholds?.strictest).toMatchObject({ method: 'conformal', rate: 1 / 2000 })
    expect(thresholds?.of(macOf(1))).toBe(thresholds?.strictest.value)
    expect(thresholds?.of(macOf(3))).toBe(thresholds?.strictest.value)
    // log(1/20) within what 4,040 scores tell
    expect(thresholds?.of(macOf(2))).toBeGreaterThan(-3.3)
    expect(thresholds?.of(macOf(2))).toBeLessThan(-2.7)
    expect(thresholds?.highest).toBe(thresholds?.of(macOf(2)))
  })

  it('tells how rare a score is: the share of the calibration that is as low', () => {
    const given = calibrationOf([2000], 1)
    const { budget } = budgetOf({ given })
    const { lowest } = given.scores
    expect(budget.rarity(lowest[0] - 1)).toEqual({ atMost: 1 / 2001, flows: 2000 })
    expect(budget.rarity(lowest[9])).toEqual({ atMost: 11 / 2001, flows: 2000 })
    expect(budget.rarity(lowest[9] - 1e-12)).toEqual({ atMost: 10 / 2001, flows: 2000 })
    // before there is a calibration, what the model knows
    expect(budgetOf().budget.rarity(-1e9)).toEqual({ atMost: 5 / 100, flows: 99 })
  })

  it('holds from the start, and the report has the achieved rate with its interval', () => {
    const given = calibrationOf([2000], 1)
    const { budget } = budgetOf({ given })
    expect(budget.report()).toMatchObject({
      state: 'kept',
      calibration: { flows: 2000, hours: 24, flowsNeeded: null },
      threshold: { method: 'conformal' },
      achieved: { alerts: 0, days: 0, perDay: null, interval: null },
    })
    const rng = createRng(9)
    const days = 30
    let novel = 0
    for (let i = 0; i <= 2000 * days; i++) {
      budget.advance((i * MICROS_PER_DAY) / 2000)
      const score = Math.log(1 - rng.nextFloat())
      if (score <= budget.judge(sampleRecord(1), score)) novel++
    }
    const { achieved } = budget.report() ?? {}
    expect(achieved).toMatchObject({ alerts: novel, devices: 1 })
    expect(achieved?.days).toBeCloseTo(days, 6)
    expect(achieved?.perDay).toBeCloseTo(novel / days, 6)
    expect(achieved?.interval?.low).toBeLessThan(novel / days)
    expect(achieved?.interval?.high).toBeGreaterThan(novel / days)
    // one calibration may be unlucky by the interval that it tells of itself
    const { interval } = budget.report()?.threshold ?? {}
    expect(novel / days).toBeLessThan(1.5 * 2000 * (interval?.high ?? 0))
  })

  it('that does not carry the budget is refused with the flows that it takes', () => {
    expect(() =>
      budgetOf({ given: calibrationOf([400], 1), settings: settings({ falseAlertsPerDay: 0.01 }) }),
    ).toThrow(
      /of the 400 flows a day of the network: there are too few flows; 39999 normal flows are needed, 400 are there; a tail fit can be tried from 3999 flows on/,
    )
    expect(() =>
      budgetOf({ given: calibrationOf([400], 1), settings: settings({ falseAlertsPerDay: 0.01 }) }),
    ).toThrow(DataError)
    expect(() => budgetThresholds(settings(), calibrationOf([], 1))).toThrow(
      /expected normal flows, found none/,
    )
    expect(() => budgetThresholds(settings(), calibrationOf([5], 0))).toThrow(/span no time/)
  })
})

describe('an agent without one', () => {
  const feed = (
    budget: ReturnType<typeof budgetOf>['budget'],
    fromHour: number,
    hours: number,
    perHour: number,
  ) => {
    const rng = createRng(fromHour)
    let last = 0
    for (let i = 0; i < hours * perHour; i++) {
      budget.advance((fromHour + i / perHour) * HOUR)
      last = budget.judge(sampleRecord(1), Math.log(1 - rng.nextFloat()))
    }
    budget.advance((fromHour + hours) * HOUR)
    return last
  }

  it('judges by the model, calibrates itself, and then keeps the budget; nothing moves it afterwards', () => {
    const { budget, log } = budgetOf()
    expect(feed(budget, 0, 23, 100)).toBe(MODEL_THRESHOLD.value)
    expect(budget.report()).toMatchObject({ state: 'calibrating', achieved: null, threshold: null })
    feed(budget, 23, 2, 100)
    const kept = budget.report()
    expect(kept).toMatchObject({ state: 'kept', threshold: { method: 'conformal' } })
    expect(log.lines).toEqual([expect.stringMatching(/^alert budget: threshold -\d/)])
    const threshold = kept?.threshold?.value ?? 0
    for (let i = 0; i < 5000; i++) {
      budget.advance((25 + i / 100) * HOUR)
      expect(budget.judge(sampleRecord(1), -50)).toBe(threshold)
    }
    expect(budget.report()).toMatchObject({ threshold: kept?.threshold, achieved: { alerts: 5000 } })
  })

  it('takes a tail fit first, and the conformal threshold when it can', () => {
    const { budget } = budgetOf({ settings: settings({ falseAlertsPerDay: 0.5 }) })
    feed(budget, 0, 25, 100)
    // 4,799 flows are needed, 2,500 are there
    expect(budget.report()?.threshold?.method).toBe('tail')
    feed(budget, 25, 30, 100)
    expect(budget.report()).toMatchObject({ threshold: { method: 'conformal' }, achieved: {} })
  })

  it('says what is missing, and does not count a silence or a clock step as watched time', () => {
    const { budget, log } = budgetOf()
    feed(budget, 0, 2, 10)
    budget.advance(200 * HOUR)
    budget.advance(-500 * HOUR)
    budget.advance(-499.5 * HOUR)
    expect(budget.report()?.calibration.hours).toBeCloseTo(3.5, 9)
    const few = budgetOf({ settings: settings({ falseAlertsPerDay: 1e-3, calibrateHours: 1 }) })
    feed(few.budget, 0, 3, 10)
    expect(few.budget.report()).toMatchObject({
      state: 'calibrating',
      calibration: { flowsNeeded: expect.any(Number) },
    })
    expect(few.log.lines).toEqual(['alert budget: still calibrating: there are too few flows'])
    expect(log.lines).toEqual([])
  })

  it('keeps what it has calibrated for the next run', async () => {
    const save = (calibration: Calibration) =>
      CALIBRATION.write(nodeFileSystem, folder, calibrationFields(calibration))
    const first = budgetOf({ save })
    feed(first.budget, 0, 20, 100)
    await first.budget.close()
    const kept = await CALIBRATION.read(nodeFileSystem, folder, keepingLog())
    expect(kept?.scores.count).toBe(2000)
    const other = budgetOf({ kept: kept === null ? null : { ...kept, model: 'f'.repeat(16) } })
    expect(other.budget.report()?.calibration.flows).toBe(0)
    const second = budgetOf({ kept, save })
    feed(second.budget, 100, 5, 100)
    expect(second.budget.report()).toMatchObject({ state: 'kept' })
    await second.budget.close()
    // a third starts with the thresholds
    const third = budgetOf({ kept: await CALIBRATION.read(nodeFileSystem, folder, keepingLog()) })
    expect(third.budget.report()?.threshold).toEqual(second.budget.report()?.threshold)
  })
})

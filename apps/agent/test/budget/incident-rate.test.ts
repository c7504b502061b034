import { expect, it } from 'vitest'
import { createIncidentRate, overBudgetText } from '../../src/budget/alert-budget.js'

const HOUR = 3_600_000_000
const begin = 1_700_000_000_000_000
const none = (): boolean => false
const budget = { falseAlertsPerDay: 1, per: 'device' as const }

/** Half hours of packets. */
function watch(
  rate: ReturnType<typeof createIncidentRate>,
  hours: number,
  devices: number,
  from = begin,
): void {
  for (let at = 0; at <= hours; at += 0.5) rate.advance(from + at * HOUR, devices)
}

it('incidents are counted for each watched device and day, attacks apart, with an exact interval', () => {
  const rate = createIncidentRate(budget)
  expect(rate.report(none)).toEqual({ opened: 0, attacks: 0, perDay: null, interval: null, allowedPerDay: 1 })
  watch(rate, 48, 2)
  for (const id of ['a', 'b', 'c']) rate.opened(id)
  expect(rate.report(none)).toMatchObject({ opened: 3, attacks: 0, perDay: 0.75 })
  const { perDay, interval, attacks } = rate.report((id) => id === 'b')
  expect({ perDay, attacks }).toEqual({ perDay: 0.5, attacks: 1 })
  // Garwood: 2 events are those of a mean of 0.2422 to 7.2247
  expect(interval?.low).toBeCloseTo(0.2422 / 4, 4)
  expect(interval?.high).toBeCloseTo(7.2247 / 4, 4)
  const network = createIncidentRate({ ...budget, per: 'network' })
  watch(network, 48, 2)
  network.opened('a')
  expect(network.report(none).perDay).toBe(0.5)
})

it('time without packets, late packets and a clock that was set back are no time of watching', () => {
  const rate = createIncidentRate(budget)
  watch(rate, 24, 1)
  rate.advance(begin + 24 * HOUR - 1_000_000, 1)
  rate.advance(begin + 1000 * HOUR, 1)
  watch(rate, 23, 1, begin - 500 * HOUR)
  rate.advance(Number.NaN, 1)
  rate.opened('a')
  expect(rate.report(none).perDay).toBe(0.5)
  const unwatched = createIncidentRate(budget)
  watch(unwatched, 24, 0)
  expect(unwatched.report(none).perDay).toBe(null)
})

it('a few minutes of watching are not extrapolated to a day', () => {
  const rate = createIncidentRate(budget)
  watch(rate, 0.5, 1)
  for (let i = 0; i < 3; i++) rate.opened(String(i))
  expect(rate.report(none).perDay).toBe(3)
  expect(overBudgetText(rate.report(none))).toBe(null)
})

it('more incidents than the budget are reported only if that is certain', () => {
  const rate = createIncidentRate(budget)
  watch(rate, 24, 1)
  for (let i = 0; i < 4; i++) rate.opened(String(i))
  expect(overBudgetText(rate.report(none))).toBe(
    '4 incidents a day (at least 1.1), 1 allowed by the budget: answer them, or calibrate again',
  )
  expect(overBudgetText(rate.report((id) => id === '0'))).toBe(null)
  const free = createIncidentRate(null)
  watch(free, 24, 1)
  for (let i = 0; i < 400; i++) free.opened(String(i))
  expect(overBudgetText(free.report(none))).toBe(null)
})

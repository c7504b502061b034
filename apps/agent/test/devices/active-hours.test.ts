import fc from 'fast-check'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { HoursSchema, noHours, noteHour } from '../../src/devices/device.js'

const HOUR = 3_600_000_000
const DAY = 24 * HOUR
/** Sunday, 2026-11-29 00:00 UTC. */
const sunday = Date.UTC(2026, 10, 29) * 1000

/** A device that is used at these hours of each day. */
function used(days: number, hoursOfDay: readonly number[], hours = noHours()) {
  const facts: string[] = []
  for (let day = 0; day < days; day++)
    for (const hour of hoursOfDay) {
      const unusual = noteHour(hours, sunday + day * DAY + hour * HOUR)
      if (unusual !== null) facts.push(`${day}: ${unusual.hour}, ${unusual.days}`)
    }
  return { hours, facts }
}

describe('an hour of the week', () => {
  it('is unusual where the device never was active in it, and no other was new for seven days', () => {
    const { hours, facts } = used(15, [8, 9, 20])
    expect(facts).toEqual([])
    expect(noteHour(hours, sunday + 15 * DAY + 3.5 * HOUR)).toEqual({
      hour: 'Monday between 03:00 and 04:00 UTC',
      days: 16,
    })
    // the next one is too soon, and those that are known are none
    for (const hour of [3, 4, 8]) expect(noteHour(hours, sunday + 15 * DAY + hour * HOUR)).toBeNull()
    for (let day = 16; day < 22; day++) expect(noteHour(hours, sunday + day * DAY + 8 * HOUR)).toBeNull()
    expect(noteHour(hours, sunday + 22 * DAY + 23 * HOUR)?.hour).toBe('Monday between 23:00 and 24:00 UTC')
  })

  it('is not before two weeks of days on which the device was seen, however long they took', () => {
    const hours = noHours()
    for (let day = 0; day < 13; day++) noteHour(hours, sunday + 7 * day * DAY + 8 * HOUR)
    expect(noteHour(hours, sunday + 13 * 7 * DAY + 3 * HOUR)).toBeNull()
  })

  it('makes at most one fact in seven days, whatever the device does and the clock shows', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(60 * 24), { maxLength: 500 }), fc.boolean(), (all, isInOrder) => {
        const hours = noHours()
        let facts = 0
        const days = new Set<number>()
        for (const hour of isInOrder ? all.sort((a, b) => a - b) : all) {
          if (noteHour(hours, sunday + hour * HOUR) !== null) facts++
          days.add(Math.floor(hour / 24))
          expect(v.parse(HoursSchema, structuredClone(hours))).toEqual(hours)
        }
        if (isInOrder) expect(facts).toBeLessThanOrEqual(Math.max(0, Math.ceil((days.size - 14) / 7)))
      }),
      { numRuns: sampleCount(500) },
    )
  })

  it('goes on after the clock was set back', () => {
    const { hours } = used(15, [8])
    const before = used(8, [8], hours)
    expect(before.facts).toEqual([])
    expect(hours.days).toBeGreaterThan(20)
  })
})

it('an invalid value is refused', () => {
  const whole = used(3, [8]).hours
  expect(v.is(HoursSchema, whole)).toBe(true)
  for (const changed of [
    { seen: 'f' },
    { seen: 'g'.repeat(42) },
    { days: -1 },
    { newAtDays: 9 },
    { day: 0.5 },
  ])
    expect(v.is(HoursSchema, { ...whole, ...changed })).toBe(false)
  for (const value of [null, undefined, 'x', []]) expect(v.is(HoursSchema, value)).toBe(false)
})

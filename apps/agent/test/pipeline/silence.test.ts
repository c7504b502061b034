/** How long a network may be silent is learnt from it; and a condition is told once at each end. */
import { expect, it } from 'vitest'
import type { Notice } from '../../src/alerts/eve.js'
import { createCondition, createSilence } from '../../src/pipeline/conditions.js'
import { keepingLog } from '../support/keeping-log.js'

const ticksUntilTold = (silence: ReturnType<typeof createSilence>): number => {
  for (let i = 1; i < 100_000; i++) if (silence.tick() !== null) return i
  throw new Error('never told')
}

it('packets of which none is IP are no end of a silence', () => {
  const silence = createSilence()
  silence.others()
  expect(ticksUntilTold(silence)).toBe(601)
  expect(silence.tick()).toMatch(/^packets arrive, but no readable IP packet for 10 minutes/)
  silence.end()
  expect(ticksUntilTold(silence)).toBe(3 * 602 + 1)
  expect(silence.tick()).toMatch(/^no packet for 30 minutes/)
})

it('a silence of ten minutes is reported, later only one three times as long as the longest', () => {
  const silence = createSilence()
  expect(ticksUntilTold(silence)).toBe(601)
  expect(silence.tick()).toMatch(/^no packet for 10 minutes/)
  silence.end()
  expect(ticksUntilTold(silence)).toBe(3 * 602 + 1)
  silence.end()
  for (let i = 0; i < 600; i++) expect(silence.tick()).toBeNull()
})

it('each cause is reported when it begins and when it is over, whatever its reason in between', () => {
  const told: Notice[] = []
  const log = keepingLog()
  const now = { millis: 0 }
  const clock = {
    wallMicros: () => 1_700_000_000_000_000 + 1000 * now.millis,
    monotonicMillis: () => now.millis,
  }
  const condition = createCondition({ clock, log, tell: (notice) => told.push(notice) })
  condition.set('recorder', null)
  expect(told).toEqual([])
  condition.set('recorder', 'eth0 is gone')
  condition.set('recorder', 'eth0 is gone for longer')
  condition.set('self-test', 'not flagged')
  expect(condition.reasons).toEqual(['eth0 is gone for longer', 'not flagged'])
  now.millis = 61_000
  condition.set('recorder', null)
  condition.set('recorder', null)
  expect(condition.reasons).toEqual(['not flagged'])
  expect(told.map(({ rule, summary }) => `${rule}: ${summary}`)).toEqual([
    'degraded: eth0 is gone',
    'degraded: not flagged',
    'recovered: over after 61 s: eth0 is gone for longer',
  ])
  expect(told[2]).toMatchObject({ atMicros: 1_700_000_061_000_000, numbers: { seconds: 61 } })
  expect(log.lines).toHaveLength(3)
})

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createLossHistory } from '../../src/pipeline/conditions.js'

it('tells what was learnt of since a window began, and never too little of a long one', () => {
  const steps = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 3 })), {
    maxLength: 600,
  })
  fc.assert(
    fc.property(steps, fc.nat(3000), (list, startMicros) => {
      const history = createLossHistory()
      let at = 0
      let total = 0
      let since = 0
      let checkpoints = 0
      for (const [micros, lost] of list) {
        at += micros
        total += lost
        if (lost > 0) checkpoints++
        if (at >= startMicros) since += lost
        history.note(at, total)
      }
      const told = history.since(startMicros)
      if (checkpoints <= 256) expect(told).toBe(since)
      else expect(told).toBeGreaterThanOrEqual(since)
      expect(history.since(at + 1)).toBe(0)
      expect(history.since(0)).toBe(total)
    }),
  )
})

import { FormatError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CALIBRATION,
  type Calibrator,
  calibrationFields,
  createCalibrator,
  MAXIMUM_DEVICES,
} from '../../src/budget/calibration.js'

const MODEL = '0123456789abcdef'

const encoded = (calibrator: Calibrator): string =>
  JSON.stringify(CALIBRATION.encode(calibrationFields(calibrator.snapshot())))

describe('a calibration', () => {
  it('comes back from JSON as it was, and goes on from there', () => {
    const flows = fc.array(
      fc.tuple(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer({ min: 0, max: 9 })),
    )
    fc.assert(
      fc.property(flows, flows, (first, second) => {
        const whole = createCalibrator(MODEL)
        const before = createCalibrator(MODEL)
        const feed = (calibrator: typeof whole, list: typeof first): void => {
          for (const [score, device] of list) calibrator.addScore(score, `device ${device}`)
          calibrator.addOnePacketNovel()
          calibrator.addWatched(7)
        }
        feed(whole, first)
        feed(whole, second)
        feed(before, first)
        const kept = CALIBRATION.decode(JSON.parse(encoded(before)))
        const after = createCalibrator(MODEL, kept)
        feed(after, second)
        // JSON has one zero
        expect(encoded(after)).toBe(encoded(whole))
      }),
    )
  })

  it('has bounds', () => {
    const calibrator = createCalibrator(MODEL)
    for (let i = 0; i < 3 * MAXIMUM_DEVICES; i++) calibrator.addScore(-i, String(i))
    const { scores, flowsByDevice } = calibrator.snapshot()
    expect(flowsByDevice.size).toBe(MAXIMUM_DEVICES)
    expect(scores.count).toBe(3 * MAXIMUM_DEVICES)
    expect(scores.lowest.length).toBeLessThanOrEqual(4096)
  })

  it.each([
    ['kind', null],
    ['kind', {}],
    ['version', { version: 2 }],
    ['model', { model: 'x' }],
    ['flows', { flows: -1 }],
    ['flows', { flows: 1.5 }],
    ['watchedMicros', { watchedMicros: '1' }],
    ['onePacketNovel', { onePacketNovel: null }],
    ['devices', { devices: {} }],
    ['devices', { devices: [['a', 99]] }],
    ['devices', { devices: [[1, 1]] }],
    ['devices', { devices: [['a'.repeat(65), 1]] }],
    ['lowestScores', { lowestScores: [2, 1] }],
    ['lowestScores', { lowestScores: ['1', 2] }],
    ['lowestScores', { lowestScores: [1] }],
    ['lowestScores', { lowestScores: [1, 2, 3] }],
  ])('is refused by its %s', (field, changes) => {
    const good = {
      kind: 'oddflow-calibration',
      version: 1,
      model: MODEL,
      flows: 2,
      watchedMicros: 5,
      onePacketNovel: 0,
      devices: [['a', 2]],
      lowestScores: [1, 2],
    }
    expect(CALIBRATION.decode(good).scores.count).toBe(2)
    const bad = changes === null ? null : field === 'kind' ? { ...good, kind: 'x' } : { ...good, ...changes }
    expect(() => CALIBRATION.decode(bad)).toThrow(FormatError)
    expect(() => CALIBRATION.decode(bad)).toThrow(new RegExp(`^calibration: ${field}[.\\d]*: `))
  })
})

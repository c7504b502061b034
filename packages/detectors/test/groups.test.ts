import { createRng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  calibrateGroups,
  createGroups,
  decodeModelFile,
  encodeModelFile,
  type GroupCalibration,
} from '../src/index.js'
import { sampleModel } from './model-file/sample.js'

/** Normal scores of `captures` captures of `flows` flows each. */
function normalScores(
  captures: number,
  flows: number,
  seed = 1,
): { scores: Float64Array; capture: Uint32Array } {
  const rng = createRng(seed)
  const scores = Float64Array.from({ length: captures * flows }, () => -rng.nextFloat() * 4)
  return { scores, capture: Uint32Array.from(scores, (_, i) => Math.floor(i / flows)) }
}

describe('groups', () => {
  const calibration = calibrateGroups(normalScores(10, 40))

  it('puts the level at the largest mean surprise of the training groups', () => {
    const { scores, capture } = normalScores(10, 40)
    scores.forEach((_, i) => {
      if (capture[i] === 3) scores[i]! -= 2
    })
    const odd = calibrateGroups({ scores, capture })
    const group = createGroups(odd, 'capture')()
    scores.forEach((score, i) => {
      if (capture[i] === 3) group.add(score)
    })
    expect(odd.capture).toEqual({ level: group.verdict().score, groups: 10 })
    expect(odd.capture!.level).toBeGreaterThan(2)
    expect(odd.device).toBeNull()
  })

  it('does not flag a capture of many flows for a change that is small beside that of a flow', () => {
    const long = normalScores(10, 1000)
    const group = createGroups(calibrateGroups(long), 'capture')()
    for (const score of normalScores(1, 1000, 7).scores) group.add(-2 * Math.sqrt(-score))
    const { score, novel } = group.verdict()
    expect(score).toBeGreaterThan(1.4)
    expect(novel).toBe(false)
  })

  it('finds a group whose flows are all a little unusual, though none of them is beyond every training flow', () => {
    const group = createGroups(calibration, 'capture')()
    for (let i = 0; i < 40; i++) group.add(-3.7)
    expect(group.verdict()).toMatchObject({ flows: 40, novel: true })
  })

  it('does not let one flow decide for a capture of forty', () => {
    const { scores } = normalScores(1, 40, 7)
    const group = createGroups(calibration, 'capture')()
    for (const score of scores) group.add(score)
    const without = group.verdict()
    group.add(-1e9)
    expect(group.verdict().score - without.score).toBeLessThan(6 / 41)
    expect(without.novel).toBe(false)
  })

  it('counts as unusual what scores no higher than the lowest twentieth of the held-out flows', () => {
    const { scores } = normalScores(10, 40)
    const group = createGroups(calibration, 'capture')()
    for (const score of scores) group.add(score)
    expect(group.verdict().unusual).toBe(20)
  })

  it('has a finite score for any scores, and none is novel without flows', () => {
    const createGroup = createGroups(calibration, 'capture')
    expect(createGroup().verdict()).toEqual({ flows: 0, unusual: 0, score: 0, novel: false })
    fc.assert(
      fc.property(fc.array(fc.double({ noNaN: true }), { minLength: 1, maxLength: 50 }), (scores) => {
        const group = createGroup()
        for (const score of scores) group.add(score)
        const { score } = group.verdict()
        expect(score).toBeGreaterThanOrEqual(0)
        expect(score).toBeLessThanOrEqual(6)
      }),
    )
  })

  it('refuses a kind of group of which training held fewer than two', () => {
    expect(() => createGroups(calibration, 'device')).toThrow('no level for a device')
    expect(calibrateGroups(normalScores(1, 40)).capture).toBeNull()
  })

  it('stands in a model file and comes back the same', () => {
    const saved = { ...sampleModel(), groups: calibration }
    const bytes = encodeModelFile(saved)
    expect(decodeModelFile(bytes)).toEqual(saved)
    expect(encodeModelFile(decodeModelFile(bytes))).toEqual(bytes)
  })

  it.each<[string, Partial<Record<keyof GroupCalibration, unknown>>, string]>([
    ['a level that is no number', { capture: { level: Number.NaN, groups: 2 } }, 'groups.capture.level'],
    ['a level of one group', { capture: { level: 1, groups: 1 } }, 'groups.capture.groups'],
    ['an infinite flow level', { flowLevel: Number.POSITIVE_INFINITY }, 'groups.flowLevel'],
    [
      'a table that falls',
      { tail: { rows: 2, cols: 2, data: Float64Array.of(0, -1, -1, -2) } },
      'groups.tail',
    ],
  ])('is refused with %s', (_, part, field) => {
    const groups = { ...calibration, ...part } as GroupCalibration
    expect(() => encodeModelFile({ ...sampleModel(), groups })).toThrow(field)
  })
})

import { decodeModelFile, encodeModelFile, type SavedModel } from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { createOnlineUpdater, type LearnedState, type LearningOptions } from '../src/index.js'
import { totalMass } from '../src/mixture-statistics.js'
import { sampleModel, sampleRows } from './detectors.js'

const KINDS = [
  { detector: 'oc-kjl-qs' },
  { detector: 'oc-nystrom' },
  { detector: 'gmm' },
  { detector: 'gmm', covariance: 'diagonal' },
] as const

/** All mass there is: of the base, and what the reservoir's rows weigh. */
const known = ({ base, reservoir }: LearnedState) =>
  totalMass(base) + reservoir.numbers.reduce((sum, weight) => sum + weight, 0)

function learnt(saved: SavedModel, learning: LearningOptions, seed: number, rows: number) {
  const updater = createOnlineUpdater(saved, { learning })
  const before = totalMass(updater.state.statistics)
  const report = updater.arrive(sampleRows(seed, rows), { assumeNormal: true })
  updater.endRound()
  const after = updater.saved()
  expect(report.rounds.every(({ refused }) => !refused)).toBe(true)
  const { learnt: counted, componentsRemoved: removed } = updater.counters
  return { after, state: updater.state, before, mass: totalMass(updater.state.statistics), counted, removed }
}

describe.each(KINDS)('a learned state under other options, %o', (options) => {
  const first = learnt(
    sampleModel(options),
    { roundRows: 50, reservoirRows: 300, guard: null, calibrationRows: 100 },
    5,
    500,
  )

  it('forgets no row for a smaller reservoir', () => {
    const smaller = { reservoirRows: 10, calibrationRows: 10, heldRows: 1 }
    const opened = createOnlineUpdater(first.after, { learning: smaller })
    const reopened = opened.state
    expect(reopened.reservoir.rows.rows).toBe(10)
    expect(reopened.calibration.rows).toBe(10)
    expect(known(reopened)).toBeCloseTo(known(first.state), 6)
    // what it begins with is a file that reads back
    expect(decodeModelFile(encodeModelFile(opened.saved()))).toEqual(opened.saved())
    const second = learnt(first.after, smaller, 6, 300)
    expect(second.before).toBe(first.mass)
    expect(second.counted).toBeGreaterThan(first.counted)
    // less than a row goes with each component that dies
    const expected = first.mass + second.counted - first.counted
    expect(Math.abs(second.mass - expected)).toBeLessThanOrEqual(second.removed + first.removed + 1e-3)
  })

  it('is the same for the same options', () => {
    expect(encodeModelFile(createOnlineUpdater(first.after).saved())).toEqual(encodeModelFile(first.after))
  })
})

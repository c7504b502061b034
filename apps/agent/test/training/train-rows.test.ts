import { createRng, DataError, type FlowContract } from '@oddflow/core'
import {
  createScoreWorkspace,
  decodeModelFile,
  isNovel,
  rowsNeeded,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { rowsToLearn, type TrainingJob, trainRows } from '../../src/models/train.js'
import { iatSizeContract, summaries, wanderingRows, wholeFlows } from '../support/rows.js'

const contract: FlowContract = iatSizeContract(3)
const job = (rows: Float64Array, changes: Partial<TrainingJob> = {}): TrainingJob => ({
  rows,
  contract,
  onePacketRule: { flows: 1, services: ['udp/123'] },
  falsePositiveRate: 0.01,
  seed: 1,
  oddflowVersion: '0.0.0',
  ...changes,
})

describe('training of rows', () => {
  it('gives a model file that flags about as much as it promises, and finds steady rows settled', () => {
    const { file, rows } = trainRows(job(wanderingRows(600, 5, createRng(1))))
    expect(rows).toBe(600)
    // one threshold of 60 rows can be off by some times
    const shares = [1, 2, 3, 4, 5].map(
      (s) => trainRows(job(wanderingRows(600, 5, createRng(s)))).unsettledShare,
    )
    expect(shares.reduce((sum, share) => sum + share, 0) / shares.length).toBeLessThan(0.03)
    const saved = decodeModelFile(file)
    expect(saved).toMatchObject({ contract, onePacketRule: { services: ['udp/123'] } })
    expect(saved.threshold.calibration.guaranteed).toBe(true)
    const fresh = wanderingRows(2000, 5, createRng(2))
    const scores = new Float64Array(2000)
    scoreSamples(
      saved.detector,
      { rows: 2000, cols: 5, data: fresh },
      scores,
      createScoreWorkspace(saved.detector),
    )
    // 1 % of 2,000 calibrated by 120 rows: within 0 … 3 % for nearly every draw
    expect(scores.filter((score) => isNovel(score, saved.threshold)).length).toBeLessThan(60)
  })

  it('tells when the later half is of another kind', () => {
    const rows = wanderingRows(400, 5, createRng(3))
    for (let i = 200 * 5; i < rows.length; i++) rows[i] += i % 5 === 1 ? 900 : 0
    expect(trainRows(job(rows)).unsettledShare).toBeGreaterThan(0.8)
  })

  it('gives the same bytes for the same rows', () => {
    const once = trainRows(job(wanderingRows(100, 5, createRng(4))))
    expect(trainRows(job(wanderingRows(100, 5, createRng(4)))).file).toEqual(once.file)
  })

  it.each([
    ['one flow of one packet, and no other', 1, 0],
    ['one flow of three packets, and no other', 3, 0],
    ['nine in ten that are one flow, and others', 3, 0.1],
  ])('learns a device of %s: flags what differs and not what repeats', (_, packets, share) => {
    const heartbeat = packets === 1 ? [90, 0, 0, 0, 0] : [0.02, 90, 0.01, 120, 60]
    const others = wanderingRows(400, 5, createRng(5))
    const rows = Float64Array.from({ length: 400 * 5 }, (_value, at) =>
      Math.floor(at / 5) % 10 < 10 * share ? others[at] : heartbeat[at % 5],
    )
    const { file, unsettledShare } = trainRows(job(rows))
    expect(unsettledShare).toBeLessThan(0.03)
    const saved = decodeModelFile(file)
    const notes = saved.detector.fitReport.notes.join('; ')
    if (share === 0) expect(notes).toMatch(/all rows are equal: the bandwidth is 1/)
    else expect(notes).toMatch(/8\d\.\d % of the pairs of rows are equal/)
    const isNovelRow = (row: readonly number[]): boolean =>
      isNovel(
        scoreSamples(
          saved.detector,
          { rows: 1, cols: 5, data: Float64Array.from(row) },
          new Float64Array(1),
          createScoreWorkspace(saved.detector),
        )[0],
        saved.threshold,
      )
    expect(isNovelRow(heartbeat)).toBe(false)
    for (const change of [
      heartbeat.map((value, at) => (at === 1 || (packets === 1 && at === 0) ? 1400 : value)),
      heartbeat.map((value) => value * 3),
      [2, 90, 0.01, 1400, 60],
      [0.5, 1400, 0.5, 1400, 1400],
    ]) {
      expect(isNovelRow(change), String(change)).toBe(true)
    }
    // a byte more where all were the same
    if (share === 0) expect(isNovelRow(heartbeat.map((value) => (value === 90 ? 91 : value)))).toBe(true)
  })

  it('asks for the rows that the promise takes, whatever share of them is odd', () => {
    expect([0.01, 0.1].map((rate) => rowsToLearn(contract, rate))).toEqual([198, 18])
    expect(rowsToLearn(wholeFlows, 0.01)).toBe(100)
    for (const rate of [0.3, 0.1, 0.05, 0.01, 0.007, 0.002, 0.0001]) {
      const rows = rowsToLearn(wholeFlows, rate)
      expect(rows - Math.max(1, Math.ceil(rows / 100)), String(rate)).toBeGreaterThanOrEqual(rowsNeeded(rate))
    }
  })

  it('says that there is too little to learn from', () => {
    expect(() => trainRows(job(new Float64Array(5 * 9)))).toThrow(DataError)
  })
})

const novelAmong = ({ detector, threshold }: SavedModel, data: Float64Array): number => {
  const rows = data.length / wholeFlows.dimension
  const scores = new Float64Array(rows)
  scoreSamples(detector, { rows, cols: wholeFlows.dimension, data }, scores, createScoreWorkspace(detector))
  return scores.filter((score) => isNovel(score, threshold)).length
}

describe('training of rows of whole flows', () => {
  const learn = (rows: Float64Array) => {
    const trained = trainRows(job(rows, { contract: wholeFlows, onePacketRule: null }))
    return { ...trained, saved: decodeModelFile(trained.file) }
  }

  it('gives an ensemble of the fewest rows for its promise, which flags rows of another kind', () => {
    const { saved, unsettledShare } = learn(summaries(rowsToLearn(wholeFlows, 0.01), 1))
    expect(saved).toMatchObject({
      contract: wholeFlows,
      onePacketRule: null,
      detector: { kind: 'ensemble' },
      threshold: { calibration: { method: 'held-out-inputs', inputs: 8, guaranteed: true } },
    })
    expect(unsettledShare).toBeLessThan(0.05)
    // 1 % of 2,000 are 20; a threshold of 100 rows is up to some times off
    expect(novelAmong(saved, summaries(2000, 2))).toBeLessThan(100)
    expect(novelAmong(saved, summaries(100, 3, 4))).toBe(100)
  })

  it('lets no rows of one stretch of time vouch for each other', () => {
    const { dimension } = wholeFlows
    const stretch = 20
    const usual = summaries(7 * stretch, 4)
    const burst = summaries(stretch, 5, 1.5)
    const together = Float64Array.from([...usual, ...burst])
    // a row of the burst after every seven others
    const spread = Float64Array.from(together, (_, at) => {
      const [row, column] = [Math.floor(at / dimension), at % dimension]
      const turn = Math.floor(row / 8)
      return row % 8 === 7
        ? burst[turn * dimension + column]
        : usual[(7 * turn + (row % 8)) * dimension + column]
    })
    const [apart, mixed] = [learn(together), learn(spread)].map(({ saved }) => saved)
    const fresh = summaries(200, 6, 3)
    expect(novelAmong(apart, fresh)).toBeLessThan(novelAmong(mixed, fresh))
  })

  it('gives the same bytes for the same rows, and tells when the later half is of another kind', () => {
    const rows = summaries(100, 7)
    expect(learn(rows.slice()).file).toEqual(learn(rows).file)
    rows.set(summaries(50, 8, 4), 50 * wholeFlows.dimension)
    expect(learn(rows).unsettledShare).toBeGreaterThan(0.8)
  })

  it('makes a model of one repeated flow: the like of it is normal, and all that differs is novel', () => {
    const one = summaries(1, 9)
    const repeated = Float64Array.from({ length: 120 * one.length }, (_, at) => one[at % one.length])
    const { saved, unsettledShare } = learn(repeated)
    expect(unsettledShare).toBe(0)
    expect(novelAmong(saved, repeated)).toBe(0)
    for (let column = 0; column < wholeFlows.dimension; column++) {
      const other = one.slice()
      other[column] += 1
      expect(novelAmong(saved, other), `column ${column}`).toBe(1)
    }
  })
})

import { createRng, DataError, type FlowContract } from '@oddflow/core'
import { createScoreWorkspace, decodeModelFile, isNovel, scoreSamples } from '@oddflow/detectors'
import { describe, expect, it } from 'vitest'
import { type TrainingJob, trainRows } from '../../src/training/train-rows.js'
import { iatSizeContract, wanderingRows } from '../support/rows.js'

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
    const { file, rows, unsettledShare } = trainRows(job(wanderingRows(600, 5, createRng(1))))
    expect(rows).toBe(600)
    expect(unsettledShare).toBeLessThan(0.03)
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

  it('says that there is too little to learn from', () => {
    expect(() => trainRows(job(new Float64Array(5 * 12)))).toThrow(DataError)
  })
})

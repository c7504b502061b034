import { createFrameBatch, type FrameBatch } from '@oddflow/capture'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { partsByTime, readFrames } from '../../src/input/read-frames.js'

/** Of frames of a byte each, at these times. */
function batchOf(times: readonly number[]): FrameBatch {
  const batch = createFrameBatch(times.length + 3)
  batch.count = times.length
  batch.firstFrame = 7
  batch.data = Uint8Array.from(times, (_, i) => i)
  times.forEach((time, i) => {
    batch.timestampMicros[i] = time
    batch.offset[i] = i
    batch.capturedBytes[i] = 1
  })
  return batch
}

const timesOf = (part: FrameBatch): number[] => [...part.timestampMicros.subarray(0, part.count)]

it('a batch is parted by time, the first frame after a silence by itself', () => {
  const parts = (...times: number[]) => [...partsByTime(batchOf(times), 60)].map(timesOf)
  expect(parts(0, 10, 59)).toEqual([[0, 10, 59]])
  expect(parts(0, 10, 60, 70)).toEqual([
    [0, 10],
    [60, 70],
  ])
  expect(parts(0, 10, 200, 201, 202)).toEqual([[0, 10], [200], [201, 202]])
  expect(parts(0, 200, 400)).toEqual([[0], [200], [400]])
  expect(parts(0, Number.NaN, 10)).toEqual([[0, Number.NaN, 10]])
  expect(parts()).toEqual([])
})

it('the parts are the batch', () => {
  const times = fc.array(fc.oneof(fc.integer({ min: 0, max: 500 }), fc.constant(Number.NaN)), {
    maxLength: 40,
  })
  fc.assert(
    fc.property(times, fc.integer({ min: 1, max: 100 }), (at, micros) => {
      const parts = [...partsByTime(batchOf(at), micros)]
      expect(parts.flatMap(timesOf)).toEqual(at)
      let next = 7
      for (const part of parts) {
        expect(part.count).toBeGreaterThan(0)
        expect(part.firstFrame).toBe(next)
        for (let i = 0; i < part.count; i++) expect(part.data[part.offset[i]]).toBe(next + i - 7)
        next += part.count
      }
    }),
  )
})

it('timers and requests have their turn while frames come without a wait', async () => {
  let millis = 0
  async function* frames(): AsyncGenerator<FrameBatch> {
    for (let i = 0; i < 100; i++) yield batchOf([i])
  }
  const input = { frames: frames(), drains: false, stop: () => undefined }
  let turns = 0
  let isRead = false
  const turn = (): void => {
    turns++
    if (!isRead) setImmediate(turn)
  }
  setImmediate(turn)
  const clock = { monotonicMillis: () => millis }
  await readFrames(input as never, { clock, stop: new AbortController().signal } as never, async () => {
    // work of a tenth of a second in all
    millis += 1
  })
  isRead = true
  expect(turns).toBeGreaterThanOrEqual(1)
  expect(turns).toBeLessThan(10)
})

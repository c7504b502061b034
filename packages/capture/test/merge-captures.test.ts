import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createFrameBatch, type FrameBatch } from '../src/index.js'
import { createReorderWindow, MAXIMUM_WINDOW_BYTES } from '../src/merge-captures.js'

/** A batch of one frame, whose bytes and wire length are its number. */
function one(number: number, micros: number, subNanos = 0, bytes = 4): FrameBatch {
  const batch = createFrameBatch(1)
  batch.count = 1
  batch.data = new Uint8Array(bytes).fill(number & 255)
  batch.capturedBytes[0] = bytes
  batch.wireBytes[0] = number
  batch.timestampMicros[0] = micros
  batch.timestampSubNanos[0] = subNanos
  batch.linkType[0] = 1
  return batch
}

interface Given {
  number: number
  micros: number
  subNanos: number
}

function through(times: readonly (readonly [number, number])[], windowFrames: number): [Given[], number] {
  const window = createReorderWindow(windowFrames)
  const given: Given[] = []
  const keep = (batch: FrameBatch | null): void => {
    if (batch === null) return
    expect(batch.firstFrame).toBe(given.length)
    for (let i = 0; i < batch.count; i++) {
      const number = batch.wireBytes[i]!
      const at = batch.offset[i]!
      expect([...batch.data.subarray(at, at + batch.capturedBytes[i]!)]).toEqual(
        new Array<number>(number % 7).fill(number & 255),
      )
      given.push({ number, micros: batch.timestampMicros[i]!, subNanos: batch.timestampSubNanos[i]! })
    }
  }
  times.forEach(([micros, subNanos], number) => {
    const frame = one(number, micros, subNanos, number % 7)
    while (window.isFull(number % 7)) keep(window.take())
    window.add(frame, 0)
    frame.data.fill(0xee)
  })
  keep(window.takeAll())
  expect(window.takeAll()).toBeNull()
  return [given, window.lateFrames]
}

const time = fc.tuple(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 3 }))

describe('createReorderWindow', () => {
  it('gives every frame once, and sorts stably what is displaced by less than the window', () => {
    fc.assert(
      fc.property(
        fc.array(time, { maxLength: 200 }),
        fc.integer({ min: 1, max: 120 }),
        (times, windowFrames) => {
          const [given, late] = through(times, windowFrames)
          expect(given.map(({ number }) => number).sort((a, b) => a - b)).toEqual(times.map((_, k) => k))
          const value = (k: number): number => times[k]![0] * 1000 + times[k]![1]
          const sorted = times.map((_, k) => k).sort((a, b) => value(a) - value(b) || a - b)
          const displaced = Math.max(0, ...sorted.map((number, turn) => Math.abs(number - turn)))
          if (displaced <= windowFrames) {
            expect(given.map(({ number }) => number)).toEqual(sorted)
            expect(late).toBe(0)
          }
          // late: those with a later one before them
          let latest = -1
          let expected = 0
          for (const { number } of given) {
            if (value(number) < latest) expected++
            else latest = value(number)
          }
          expect(late).toBe(expected)
        },
      ),
      { numRuns: sampleCount(500) },
    )
  })

  it('keeps a frame without a time behind its predecessor', () => {
    const [given] = through(
      [
        [5, 0],
        [9, 0],
        [Number.NaN, 0],
        [6, 0],
      ],
      10,
    )
    expect(given.map(({ number }) => number)).toEqual([0, 3, 1, 2])
    expect(given[3]!.micros).toBeNaN()
  })

  it('bounds the bytes that it holds', () => {
    const window = createReorderWindow(1000)
    const large = one(0, 0, 0, 262_144)
    let held = 0
    while (!window.isFull(262_144)) {
      window.add(large, 0)
      held += 262_144
    }
    expect(held).toBeLessThanOrEqual(MAXIMUM_WINDOW_BYTES)
    expect(held).toBeGreaterThan(MAXIMUM_WINDOW_BYTES - 262_145)
    expect(window.take()?.count).toBe(held / 262_144 / 2)
    expect(window.isFull(262_144)).toBe(false)
  })

  it('refuses a window that is none', () => {
    expect(() => createReorderWindow(0)).toThrow(/windowFrames: expected a whole number/)
    expect(() => createReorderWindow(65_537)).toThrow(/windowFrames/)
  })
})

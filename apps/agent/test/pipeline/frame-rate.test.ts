import { describe, expect, it } from 'vitest'
import { FrameRate } from '../../src/pipeline/overload.js'

describe('frame rate', () => {
  it('is that of the last 40 to 80 ms, whatever the batches', () => {
    for (const frames of [1, 7, 100, 1024]) {
      const rate = new FrameRate()
      let told = 0
      for (let i = 1; i * frames < 40_000; i++) told = rate.note(frames, 1e9 + (i * frames) / 20_000)
      expect(told / 20_000).toBeCloseTo(1, 3)
      for (let i = 1; i * frames < 9000; i++) told = rate.note(frames, 1e9 + 2 + (i * frames) / 50_000)
      expect(told / 50_000).toBeGreaterThan(0.7)
    }
  })

  it('takes no burst for a flood', () => {
    const rate = new FrameRate()
    for (let i = 0; i < 5; i++) rate.note(1, i)
    // a thousand in 2 ms, after a second of silence
    expect(rate.note(1000, 5.002)).toBeLessThan(1100)
    expect(new FrameRate().note(1000, 5)).toBe(0)
  })

  it('is none where time stood still, ran backwards, or makes no sense', () => {
    const rate = new FrameRate()
    for (const seconds of [5, 5, 4, Number.NaN, 4, Number.POSITIVE_INFINITY, Number.NaN]) {
      expect(rate.note(1000, seconds)).toBe(0)
    }
  })
})

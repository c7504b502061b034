import { describe, expect, it } from 'vitest'
import { expScaledFloat32 } from '../src/index.js'

describe('expScaledFloat32', () => {
  it('is right to 2^-22.9, and 0 below e^-87', () => {
    let worst = 0
    for (let v = 0; v <= 87; v += 0.000117) {
      const x = Math.fround(v)
      const exact = Math.exp(-x)
      worst = Math.max(worst, Math.abs(expScaledFloat32(x, -1) - exact) / exact)
    }
    expect(worst).toBeLessThan(2 ** -22.9)
    expect(worst).toBeGreaterThan(2 ** -25) // float32 can hardly do better: the check looks at what it should
    expect(expScaledFloat32(0, -1)).toBe(1)
    expect(expScaledFloat32(Math.fround(87.01), -1)).toBe(0)
    expect(expScaledFloat32(Number.POSITIVE_INFINITY, -1)).toBe(0)
  })

  it('gives float32 numbers that fall as distances grow', () => {
    let before = 1
    let wrong = 0
    for (let v = 0; v < 90; v += 0.0013) {
      const found = expScaledFloat32(Math.fround(v), -1)
      if (Math.fround(found) !== found || found > before * (1 + 2 ** -23)) wrong++
      before = found
    }
    expect(wrong).toBe(0)
  })
})

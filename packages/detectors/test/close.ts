import { expect } from 'vitest'

/** |actual − expected| < tolerance · max(1, |expected|), element by element. */
export function expectClose(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number): void {
  expect(actual.length).toBe(expected.length)
  for (let i = 0; i < expected.length; i++) {
    const error = Math.abs(actual[i]! - expected[i]!) / Math.max(1, Math.abs(expected[i]!))
    expect(error, `index ${i}: ${actual[i]} for ${expected[i]}`).toBeLessThan(tolerance)
  }
}

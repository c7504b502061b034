import { expect, it } from 'vitest'
import { createProgress } from '../../src/service/service.js'

it('progress is stuck while work takes too long, and not without work', async () => {
  let now = 0
  const progress = createProgress(() => now)
  now = 1e9
  expect(progress.isStuck(1000)).toBe(false)
  let finish = (): void => undefined
  const work = progress.during(() => new Promise<void>((resolve) => (finish = resolve)))
  now += 1000
  expect(progress.isStuck(1000)).toBe(false)
  now += 1
  expect(progress.isStuck(1000)).toBe(true)
  finish()
  await work
  expect(progress.isStuck(1000)).toBe(false)
  await expect(progress.during(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
  now += 1e6
  expect(progress.isStuck(1000)).toBe(false)
})

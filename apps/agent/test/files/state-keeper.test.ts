import { expect, it } from 'vitest'
import { createKeeper } from '../../src/files/state-file.js'

function keeping(write: (now: number) => void) {
  const lines: string[] = []
  const state = { changes: 0 }
  const keeper = createKeeper({
    what: 'names are',
    ticksBetween: 3,
    changes: () => state.changes,
    savedChanges: 0,
    write: async () => write(state.changes),
    log: { info: (text) => lines.push(text), warn: (text) => lines.push(text) },
  })
  return { keeper, state, lines }
}

it('writes what changed, now and then, at once where it is due, and at the end', async () => {
  const written: number[] = []
  const { keeper, state } = keeping((now) => written.push(now))
  for (let i = 0; i < 9; i++) keeper.tick()
  await keeper.save()
  expect(written).toEqual([])
  state.changes = 1
  keeper.tick()
  keeper.tick()
  await Promise.resolve()
  expect(written).toEqual([])
  keeper.tick()
  await expect.poll(() => written).toEqual([1])
  state.changes = 2
  keeper.tick(true)
  await expect.poll(() => written).toEqual([1, 2])
  state.changes = 3
  await keeper.save()
  expect(written).toEqual([1, 2, 3])
})

it('logs a failure once, retries, and logs the end of the failure', async () => {
  let isFull = true
  const { keeper, state, lines } = keeping(() => {
    if (isFull) throw new Error('names.json: the disk is full')
  })
  state.changes = 1
  await keeper.save()
  await keeper.save()
  expect(lines).toEqual(['names.json: the disk is full; names are not saved; retrying'])
  expect(keeper.isTroubled).toBe(true)
  isFull = false
  await keeper.save()
  expect(lines.slice(1)).toEqual(['names are saved again'])
  expect(keeper.isTroubled).toBe(false)
})

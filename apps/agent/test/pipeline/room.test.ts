/** What an input that can wait waits for: that which works and has too much in memory, and nothing else. */
import { expect, it } from 'vitest'
import { isWorthWaiting } from '../../src/pipeline/watcher.js'
import { createMemoryLog } from '../../src/spool/alert-log.js'

const ill = new Error('ill')
const disk = (pendingBytes: number, trouble: Error | null = null) => ({ lastError: trouble, pendingBytes })
const output = (memoryBytes: number, trouble: Error | null = null) => ({ lastError: trouble, memoryBytes })

it.each([
  ['nothing in memory', disk(0), [output(0)], false],
  ['a disk that is behind', disk(101), [output(0)], true],
  ['a disk that is behind, while an output fails', disk(101), [output(0, ill), output(0)], true],
  ['a disk that fails', disk(101, ill), [output(0)], false],
  ['an output that is behind', disk(0), [output(101), output(0)], true],
  ['an output that fails', disk(0), [output(101, ill), output(0)], false],
  ['an output that is behind, while another fails', disk(0), [output(101, ill), output(101)], true],
  ['one that is nearly there, while another fails', disk(0), [output(900, ill), output(100)], false],
] as const)('%s', (_, log, deliveries, isWorth) => {
  expect(isWorthWaiting(log, deliveries, 100)).toBe(isWorth)
})

it('a log in memory holds for each output what that output has not committed', async () => {
  const log = createMemoryLog({ maximumBytes: 1000 })
  const [fast, slow] = [await log.reader('fast'), await log.reader('slow')]
  for (let i = 0; i < 10; i++) log.append(new Uint8Array(90))
  expect([fast.memoryBytes, slow.memoryBytes]).toEqual([900, 900])
  await fast.read(7)
  expect(fast.memoryBytes).toBe(900)
  await fast.commit(7)
  expect([fast.memoryBytes, slow.memoryBytes]).toEqual([270, 900])
  // the oldest two go for want of room
  for (let i = 0; i < 3; i++) log.append(new Uint8Array(90))
  expect([fast.memoryBytes, slow.memoryBytes, slow.dropped]).toEqual([540, 990, 2])
  await slow.read(100)
  await slow.commit(13)
  expect([fast.memoryBytes, slow.memoryBytes]).toEqual([540, 0])
  await fast.read(100)
  await fast.commit(13)
  expect([fast.memoryBytes, fast.dropped, log.pendingBytes]).toEqual([0, 0, 0])
})

/** A delivery whose place cannot be kept goes on, names the file, and keeps it when it can. */
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { type DeliveryOptions, startDelivery } from '../../src/outputs/delivery.js'
import { acknowledgedAll, createMemoryLog } from '../../src/spool/alert-log.js'
import { openSpool } from '../../src/spool/spool.js'
import { temporaryFolders } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'
import { keepingLog } from '../support/keeping-log.js'

const newFolder = temporaryFolders()
const never = new AbortController().signal

it('is the log’s trouble and not the output’s, and nothing comes again once it is kept', async () => {
  const folder = newFolder()
  let isFull = true
  const files: typeof nodeFileSystem = {
    ...nodeFileSystem,
    async open(path, mode) {
      if (isFull && path.endsWith('.place.new')) throw Object.assign(new Error('full'), { code: 'ENOSPC' })
      return nodeFileSystem.open(path, mode)
    },
  }
  const open = () =>
    openSpool({
      files,
      folder,
      clock: hastyClock,
      log: keepingLog(),
      maximumBytes: 1 << 20,
      maximumPendingBytes: 1 << 20,
    })
  const told: (string | null)[] = []
  const got: string[] = []
  const options = (log: DeliveryOptions['log']): DeliveryOptions => ({
    log,
    clock: hastyClock,
    output: {
      name: 'eve',
      target: 'eve.json',
      async deliver({ lines }) {
        got.push(...lines.map((each) => new TextDecoder().decode(each)))
        return ''
      },
      async close() {},
    },
    onError: () => told.push('the output'),
    onCommitError: (error) => told.push(error?.message ?? null),
  })
  const log = await open()
  const delivery = await startDelivery(options(log))
  const names = Array.from({ length: 20 }, (_, i) => `alert ${i}`)
  for (const name of names) {
    log.append(new TextEncoder().encode(name))
    await acknowledgedAll(log, never)
    await delivery.drained(never)
  }
  expect(got).toEqual(names)
  for (let i = 0; i < 500 && told.length === 0; i++) await hastyClock.sleep(1)
  expect(told).toEqual([
    `${join(folder, 'spool', 'eve.place')}: cannot write it: no space left; free some or choose another place`,
  ])
  expect([delivery.lastError, delivery.commitError?.name]).toEqual([null, 'FileError'])
  isFull = false
  for (let i = 0; i < 500 && delivery.commitError !== null; i++) await hastyClock.sleep(1)
  expect(told.at(-1)).toBe(null)
  await delivery.stop()
  await log.close()
  const again = await open()
  const second = await startDelivery(options(again))
  expect(second.backlog).toBe(0)
  await second.stop()
  await again.close()
  expect(got).toEqual(names)
})

it('a delivery whose output neither ends an attempt nor closes is left within half a second', async () => {
  const never = new Promise<never>(() => undefined)
  const log = createMemoryLog({ maximumBytes: 1000 })
  const output = { name: 'hub', target: 'hub', deliver: () => never, close: () => never }
  const delivery = await startDelivery({ log, output, clock: hastyClock })
  log.append(new Uint8Array(2))
  await expect.poll(() => delivery.backlog).toBe(1)
  const limits = vi.spyOn(AbortSignal, 'timeout')
  try {
    await delivery.stop()
    expect(limits.mock.calls).toEqual([[500]])
  } finally {
    limits.mockRestore()
  }
})

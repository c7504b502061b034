import { ArgumentError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  createTemporarySuppressions,
  readTemporaryRules,
  type TemporaryRule,
  writeTemporaryRules,
} from '../../src/alerts/suppress.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { sampleAlert } from '../support/sample-alert.js'

const now = 1_800_000_000_000_000

describe('temporary suppressions', () => {
  it('take what they are about until their time is up, and count it', async () => {
    const rules = createTemporarySuppressions([], null)
    const { name } = await rules.add({ minutes: 10, device: '02:00:00:00:00:0a', port: 443 }, now)
    expect(rules.take(sampleAlert(), now)).toBe(name)
    expect(rules.take(sampleAlert({ flow: { destinationPort: 80 } }), now)).toBe(null)
    expect(rules.list(now)).toEqual([expect.objectContaining({ name, suppressed: 1 })])
    expect(rules.take(sampleAlert(), now + 10 * 60_000_000)).toBe(null)
    expect(rules.list(now + 10 * 60_000_000)).toEqual([])
  })

  it('are kept, with names of their own, and gone when they are ended', async () => {
    const folder = temporaryFolder()
    const open = async () =>
      createTemporarySuppressions(await readTemporaryRules(nodeFileSystem, folder, keepingLog()), (all) =>
        writeTemporaryRules(nodeFileSystem, folder, all),
      )
    const first = await open()
    const one = await first.add({ minutes: 60, port: 1 }, now)
    const second = await open()
    const two = await second.add({ minutes: 60, port: 2 }, now)
    expect(two.name).not.toBe(one.name)
    expect((await open()).list(now).map(({ port }) => port)).toEqual([1, 2])
    expect(await second.remove(one.name)).toBe(true)
    expect(await second.remove(one.name)).toBe(false)
    expect((await open()).list(now).map(({ port }) => port)).toEqual([2])
  })

  it('last as long as they would have where the clock is set, by years too and while one is made, also after a restart', async () => {
    const folder = temporaryFolder()
    const minute = 60_000_000
    const years = 20 * 365 * 1440 * minute
    const open = async () =>
      createTemporarySuppressions(await readTemporaryRules(nodeFileSystem, folder, keepingLog()), (all) =>
        writeTemporaryRules(nodeFileSystem, folder, all),
      )
    const rules = await open()
    const { name } = await rules.add({ minutes: 10, port: 443 }, now)
    const adding = rules.add({ minutes: 10, port: 80 }, now)
    rules.clockSet(years)
    await adding
    const later = now + years + 9 * minute
    expect(rules.take(sampleAlert(), later)).toBe(name)
    const ends = now + years + 10 * minute
    expect(rules.list(later).map(({ endsMicros }) => endsMicros)).toEqual([ends, ends])
    // what is written last is of the clock as it is now
    expect(await rules.remove(name)).toBe(true)
    expect((await open()).list(later).map(({ port, endsMicros }) => [port, endsMicros])).toEqual([[80, ends]])
    rules.clockSet(-years)
    expect(rules.list(now + 9 * minute)).toHaveLength(1)
    expect(rules.list(now + 10 * minute)).toEqual([])
  })

  it('that are kept and are none, or have a condition that is not known, are left out and told', async () => {
    const folder = temporaryFolder()
    const rule = { name: 'temporary 0', port: 1, endsMicros: now }
    const kept = [rule, { ...rule, colour: 'red' }, { ...rule, rule: 'scores' }, { ...rule, endsMicros: '9' }]
    await writeTemporaryRules(nodeFileSystem, folder, kept as never)
    const log = keepingLog()
    expect(await readTemporaryRules(nodeFileSystem, folder, log)).toEqual([rule])
    expect(log.lines.join()).toMatch(/3 of 4 are not rules/)
  })

  it('are at most 64, each with an end and a condition', async () => {
    const written: (readonly TemporaryRule[])[] = []
    const rules = createTemporarySuppressions([], async (all) => void written.push(all))
    for (const asked of [
      null,
      {},
      { minutes: 5 },
      { port: 1 },
      { minutes: 0, port: 1 },
      { minutes: 1.5, port: 1 },
      { minutes: 5, port: 1, colour: 'red' },
      { minutes: 5, rule: 'scores' },
      { minutes: 5, protocol: 'tpc' },
    ])
      await expect(rules.add(asked, now), JSON.stringify(asked)).rejects.toThrow(ArgumentError)
    expect(written).toEqual([])
    for (let i = 0; i < 64; i++) await rules.add({ minutes: 5, port: i }, now)
    await expect(rules.add({ minutes: 5, port: 1 }, now)).rejects.toThrow(/at most 64/)
    // those that have ended make room
    await rules.add({ minutes: 5, port: 1 }, now + 5 * 60_000_000)
  })
})

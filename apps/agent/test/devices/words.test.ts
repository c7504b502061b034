/**
 * A person's word is kept before it is in force, and in force before it is acknowledged: each step of the disk fails in
 * turn under each word, for once and for good, and a restart on a sound disk must find what was answered.
 */

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { createRng } from '@oddflow/core'
import { fileError } from '@oddflow/program'
import { describe, expect, it } from 'vitest'
import {
  createTemporarySuppressions,
  readTemporaryRules,
  writeTemporaryRules,
} from '../../src/alerts/suppress.js'
import { DEFAULT_DEVICES, type Settings } from '../../src/config/settings.js'
import { askAgent, askToAct, openControlSocket, statusOf } from '../../src/devices/control-socket.js'
import { createDevice } from '../../src/devices/device.js'
import { readKnownDevices, writeKnownDevices } from '../../src/devices/device-table.js'
import { type FileSystem, nodeFileSystem } from '../../src/files/file-system.js'
import type { ModelManager } from '../../src/models/model-manager.js'
import { modelRoutes } from '../../src/models/model-scopes.js'
import { ModelStore } from '../../src/models/model-store.js'
import { trainRows } from '../../src/models/train.js'
import type { AgentEnvironment } from '../../src/pipeline/environment.js'
import { controlAnswers, openDevices } from '../../src/pipeline/open-devices.js'
import { faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { iatSizeContract, wanderingRows } from '../support/rows.js'

const base = temporaryFolder()
let folders = 0
const newFolder = (): string => join(base, String(folders++))
const key = '02:00:00:00:00:01'
const now = 1_800_000_000_000_000

interface Opened {
  /** Rejects where it cannot be kept. */
  say(): Promise<unknown>
  /** What is in force. */
  inForce(): Promise<string>
  /** What goes on anyway, which may mend the disk. */
  settle(): Promise<void>
}
interface Word {
  prepare(folder: string): Promise<void>
  open(folder: string, files: FileSystem): Promise<Opened>
}

const openWatch = async (
  folder: string,
  files: FileSystem,
  log = keepingLog(),
  models: Partial<Settings['models']> = null,
  announce: (...args: never[]) => void = () => undefined,
) => {
  const environment = { files, log } as unknown as AgentEnvironment
  const settings = {
    devices: DEFAULT_DEVICES,
    localNetworks: [],
    state: folder,
    models,
  } as unknown as Settings
  const known = await readKnownDevices(nodeFileSystem, folder, log)
  const path = { announce } as never
  const devices = await openDevices(settings, environment, path, known, null, { isOfAnswer: false }, null)
  if (devices === null) throw new Error('no devices')
  return devices
}
const deviceWord = (action: string, text?: string): Word => ({
  async prepare(folder) {
    const device = createDevice(key, '192.0.2.1', 5)
    if (action === 'resume') device.state = 'paused'
    device.flows = 7
    await writeKnownDevices(nodeFileSystem, folder, [device])
  },
  async open(folder, files) {
    const watch = await openWatch(folder, files)
    return {
      say: () => watch.word({ action, devices: [key], text }),
      inForce: async () => JSON.stringify([...watch.table.all()]),
      async settle() {
        watch.tick()
        await watch.save()
      },
    }
  },
})

const openRules = async (folder: string, files: FileSystem) =>
  createTemporarySuppressions(await readTemporaryRules(nodeFileSystem, folder, keepingLog()), (rules) =>
    writeTemporaryRules(files, folder, rules),
  )
const ruleWord = (say: (rules: Awaited<ReturnType<typeof openRules>>) => Promise<unknown>): Word => ({
  async prepare(folder) {
    await (await openRules(folder, nodeFileSystem)).add({ minutes: 5, port: 1 }, now)
  },
  async open(folder, files) {
    const rules = await openRules(folder, files)
    return {
      say: () => say(rules),
      inForce: async () => JSON.stringify(rules.list(now)),
      settle: async () => undefined,
    }
  },
})

const models = [1, 2].map((seed) =>
  trainRows({
    rows: wanderingRows(60, 5, createRng(seed)),
    contract: iatSizeContract(3),
    onePacketRule: null,
    falsePositiveRate: 0.1,
    seed: 1,
    oddflowVersion: '0.0.0',
  } as never),
)
const storeIn = (folder: string, files: FileSystem): ModelStore =>
  new ModelStore(files, folder, (owner) => `device-${owner.replaceAll(':', '-')}`)
const rollback: Word = {
  async prepare(folder) {
    let previous: string | null = null
    for (const { file } of models) {
      const sha256 = createHash('sha256').update(file).digest('hex')
      const record = { owner: key, sha256, previous, source: 'trained', pinned: false } as const
      const more = { rows: 60, unsettledShare: 0, trainedAtMicros: now }
      await storeIn(folder, nodeFileSystem).write({ ...record, ...more }, file)
      previous = sha256
    }
  },
  async open(folder, files) {
    const store = storeIn(folder, files)
    const { models: kept } = await store.readAll(keepingLog())
    let { record } = kept[0]!
    return {
      async say() {
        record = (await store.rollback(key))?.record ?? record
      },
      inForce: async () => JSON.stringify(record),
      settle: async () => undefined,
    }
  },
}

const words: Record<string, Word> = {
  approve: deviceWord('approve'),
  pause: deviceWord('pause'),
  resume: deviceWord('resume'),
  relearn: deviceWord('relearn'),
  forget: deviceWord('forget'),
  name: deviceWord('name', 'Camera in the hall'),
  'a rule': ruleWord((rules) => rules.add({ minutes: 9, port: 2 }, now)),
  'the end of a rule': ruleWord((rules) => rules.remove('temporary 0')),
  rollback,
}

it('a device that is ready is announced by name, with its most frequent contacts', async () => {
  const folder = newFolder()
  const usual = Array.from({ length: 10 }, (_, i) => ({
    peer: `192.0.${i}.0/24`,
    service: 'tcp port 443',
    isIncoming: false,
    flows: 100 - i,
  }))
  const HOUR = 3_600_000_000
  const device = {
    ...createDevice(key, '192.0.2.1', 0),
    usual,
    flows: 130,
    novelShare: 0,
    lastSeenMicros: 26 * HOUR,
  }
  const name = { name: 'Camera', source: 'person' } as const
  await writeKnownDevices(nodeFileSystem, folder, [{ ...device, name }])
  const told: string[] = []
  const announce = (_: unknown, rule: string, fact: string): void => void told.push(`${rule}: ${fact}`)
  const watch = await openWatch(folder, nodeFileSystem, keepingLog(), null, announce)
  watch.advance(49 * HOUR)
  expect(told).toEqual([
    `device-ready: Camera (192.0.2.1) is ready to be watched; approve it with "oddflow-agent devices approve ${key}", after 130 flows in 48 h. Its most frequent contacts: ${usual
      .slice(0, 8)
      .map(({ peer }) => `${peer} (tcp port 443)`)
      .join(', ')} and 2 more`,
  ])
})

it('groups of the configuration apply, and a person gives none then', async () => {
  const folder = newFolder()
  const other = '02:00:00:00:00:02'
  await writeKnownDevices(nodeFileSystem, folder, [
    createDevice(key, '192.0.2.1', 5),
    { ...createDevice(other, '192.0.2.2', 5), group: 'mine' },
  ])
  const models = { per: 'group', groups: { cameras: [key] } } as const
  const watch = await openWatch(folder, nodeFileSystem, keepingLog(), models)
  expect([...watch.table.all()].map(({ group }) => group)).toEqual(['cameras', null])
  const asked = { action: 'group', devices: [other], text: 'mine' }
  await expect(watch.word(asked)).rejects.toThrow(/models\.groups/)
  expect(await watch.word({ ...asked, action: 'name' })).toEqual([{ device: other, refused: null }])
})

describe.each(Object.entries(words))('%s', (_name, word) => {
  it('holds after a restart when it was acknowledged, and changes nothing when it was not', async () => {
    const sound = newFolder()
    await word.prepare(sound)
    const counting = noFaults()
    const faultless = await word.open(sound, faultyFiles(counting))
    const before = await faultless.inForce()
    await faultless.say()
    const after = await faultless.inForce()
    expect(after).not.toBe(before)
    expect(counting.steps).toBeGreaterThanOrEqual(5)
    let refused = 0
    for (let step = 0; step < counting.steps; step++) {
      for (const how of ['once', 'for good']) {
        const where = `step ${step}, ${counting.seen[step]}, ${how}`
        const folder = newFolder()
        await word.prepare(folder)
        const faults = noFaults()
        const opened = await word.open(folder, faultyFiles(faults))
        faults.fails = (at) => (how === 'once' ? at === step : at >= step)
        const isKept = await opened.say().then(
          () => true,
          (error: unknown) => {
            expect((error as Error).message, where).toMatch(/ENOSPC|no space left/)
            return false
          },
        )
        if (!isKept) refused++
        expect(await opened.inForce(), where).toBe(isKept ? after : before)
        // a disk that fails for good behind the new name has it, and nobody can take it back
        if (!isKept && how === 'for good' && counting.seen[step] === 'syncFolder') continue
        await opened.settle()
        const restarted = await word.open(folder, nodeFileSystem)
        expect(await restarted.inForce(), where).toBe(isKept ? after : before)
      }
    }
    // every step but the removal of what an earlier attempt has left
    expect(refused).toBeGreaterThanOrEqual(2 * 5 - 2)
  })
})

describe('an answer', () => {
  it('says 507 where the disk is full, over the control socket too, and tells of it once', async () => {
    const folder = newFolder()
    await deviceWord('pause').prepare(folder)
    const faults = noFaults()
    const log = keepingLog()
    const watch = await openWatch(folder, faultyFiles(faults), log)
    const control = await openControlSocket(folder)
    control.serve(controlAnswers(watch, null, null, null))
    faults.fails = () => true
    for (let i = 0; i < 3; i++) {
      await expect(askToAct(folder, 'pause', [key])).rejects.toThrow(/no space left/)
      await expect(watch.word({ action: 'pause', devices: [key] })).rejects.toSatisfy(
        (error) => statusOf(error) === 507,
      )
      watch.tick()
      await watch.save()
    }
    expect(watch.table.get(key)?.state).toBe('learning')
    expect(log.lines).toEqual([expect.stringContaining('devices are not saved')])
    // what is refused anyway need not be kept
    expect(await askToAct(folder, 'resume', [key])).toEqual([
      { device: key, refused: `${key} is not paused` },
    ])
    faults.fails = () => false
    expect(await askToAct(folder, 'pause', [key])).toEqual([{ device: key, refused: null }])
    expect(log.lines).toHaveLength(2)
    await control.close()
  })

  it('of models tells what could not be kept beside what was, and fails where nothing was', async () => {
    const folder = newFolder()
    const full = Object.assign(new Error('full'), { code: 'ENOSPC' })
    const room = {
      rollback: async (owner: string) => {
        if (owner === 'b') throw fileError('write', 'b.json', full)
        return null
      },
    } as unknown as ModelManager
    await nodeFileSystem.makeFolder(folder)
    const control = await openControlSocket(folder)
    control.serve(modelRoutes(room))
    expect(await askAgent(folder, '/models', { rollback: ['a', 'b'] })).toEqual({
      results: [
        { owner: 'a', refused: null },
        { owner: 'b', refused: expect.stringContaining('no space left') },
      ],
    })
    await expect(askAgent(folder, '/models', { rollback: ['b'] })).rejects.toThrow(/no space left/)
    await control.close()
  })
})

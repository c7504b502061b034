/** Models of watched devices that learn on: what they follow, what they do not, and the way back. */

import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRng } from '@oddflow/core'
import { parseNetwork } from '@oddflow/program'
import { beforeAll, describe, expect, it } from 'vitest'
import { DEFAULT_DEVICES, type LearningSettings } from '../../src/config/settings.js'
import { createDevice, type Device } from '../../src/devices/device.js'
import { type FileSystem, nodeFileSystem } from '../../src/files/file-system.js'
import { type ModelManager, openModelManager } from '../../src/models/model-manager.js'
import { createScopeOf, scopeFileName } from '../../src/models/model-scopes.js'
import { ModelStore } from '../../src/models/model-store.js'
import { type TrainedRows, type TrainingJob, trainRows } from '../../src/models/train.js'
import { createOnlineRows, learnOn } from '../../src/models/update.js'
import { faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { iatSizeContract, wanderingRows } from '../support/rows.js'
import { sampleRecord } from '../support/sample-record.js'

const contract = iatSizeContract(3)
const START = 1_700_000_000_000_000
const MINUTE = 60_000_000
const KEY = '02:00:00:00:00:01'
const EVERY = 50

/** One training for all tests: the rows are the same. */
let trained: TrainedRows | null = null
const train = async (job: TrainingJob): Promise<TrainedRows> => {
  trained ??= trainRows(job)
  return trained
}

async function gateway(
  learning: Partial<LearningSettings> = {},
  folder = temporaryFolder(),
  known: Device[] = [],
  files: FileSystem = nodeFileSystem,
) {
  const log = keepingLog()
  const room = await openModelManager(
    {
      contract,
      scopeOf: createScopeOf({ per: 'device', groups: new Map() }),
      localNetworks: [parseNetwork('192.168.0.0/16')],
      devices: { ...DEFAULT_DEVICES, learnHours: 1, learnFlows: 200 },
      // of a flow a minute, one in a hundred
      budget: { falseAlertsPerDay: 14.6, per: 'device', calibration: null, calibrateHours: 24 },
      limits: { rowsPerDevice: 400, memoryBytes: 100_000, maximum: 8 },
      base: null,
      given: new Map(),
      store: new ModelStore(files, folder, (owner) => scopeFileName('device', owner)),
      train,
      learning: { rowsPerHour: 1000, everyRows: EVERY, shadowAgrees: true, ...learning },
      learnOn: async (job) => learnOn(job),
      attackRows: () => [],
      seed: 1,
      oddflowVersion: '0.0.0',
      log,
      faults: log,
    },
    known,
  )
  return { room, log, folder }
}

/** A flow a minute, and a round when one is due; the sizes of row i are moved by `move(i)`. Returns how many were novel. */
async function show(
  room: ModelManager,
  device: Device,
  flows: number,
  move: (i: number) => number = () => 0,
): Promise<number> {
  const rows = wanderingRows(flows, 5, createRng(device.flows + 7))
  let novel = 0
  for (let i = 0; i < flows; i++) {
    for (let j = 0; j < 5; j++) room.decider.row[j] = rows[5 * i + j] + (j % 2 === 1 ? move(i) : 0)
    device.flows++
    device.lastSeenMicros = START + device.flows * MINUTE
    const record = sampleRecord(1, { startMicros: device.lastSeenMicros, row: room.decider.row })
    if (room.decider.decide(record).novel) novel++
    room.note(record, device, false)
    room.trainDue()
    await room.idle()
  }
  return novel
}

const verdictOn = (room: ModelManager, sizes: number) => {
  room.decider.row.set([0.005, sizes, 0.005, sizes, 0.005])
  return room.decider.decide(sampleRecord(1, { row: room.decider.row }))
}

/** Whether a device has a model of its own, of what it shows now. */
const isTrained = (room: ModelManager, key: string): boolean =>
  ['trained', 'learnt-on'].includes(room.scopeReport(key)?.state ?? '')

async function watching(learning: Partial<LearningSettings> = {}, files: FileSystem = nodeFileSystem) {
  const opened = await gateway(learning, temporaryFolder(), [], files)
  const device = createDevice(KEY, '192.168.0.1', START)
  await show(opened.room, device, 240)
  expect(isTrained(opened.room, KEY)).toBe(true)
  device.state = 'watching'
  return { ...opened, device }
}

const fileOf = (folder: string, model: string | null): Buffer =>
  readFileSync(join(folder, 'models', `device-02-00-00-00-00-01-${model}.oddflow`))

describe('a model that learns on', () => {
  beforeAll(async () => {
    await watching()
  })

  it('follows a slow drift that the trained one alone would flag more and more', async () => {
    const { room, device } = await watching({ shadowAgrees: false })
    await show(room, device, 3000, (i) => i / 120)
    const before = room.report().learning
    const novel = await show(room, device, 400, () => 25)
    const after = room.report().learning
    const onlyTrained = (after?.shadow.onlyTrained ?? 0) - (before?.shadow.onlyTrained ?? 0)
    const bothNovel = (after?.shadow.bothNovel ?? 0) - (before?.shadow.bothNovel ?? 0)
    expect(before?.rounds.accepted).toBeGreaterThan(20)
    expect(room.scopeReport(KEY)).toMatchObject({ state: 'learnt-on' })
    expect(novel).toBeLessThan((onlyTrained + bothNovel) / 2)
    expect(verdictOn(room, 1200)).toMatchObject({ novel: true, shadow: { novel: true } })
  })

  it('does not learn from a flood: rows per hour are limited, and novel rows are never learned', async () => {
    const rows = createOnlineRows({ dimension: 2, everyRows: 100, rowsPerHour: 10, maximumDevices: 4 })
    for (let i = 0; i < 10_000; i++) rows.add(KEY, KEY, Float64Array.of(i, i), START + i)
    expect(rows.overBudget).toBe(9990)
    expect(rows.take(KEY).length).toBe(20)
    rows.add(KEY, '02:00:00:00:00:02', Float64Array.of(1, 1), START)
    expect(rows.take(KEY).length).toBe(2)

    const { room, device } = await watching()
    const old = verdictOn(room, 80)
    await show(room, device, 1000, () => 1000)
    expect(verdictOn(room, 1080)).toMatchObject({ novel: true })
    expect(verdictOn(room, 80).novel).toBe(old.novel)
    expect(room.report().learning?.rows.learnt).toBe(0)
  })

  it('follows a slow drift only so far: rows that the trained model finds novel are not learned', async () => {
    const { room, device } = await watching()
    await show(room, device, 3000, (i) => i / 4)
    expect(room.report().learning?.rows.disregarded).toBeGreaterThan(1000)
    expect(verdictOn(room, 80).novel).toBe(false)
    for (const sizes of [500, 700, 900]) expect(verdictOn(room, sizes).novel).toBe(true)
  })

  it('is stopped by the guard where the trained one is not asked', async () => {
    const { room, device } = await watching({ shadowAgrees: false })
    await show(room, device, 3000, (i) => i / 4)
    const { rounds, rows } = room.report().learning ?? { rounds: null, rows: null }
    expect(rounds?.refused).toBeGreaterThan(10)
    expect(rows?.refused).toBe(EVERY * (rounds?.refused ?? 0))
    expect(verdictOn(room, 1080).novel).toBe(true)
  })

  it('goes back to the bytes that were trained, learns no more then, and goes forward on a word', async () => {
    const { room, device, folder } = await watching()
    const first = room.scopeReport(KEY)?.model ?? null
    const bytes = fileOf(folder, first)
    const score = verdictOn(room, 90).score
    await show(room, device, 3 * EVERY)
    const learnt = room.scopeReport(KEY)
    expect(learnt).toMatchObject({ state: 'learnt-on', previous: first })
    expect(learnt?.model).not.toBe(first)
    expect(verdictOn(room, 90).shadow).toMatchObject({ score, model: first })
    expect(await room.rollback(KEY)).toBe(null)
    expect(room.scopeReport(KEY)).toMatchObject({ state: 'trained', model: first, previous: learnt?.model })
    expect(fileOf(folder, first)).toEqual(bytes)
    const back = verdictOn(room, 90)
    expect(back.score).toBe(score)
    expect(back.shadow).toBe(undefined)
    await show(room, device, 2 * EVERY)
    expect(room.scopeReport(KEY)?.model).toBe(first)
    const again = await gateway({}, folder, [device])
    await show(again.room, device, 2 * EVERY)
    expect(again.room.scopeReport(KEY)?.model).toBe(first)
    expect(await again.room.rollback(KEY)).toBe(null)
    expect(again.room.scopeReport(KEY)).toMatchObject({ state: 'learnt-on', model: learnt?.model })
    await show(again.room, device, EVERY)
    expect(again.room.scopeReport(KEY)?.model).not.toBe(learnt?.model)
  })

  it('continues after a restart, and keeps two files', async () => {
    const { room, device, folder } = await watching()
    await show(room, device, 3 * EVERY)
    const copy = temporaryFolder()
    cpSync(folder, copy, { recursive: true })
    const alike = { ...device }
    const { room: again } = await gateway({}, copy, [alike])
    expect(again.scopeReport(KEY)).toMatchObject({ state: 'learnt-on', model: room.scopeReport(KEY)?.model })
    expect(verdictOn(again, 85)).toEqual(verdictOn(room, 85))
    await show(room, device, 3 * EVERY)
    await show(again, alike, 3 * EVERY)
    expect(again.scopeReport(KEY)?.model).toBe(room.scopeReport(KEY)?.model)
    expect(readdirSync(join(copy, 'models')).filter((name) => name.endsWith('.oddflow'))).toHaveLength(2)
  })

  it('has the model before or the one after a disk that fails at any step', async () => {
    for (let step = 0; step < 10; step++) {
      const faults = noFaults()
      const { room, device, folder } = await watching({}, faultyFiles(faults))
      const first = faults.steps
      faults.fails = (at) => at >= first + step
      await show(room, device, EVERY)
      const inForce = room.scopeReport(KEY)?.model
      const again = await gateway({}, folder, [device])
      const kept = again.room.scopeReport(KEY)?.model
      expect(kept).not.toBe(null)
      if (inForce !== room.scopeReport(KEY)?.previous && room.report().learning?.rounds.accepted === 1) {
        expect(kept).toBe(inForce)
      }
      expect(room.report().learning?.rounds).toMatchObject(
        room.report().learning?.rounds.accepted === 1 ? { failed: 0 } : { failed: 1, accepted: 0 },
      )
    }
  })
})

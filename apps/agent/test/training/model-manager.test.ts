/** Devices that learn on the gateway, with real training (in this thread), a real folder, and faults. */

import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRng, DataError } from '@oddflow/core'
import { decodeModelFile } from '@oddflow/detectors'
import { parseNetwork } from '@oddflow/program'
import { describe, expect, it } from 'vitest'
import { DEFAULT_DEVICES } from '../../src/config/settings.js'
import { createDevice, type Device, learnAnew } from '../../src/devices/device.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import {
  type ModelManager,
  type ModelManagerOptions,
  openModelManager,
} from '../../src/models/model-manager.js'
import {
  createScopeOf,
  devicesOfModels,
  type ScopeRule,
  scopeFileName,
} from '../../src/models/model-scopes.js'
import { ModelStore } from '../../src/models/model-store.js'
import { type TrainingJob, trainRows } from '../../src/models/train.js'
import { learnOn } from '../../src/models/update.js'
import { alarmsText } from '../../src/page/texts.js'
import { faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { iatSizeContract, wanderingRows } from '../support/rows.js'
import { sampleRecord } from '../support/sample-record.js'

const contract = iatSizeContract(3)
const START = 1_700_000_000_000_000
const MINUTE = 60_000_000
const keyOf = (n: number): string => `02:00:00:00:00:${n.toString(16).padStart(2, '0')}`

interface Gateway {
  room: ModelManager
  log: ReturnType<typeof keepingLog>
  folder: string
}

async function gateway(
  folder = temporaryFolder(),
  changes: Partial<ModelManagerOptions> = {},
  known: Device[] = [],
  rule: ScopeRule = { per: 'device', groups: new Map() },
  files = nodeFileSystem,
): Promise<Gateway> {
  const log = keepingLog()
  const room = await openModelManager(
    {
      contract,
      scopeOf: createScopeOf(rule),
      localNetworks: [parseNetwork('192.168.0.0/16')],
      devices: { ...DEFAULT_DEVICES, learnHours: 1, learnFlows: 100 },
      // a flow a minute: 1,440 a day, so that 144 false alerts a day are a tenth of them, which 18 rows keep
      budget: { falseAlertsPerDay: 144, per: 'device', calibration: null, calibrateHours: 24 },
      limits: { rowsPerDevice: 200, memoryBytes: 100_000, maximum: 8 },
      base: null,
      given: new Map(),
      store: new ModelStore(files, folder, (owner) => scopeFileName(rule.per, owner)),
      train: async (job) => trainRows(job),
      learning: null,
      learnOn: async (job) => learnOn(job),
      attackRows: () => [],
      seed: 1,
      oddflowVersion: '0.0.0',
      log,
      faults: log,
      ...changes,
    },
    known,
  )
  return { room, log, folder }
}

/** Of a flow a minute, one in a hundred. */
const onePercent = { falseAlertsPerDay: 14.6, per: 'device', calibration: null, calibrateHours: 24 } as const

/** Flows of a device, a minute apart by default. */
function show(room: ModelManager, device: Device, flows: number, change = 0, minutes = 1): void {
  const n = Number.parseInt(device.key.slice(-2), 16)
  const rows = wanderingRows(flows, 5, createRng(1000 * n + device.flows))
  for (let i = 0; i < flows; i++) {
    for (let j = 0; j < 5; j++) room.decider.row[j] = rows[5 * i + j] + (j % 2 === 1 ? change : 0)
    device.flows++
    device.lastSeenMicros = START + device.flows * minutes * MINUTE
    const record = sampleRecord(n, { startMicros: device.lastSeenMicros, row: room.decider.row })
    room.note(record, device, room.decider.decide(record).novel)
  }
}

/** A watched device shows what it did before, until its model has proved itself. */
async function settle(room: ModelManager, of: Device, change = 0): Promise<void> {
  for (let i = 0; i < 20 && room.scopeReport(of.key)?.proving !== null; i++) {
    show(room, of, 101, change)
    await train(room)
  }
  expect(room.scopeReport(of.key)?.proving).toBe(null)
}

const device = (n: number): Device => createDevice(keyOf(n), `192.168.0.${n}`, START)
/** Whether a device has a model of its own, of what it shows now. */
const isTrained = (room: ModelManager, key: string): boolean =>
  ['trained', 'learnt-on'].includes(room.scopeReport(key)?.state ?? '')
const train = async (room: ModelManager): Promise<void> => {
  room.trainDue()
  await room.idle()
}
const verdictOn = (room: ModelManager, n: number, sizes: number) => {
  room.decider.row.set([0.005, sizes, 0.005, sizes, 0.005])
  return room.decider.decide(sampleRecord(n, { row: room.decider.row }))
}

describe('a manager of models', () => {
  it('trains a device when it has had the flows and the time, and judges it by its own model alone', async () => {
    const { room, log } = await gateway()
    const [a, b] = [device(1), device(2)]
    show(room, a, 50)
    await train(room)
    expect(isTrained(room, a.key)).toBe(false)
    expect(verdictOn(room, 1, 80)).toMatchObject({ rule: 'not-judged', novel: false, model: null })
    show(room, a, 60)
    show(room, b, 110, 1000)
    await train(room)
    await train(room)
    expect(log.lines.filter((line) => line.includes('is active'))).toHaveLength(2)
    expect([a, b].map(({ key }) => isTrained(room, key))).toEqual([true, true])
    expect(verdictOn(room, 1, 80)).toMatchObject({ rule: 'score', novel: false })
    expect(verdictOn(room, 1, 1080).novel).toBe(true)
    expect(verdictOn(room, 2, 80).novel).toBe(true)
    expect(verdictOn(room, 2, 1080).novel).toBe(false)
    expect(verdictOn(room, 1, 80).model).not.toBe(verdictOn(room, 2, 80).model)
    expect(room.report()).toMatchObject({
      owners: { waiting: 0, learning: 2, withModel: 2 },
      trainings: { accepted: 2, unsettled: 0, failed: 0 },
      reservoirBytes: 128 * 8 * 8 * 2,
    })
    a.state = 'watching'
    b.state = 'ready'
    for (const each of [a, b]) show(room, each, 1)
    // until they have proved themselves
    expect(room.report()).toMatchObject({ owners: { learning: 2, withModel: 2 } })
    await settle(room, a)
    await settle(room, b, 1000)
    expect(room.report()).toMatchObject({ owners: { learning: 0, withModel: 2 }, reservoirBytes: 0 })
  })

  it('gives no model of rows that had not settled, and tries again with more', async () => {
    const { room, log } = await gateway(temporaryFolder(), { budget: onePercent })
    const a = device(1)
    show(room, a, 120)
    show(room, a, 80, 600)
    await train(room)
    expect(isTrained(room, a.key)).toBe(false)
    expect(room.owners()[0]).toMatchObject({ state: 'learning' })
    expect(room.owners()[0]).toMatchObject({ modelRows: null, unsettledShare: null, refused: { rows: 200 } })
    expect(room.owners()[0].refused?.unsettledShare).toBeGreaterThan(0.5)
    show(room, a, 20, 600)
    await train(room)
    expect(room.report().trainings).toMatchObject({ unsettled: 1 })
    show(room, a, 40, 3000)
    await train(room)
    expect(room.report().trainings).toMatchObject({ unsettled: 2 })
    // told once
    expect(log.lines.filter((line) => line.includes('refused as unsettled'))).toEqual([
      expect.stringMatching(
        /02:00:00:00:00:01: a model of 200 rows is refused as unsettled: \d\d\.\d % of the later half .*, 5\.0 % are allowed; no model yet/,
      ),
    ])
    show(room, a, 900, 600)
    await train(room)
    expect(isTrained(room, a.key)).toBe(true)
    expect(room.owners()[0].refused).toBe(null)
    expect(room.owners()[0].unsettledShare).toBeLessThan(0.05)
  })

  it('trains without the rows of an attack, and uses no model that finds one of them normal', async () => {
    const attack: Float64Array[] = []
    const jobs: TrainingJob[] = []
    const { room, log } = await gateway(temporaryFolder(), {
      attackRows: (owner) => (owner === device(1).key ? attack : []),
      async train(job) {
        jobs.push(job)
        return trainRows(job)
      },
    })
    const a = device(1)
    room.decider.row.set([0.005, 5000, 0.005, 5000, 0.005])
    attack.push(room.decider.row.slice())
    room.note(sampleRecord(1, { row: room.decider.row }), a, false)
    show(room, a, 110)
    await train(room)
    expect(jobs[0]?.rows).toHaveLength(5 * 110)
    expect(isTrained(room, a.key)).toBe(true)
    const { model } = verdictOn(room, 1, 80)
    attack.push(Float64Array.of(0.005, 80, 0.005, 80, 0.005))
    show(room, a, 200)
    await train(room)
    expect(room.report().trainings).toMatchObject({ accepted: 1, failed: 1 })
    expect(log.lines.join()).toMatch(
      /it finds 1 of 2 flows normal that were answered as an attack; trying again/,
    )
    expect(verdictOn(room, 1, 80).model).toBe(model)
  })

  it('continues after a restart: rows, then models, with the same scores', async () => {
    const first = await gateway()
    const a = device(1)
    show(first.room, a, 70)
    await first.room.save()
    const second = await gateway(first.folder, {}, [a])
    expect(second.room.owners()[0]).toMatchObject({ rows: 70, flows: 70 })
    show(second.room, a, 40)
    await train(second.room)
    a.state = 'watching'
    await settle(second.room, a)
    const verdict = verdictOn(second.room, 1, 81)
    await second.room.save()
    const third = await gateway(first.folder, {}, [a])
    expect(isTrained(third.room, a.key)).toBe(true)
    expect(verdictOn(third.room, 1, 81)).toEqual(verdict)
    expect(readdirSync(join(first.folder, 'models')).some((name) => name.endsWith('.rows'))).toBe(false)
  })

  it('relearns on request, judges by the old model meanwhile, and rolls back on request', async () => {
    const { room, folder } = await gateway()
    const a = device(1)
    show(room, a, 110)
    await train(room)
    const old = verdictOn(room, 1, 80).model
    a.state = 'watching'
    show(room, a, 1)
    expect(await room.rollback(a.key)).toMatch(/no previous model/)
    learnAgain(a)
    show(room, a, 110, 1000)
    expect(isTrained(room, a.key)).toBe(false)
    expect(verdictOn(room, 1, 80).model).toBe(old)
    await train(room)
    expect(verdictOn(room, 1, 80)).toMatchObject({ novel: true })
    expect(await room.rollback(a.key)).toBe(null)
    expect(verdictOn(room, 1, 80)).toMatchObject({ novel: false, model: old })
    const again = await gateway(folder, {}, [a])
    expect(verdictOn(again.room, 1, 80)).toMatchObject({ novel: false, model: old })
  })

  it('takes no bytes that are no model, writes none of them, and says so until a training succeeds', async () => {
    const written = (at: string): string[] =>
      existsSync(join(at, 'models')) ? readdirSync(join(at, 'models')) : []
    const answers: ((file: Uint8Array) => Uint8Array)[] = [
      () => new Uint8Array(0),
      () => new Uint8Array(1000).fill(255),
      (file) => file.subarray(0, file.length - 1),
      (file) => file.map((byte, i) => (i === 0 ? byte ^ 1 : byte)),
    ]
    let change: ((file: Uint8Array) => Uint8Array) | undefined
    const { room, log, folder } = await gateway(temporaryFolder(), {
      train: async (job) => {
        const trained = trainRows(job)
        change = answers.shift()
        return change === undefined ? trained : { ...trained, file: change(trained.file) }
      },
    })
    const a = device(1)
    for (let failed = 1; failed <= 4; failed++) {
      show(room, a, a.flows + 110)
      await train(room)
      expect(room.report().trainings).toEqual({ accepted: 0, unsettled: 0, failed })
      expect(room.warnings()).toEqual([expect.stringMatching(/^02:00:00:00:00:01: no model was made: ./)])
      expect(log.lines.at(-1)).toContain(`${room.warnings()[0]}; trying again`)
      expect(written(folder)).toEqual([])
    }
    show(room, a, a.flows + 110)
    await train(room)
    expect(room.report().trainings).toMatchObject({ accepted: 1, failed: 4 })
    expect(room.warnings()).toEqual([])
    expect(written(folder)).not.toEqual([])
  })

  it('has one model for a group and one for all others', async () => {
    const rule: ScopeRule = { per: 'group', groups: new Map([['cameras', [keyOf(1), keyOf(2)]]]) }
    const { room } = await gateway(temporaryFolder(), {}, [], rule)
    const all = [device(1), device(2), device(3)]
    for (const each of all) show(room, each, 110, each === all[2] ? 1000 : 0)
    await train(room)
    await train(room)
    const models = [1, 2, 3].map((n) => verdictOn(room, n, 80).model)
    expect(models[0]).toBe(models[1])
    expect(models[2]).not.toBe(models[0])
    expect(room.owners().map(({ owner }) => owner)).toEqual(['cameras', 'other'])
  })

  it('keeps within its memory: who finds no place waits, and gets one when it is free', async () => {
    const limits = {
      rowsPerDevice: 200,
      memoryBytes: 2 * 8 * 8 * 200,
      maximum: 8,
    }
    const { room } = await gateway(temporaryFolder(), { limits })
    const all = [device(1), device(2), device(3)]
    for (const each of all) show(room, each, 110)
    expect(room.report()).toMatchObject({ owners: { waiting: 1, learning: 2 } })
    expect(room.report().reservoirBytes).toBeLessThanOrEqual(limits.memoryBytes)
    await train(room)
    all[0].state = 'ready'
    show(room, all[0], 1)
    show(room, all[2], 110)
    expect(room.report()).toMatchObject({ owners: { waiting: 0, learning: 2, withModel: 1 } })
  })

  describe('where places are short', () => {
    /** Given by their makers. */
    const own = (n: number): Device => createDevice(`00${keyOf(n).slice(2)}`, `192.168.0.${n}`, START)
    const few = { rowsPerDevice: 200, memoryBytes: 2 * 8 * 8 * 200, maximum: 8 }
    const learners = (room: ModelManager): string[] =>
      room
        .owners()
        .filter(({ state }) => state === 'learning')
        .map(({ owner }) => owner)
    const opened = () => gateway(temporaryFolder(), { limits: few })

    it('guests with private addresses make room for a device with its own, and no other for them', async () => {
      const { room, log } = await opened()
      const [guest, other, late] = [device(1), device(2), device(4)]
      const camera = own(3)
      show(room, guest, 80)
      show(room, other, 85)
      show(room, camera, 9)
      expect(learners(room)).not.toContain(camera.key)
      show(room, camera, 80)
      expect(learners(room)).toEqual([other.key, camera.key])
      expect(log.lines.filter((line) => line.includes('stops learning to make room for'))).toEqual([
        expect.stringMatching(
          /02:00:00:00:00:01: stops learning to make room for 00:00:00:00:00:03: its address is a private one/,
        ),
      ])
      show(room, late, 80)
      expect(learners(room)).toEqual([other.key, camera.key])
      // who waits is shown, and told once an hour
      expect(room.owners().filter(({ state }) => state === 'waiting')).toHaveLength(2)
      const waits = log.lines.filter((line) => line.includes('waits for a place to learn'))
      expect(waits.length).toBeGreaterThanOrEqual(1)
      expect(waits.length).toBeLessThanOrEqual(3)
    })

    it('learners that came and went, or were idle for a day, make room for one that is there', async () => {
      const { room, log } = await opened()
      const [brief, idle, camera, second] = [own(1), own(2), own(3), own(4)]
      show(room, brief, 3)
      show(room, idle, 90)
      for (const each of [camera, second]) {
        each.lastSeenMicros = START + 200 * MINUTE
        each.flows = 200
      }
      show(room, camera, 1)
      expect(learners(room)).toEqual([idle.key, camera.key])
      show(room, second, 1)
      expect(learners(room)).toEqual([idle.key, camera.key])
      camera.flows = 3000
      show(room, camera, 1)
      second.flows = 3000
      show(room, second, 1)
      expect(learners(room)).toEqual([camera.key, second.key])
      expect(log.lines.join()).toMatch(/:01: stops learning .*: it came and went/)
      expect(log.lines.join()).toMatch(/:02: stops learning .*: it was not seen for 48 h/)
    })

    it('a quiet device that was put back keeps the place that it finds', async () => {
      const { room, log } = await opened()
      const [guest, other] = [device(1), device(2)]
      const camera = own(3)
      for (let i = 0; i < 20; i++) {
        show(room, guest, 60)
        show(room, other, 60)
        // one flow in two hours
        camera.flows = 120 * (i + 1)
        show(room, camera, 1)
      }
      expect(learners(room)).toContain(camera.key)
      expect(log.lines.filter((line) => line.includes('stops learning to make room for'))).toHaveLength(1)
    })

    it('one that is judged already gives its place before others, and keeps its model', async () => {
      const { room, log } = await gateway(temporaryFolder(), {
        limits: few,
        devices: { ...DEFAULT_DEVICES, approve: 'auto' },
        budget: null,
      })
      const [a, b, c] = [own(1), own(2), own(3)]
      show(room, a, 30, 0, 96)
      room.advance(START + 51 * 60 * MINUTE)
      await train(room)
      a.state = 'watching'
      show(room, a, 1, 0, 96)
      show(room, b, 30, 0, 96)
      c.flows = 20
      show(room, c, 12, 0, 96)
      expect(learners(room)).toEqual([b.key, c.key])
      expect(isTrained(room, a.key)).toBe(true)
      expect(room.report().owners.waiting).toBe(0)
      expect(log.lines.join()).toMatch(/:01: stops learning to make room for .*: it is judged already/)
    })

    it('devices that the table forgets leave no owners and no files behind', async () => {
      const { room, folder } = await opened()
      const kept = own(1)
      show(room, kept, 5)
      for (let n = 16; n < 200; n++) {
        const each = createDevice(`02:00:00:00:01:${n.toString(16)}`, '192.168.0.9', START)
        show(room, each, 1)
        if (n === 100) await room.save()
        room.forget(each.key)
      }
      room.forget('02:00:00:00:09:09')
      expect(room.owners().map(({ owner }) => owner)).toEqual([kept.key])
      expect(room.report().owners).toEqual({ waiting: 0, learning: 1, withModel: 0 })
      await room.save()
      expect(readdirSync(join(folder, 'models'))).toEqual(['device-00-00-00-00-00-01.rows'])
    })

    it('a flood of made-up addresses takes no place of a device', async () => {
      const { room } = await opened()
      const [camera, lock] = [own(1), own(2)]
      show(room, camera, 5)
      show(room, lock, 5)
      for (let n = 16; n < 200; n++) {
        const each = createDevice(`00:00:00:00:01:${n.toString(16)}`, '192.168.0.9', START + 5 * MINUTE)
        show(room, each, 1)
      }
      expect(learners(room)).toEqual([camera.key, lock.key])
      expect(room.warnings()).toEqual([
        '184 devices or groups wait for a place to learn (models.memory, models.maximum)',
      ])
    })
  })

  it('has a model prove itself by flows that came after it, and makes another where it does not', async () => {
    const { room } = await gateway(temporaryFolder(), { budget: onePercent })
    const a = device(1)
    show(room, a, 200)
    await train(room)
    expect(isTrained(room, a.key)).toBe(true)
    expect(room.isProven(a.key)).toBe(false)
    const first = room.scopeReport(a.key)?.model
    // from here on one of twenty-five is of another kind
    const others = async (): Promise<void> => {
      show(room, a, 24)
      show(room, a, 1, 700)
      await train(room)
    }
    for (let i = 0; i < 8; i++) await others()
    expect(room.isProven(a.key)).toBe(false)
    expect(room.scopeReport(a.key)?.model).not.toBe(first)
    expect(room.report().trainings).toMatchObject({ accepted: 2 })
    for (let i = 0; i < 24 && room.isProven(a.key) === false; i++) await others()
    expect(room.isProven(a.key)).toBe(true)
    const { proving, falseAlarmShare } = room.scopeReport(a.key)!
    expect(proving!.flows).toBeGreaterThanOrEqual(198)
    expect(proving!.novel / proving!.flows).toBeLessThanOrEqual(falseAlarmShare!)
  })

  it('says of a broken proof what it found, once, while the model in force keeps its own numbers', async () => {
    const { room, log } = await gateway(temporaryFolder(), { budget: onePercent })
    const a = device(1)
    show(room, a, 200)
    await train(room)
    expect(room.scopeReport(a.key)).toMatchObject({
      keepsPromise: true,
      modelRows: 200,
      proving: { state: 'open', flows: 0, needed: 198, novel: 0 },
    })
    show(room, a, 195, 600)
    expect(room.scopeReport(a.key)?.proving?.state).toBe('open')
    show(room, a, 25, 600)
    const inForce = room.scopeReport(a.key)
    await train(room)
    // half of the rows are unlike the other half, so that no other model takes its place
    expect(room.scopeReport(a.key)).toMatchObject({
      state: 'trained',
      model: inForce?.model,
      modelRows: 200,
      unsettledShare: inForce?.unsettledShare,
      keepsPromise: false,
      proving: { state: 'broken', flows: 220, needed: 196 },
      refused: { rows: 200 },
    })
    expect(room.scopeReport(a.key)?.proving?.novel).toBeGreaterThan(200)
    expect(log.lines.filter((line) => line.includes('false alarms exceed the limit'))).toEqual([
      expect.stringMatching(/of 19\d later flows are novel, 1\.0 % were promised; retraining/),
    ])
    expect(log.lines.filter((line) => line.includes('the previous model stays active'))).toHaveLength(1)
  })

  it('takes as many flows for a proof as were enough to learn, where the budget is loose too', async () => {
    const { room } = await gateway()
    const a = device(1)
    show(room, a, 110)
    await train(room)
    expect(room.scopeReport(a.key)).toMatchObject({ rowsNeeded: 20, proving: { needed: 100 } })
    // twenty would do for the budget alone
    show(room, a, 99)
    expect(room.scopeReport(a.key)?.proving).toMatchObject({ state: 'open', flows: 99 })
    show(room, a, 1)
    expect(room.scopeReport(a.key)?.proving?.state).not.toBe('open')
  })

  it('continues its proof after a restart', async () => {
    const first = await gateway(temporaryFolder(), { budget: onePercent })
    const a = device(1)
    show(first.room, a, 200)
    await train(first.room)
    show(first.room, a, 120)
    await first.room.save()
    const second = await gateway(first.folder, { budget: onePercent }, [a])
    expect(second.room.scopeReport(a.key)?.proving).toEqual(first.room.scopeReport(a.key)?.proving)
    expect(second.room.scopeReport(a.key)?.proving?.flows).toBe(120)
  })

  it('learns until its rows keep the requested rate, and says how many it needs', async () => {
    const { room } = await gateway(temporaryFolder(), { budget: onePercent })
    const a = device(1)
    show(room, a, 190)
    await train(room)
    expect(room.scopeReport(a.key)).toMatchObject({ state: 'learning', rows: 190, rowsNeeded: 198 })
    show(room, a, 8)
    await train(room)
    const told = room.scopeReport(a.key)
    expect(told).toMatchObject({ state: 'trained', rows: 198, keepsPromise: true })
    expect(told?.falseAlarmShare).toBeLessThanOrEqual(0.0102)
  })

  it('says what it promises where there is no room for the rows that more would take', async () => {
    const budget = { falseAlertsPerDay: 1, per: 'device', calibration: null, calibrateHours: 24 } as const
    const { room, log } = await gateway(temporaryFolder(), { budget })
    const a = device(1)
    show(room, a, 199)
    await train(room)
    expect(room.scopeReport(a.key)).toMatchObject({ state: 'learning', rowsNeeded: 200 })
    show(room, a, 1)
    await train(room)
    expect(room.scopeReport(a.key)).toMatchObject({ state: 'trained', keepsPromise: false })
    expect(room.scopeReport(a.key)?.falseAlarmShare).toBeCloseTo(1 / 101, 3)
    expect(log.lines.join()).toMatch(
      /up to 0\.99 % of normal flows be flagged; set models\.rowsPerDevice to 28\d\d/,
    )
  })

  it('makes the threshold for the budget', async () => {
    const a = device(1)
    const rates: number[] = []
    const { room } = await gateway(temporaryFolder(), {
      train: async (job) => {
        rates.push(job.falsePositiveRate)
        return trainRows(job)
      },
    })
    show(room, a, 110)
    await train(room)
    expect(rates[0]).toBeCloseTo(0.1, 1)
  })

  it('survives a training that fails, and tries again with twice the flows', async () => {
    let fails = true
    const { room, log } = await gateway(temporaryFolder(), {
      train: async (job) => {
        if (fails) throw new DataError('too little')
        return trainRows(job)
      },
    })
    const a = device(1)
    show(room, a, 110)
    await train(room)
    expect(log.lines.join()).toMatch(/no model was made: too little; trying again/)
    fails = false
    show(room, a, 20)
    await train(room)
    expect(isTrained(room, a.key)).toBe(false)
    show(room, a, 100)
    await train(room)
    expect(isTrained(room, a.key)).toBe(true)
  })

  it('has the old model or the new one after a disk that fails at any step', async () => {
    for (let step = 0; step < 14; step++) {
      const folder = temporaryFolder()
      const faults = noFaults()
      const { room } = await gateway(folder, {}, [], undefined, faultyFiles(faults))
      const a = device(1)
      show(room, a, 110)
      await train(room)
      const old = verdictOn(room, 1, 80).model
      a.state = 'watching'
      show(room, a, 1)
      learnAgain(a)
      show(room, a, 110, 1000)
      const first = faults.steps
      faults.fails = (at) => at >= first + step
      await train(room)
      const inForce = verdictOn(room, 1, 80).model
      const again = await gateway(folder, {}, [a])
      const kept = verdictOn(again.room, 1, 80).model
      expect(kept).not.toBe(null)
      // past the rename the disk may be ahead of an error that came after it
      if (inForce !== old) expect(kept).toBe(inForce)
    }
  })

  it('keeps what devices have shown at the next attempt, whichever step of the disk fails', async () => {
    for (let step = 0; step < 6; step++) {
      const faults = noFaults()
      const folder = temporaryFolder()
      const { room } = await gateway(folder, {}, [], undefined, faultyFiles(faults))
      const a = device(1)
      show(room, a, 50)
      faults.fails = (at) => at === step
      await room.save()
      await room.save()
      const again = await gateway(folder, {}, [a])
      expect(again.room.owners(), `step ${step}`).toMatchObject([{ state: 'learning', rows: 50, flows: 50 }])
    }
  })
})

/** Learns again, with the count of flows that the numbers of the next ones go on from. */
function learnAgain(device: Device): void {
  const { flows } = device
  learnAnew(device, device.lastSeenMicros + 20_000)
  device.flows = flows
}

/** A watched device with a model of small flows; trained twice, with one of large flows, and that of small ones before it. */
async function watched(isTrainedTwice: boolean): Promise<Gateway & { readonly a: Device }> {
  const opened = await gateway()
  const { room } = opened
  const a = device(1)
  show(room, a, 150)
  await train(room)
  a.state = 'watching'
  await settle(room, a)
  if (isTrainedTwice) {
    learnAgain(a)
    show(room, a, 150, 1000)
    await train(room)
    a.state = 'watching'
    await settle(room, a, 1000)
  }
  expect(verdictOn(room, 1, 80)).toMatchObject({ rule: 'score', novel: isTrainedTwice })
  await room.save()
  return { ...opened, a }
}

/** Changes two bytes. */
function garble(path: string, at: number): void {
  const bytes = readFileSync(path)
  bytes[at] ^= 0x55
  bytes[(at + 1) % bytes.length] ^= 0x2a
  writeFileSync(path, bytes)
}

/** The files of models, the one in force first. */
function modelFiles(folder: string, room: ModelManager): string[] {
  const { model, previous } = room.owners()[0]
  return [model, previous].flatMap((id) => {
    const name = readdirSync(join(folder, 'models')).find((each) => id !== null && each.includes(id))
    return name === undefined ? [] : [join(folder, 'models', name)]
  })
}

describe('a damaged model of a watched device', () => {
  it('gives way to the one before it, which is reported once and is in force from then on', async () => {
    const { room, folder, a } = await watched(true)
    const [current, previous] = modelFiles(folder, room)
    garble(current, 4000)
    const again = await gateway(folder, {}, [a])
    expect(again.log.lines).toEqual([
      expect.stringMatching(
        /the model of 02:00:00:00:00:01 is damaged: .*: its SHA-256 does not match; the previous model is active/,
      ),
    ])
    expect(verdictOn(again.room, 1, 80)).toMatchObject({ rule: 'score', novel: false })
    expect(again.room.isJudged(a.key)).toBe(true)
    expect(again.room.report()).toMatchObject({ damaged: 1, owners: { withModel: 1 } })
    expect(again.room.scopeReport(a.key)).toMatchObject({ damage: 'previous', previous: null })
    const third = await gateway(folder, {}, [a])
    expect(third.log.lines).toEqual([])
    expect(verdictOn(third.room, 1, 80)).toMatchObject({ rule: 'score', novel: false })
    expect(existsSync(`${current}.damaged`)).toBe(true)
    expect(existsSync(previous)).toBe(true)
  })

  it.each([true, false])(
    'with no whole one before it is learnt again while the device stays watched (trained twice: %s)',
    async (twice) => {
      const { room, folder, a } = await watched(twice)
      for (const path of modelFiles(folder, room)) garble(path, 4000)
      const again = await gateway(folder, {}, [a])
      expect(again.log.lines).toEqual([expect.stringMatching(/the model of 02:00:00:00:00:01 is lost/)])
      expect(verdictOn(again.room, 1, 80).rule).toBe('not-judged')
      expect(again.room.isJudged(a.key)).toBe(false)
      show(again.room, a, 60)
      expect(again.room.scopeReport(a.key)).toMatchObject({ damage: 'lost', state: 'learning', rows: 60 })
      // the rows outlast a restart
      await again.room.save()
      const third = await gateway(folder, {}, [a])
      show(third.room, a, 60)
      await train(third.room)
      expect(a.state).toBe('watching')
      expect(verdictOn(third.room, 1, 80)).toMatchObject({ rule: 'score', novel: false })
      expect(verdictOn(third.room, 1, 1080)).toMatchObject({ rule: 'score', novel: true })
      await settle(third.room, a)
      expect(third.room.scopeReport(a.key)).toMatchObject({
        damage: null,
        state: 'trained',
        rowsNeeded: null,
      })
      const fourth = await gateway(folder, {}, [a])
      expect(fourth.log.lines).toEqual([])
      expect(fourth.room.isJudged(a.key)).toBe(true)
    },
  )

  it('is judged by the base model meanwhile, if there is one, and is relearned', async () => {
    const { room, folder, a } = await watched(false)
    const base = { saved: decodeModelFile(readFileSync(modelFiles(folder, room)[0])), sha256: 'b'.repeat(64) }
    garble(modelFiles(folder, room)[0], 4000)
    const again = await gateway(folder, { base }, [a])
    expect(again.room.isJudged(a.key)).toBe(true)
    expect(verdictOn(again.room, 1, 80).model).toBe('b'.repeat(16))
    show(again.room, a, 60)
    show(again.room, a, 60)
    await train(again.room)
    expect(verdictOn(again.room, 1, 80).model).not.toBe('b'.repeat(16))
  })

  it('models that were given are replaced while it runs', async () => {
    const { room, folder } = await watched(false)
    const saved = decodeModelFile(readFileSync(modelFiles(folder, room)[0]))
    const named = (digit: string) => ({ saved, sha256: digit.repeat(64) })
    const other = keyOf(2)
    const given = await gateway(temporaryFolder(), {
      base: named('b'),
      given: new Map([[other, named('c')]]),
    })
    expect(verdictOn(given.room, 1, 80).model).toBe('b'.repeat(16))
    expect(verdictOn(given.room, 2, 80).model).toBe('c'.repeat(16))
    given.room.replaceGiven(named('d'), new Map([[other, named('e')]]))
    expect(verdictOn(given.room, 1, 80).model).toBe('d'.repeat(16))
    expect(verdictOn(given.room, 2, 80).model).toBe('e'.repeat(16))
    expect(given.room.decider.modelOf(other)?.model).toBe('e'.repeat(16))
    expect(given.room.decider.rarity({ score: 0, model: 'd'.repeat(16) })).not.toBeNull()
  })

  it('in any byte of any file: the device is judged, or reported and relearned', async () => {
    const { folder, a } = await watched(true)
    const names = readdirSync(join(folder, 'models'))
    expect(names.map((name) => name.replace(/-[0-9a-f]{16}\./, '.')).sort()).toEqual([
      'device-02-00-00-00-00-01.json',
      'device-02-00-00-00-00-01.json.copy',
      'device-02-00-00-00-00-01.oddflow',
      'device-02-00-00-00-00-01.oddflow',
    ])
    const cases = names.flatMap((name) => {
      const { length } = readFileSync(join(folder, 'models', name))
      return Array.from(
        { length: Math.min(length, 400) },
        (_, i) => [name, Math.floor((i * length) / 400)] as const,
      )
    })
    for (const [name, at] of sampleOf(cases)) {
      const copy = join(temporaryFolder(), 'state')
      cpSync(folder, copy, { recursive: true })
      garble(join(copy, 'models', name), at % readFileSync(join(copy, 'models', name)).length)
      const { room, log } = await gateway(copy, {}, [a])
      const where = `${name}, byte ${at}`
      expect(room.isJudged(a.key), where).toBe(true)
      // a model that is whole, and of two the one in force; a damaged copy of the record is written again with it
      const isOfCurrent = name.endsWith('.oddflow') && log.lines.length > 0
      expect(verdictOn(room, 1, 80), where).toMatchObject({ rule: 'score', novel: !isOfCurrent })
      if (name.endsWith('.json'))
        expect(log.lines, where).toEqual([expect.stringMatching(/its copy is used/)])
      if (isOfCurrent) expect(log.lines.join(), where).toMatch(/is damaged: .*; the previous model is active/)
    }
  })

  it('with a damaged record and a damaged copy is relearned', async () => {
    const { folder, a } = await watched(false)
    const record = join(folder, 'models', 'device-02-00-00-00-00-01.json')
    writeFileSync(record, '{')
    writeFileSync(`${record}.copy`, '')
    const again = await gateway(folder, {}, [a])
    expect(again.log.lines).toEqual([expect.stringMatching(/the active model is unknown/)])
    expect(again.room.isJudged(a.key)).toBe(false)
    show(again.room, a, 60)
    show(again.room, a, 60)
    await train(again.room)
    expect(again.room.isJudged(a.key)).toBe(true)
  })

  it('cannot be rolled back to, and the one in force stays', async () => {
    const { room, folder, a } = await watched(true)
    garble(modelFiles(folder, room)[1], 4000)
    const before = verdictOn(room, 1, 80).model
    await expect(room.rollback(a.key)).rejects.toThrow(/its SHA-256 does not match/)
    expect(verdictOn(room, 1, 80).model).toBe(before)
    expect((await gateway(folder, {}, [a])).room.owners()[0].model).toBe(before)
  })
})

it('a watched device that never had a model is learned, and not judged meanwhile', async () => {
  const { room } = await gateway()
  const a = device(1)
  a.state = 'watching'
  expect(room.isJudged(a.key)).toBe(false)
  show(room, a, 120)
  await train(room)
  expect(room.isJudged(a.key)).toBe(true)
  a.state = 'paused'
  const b = device(2)
  b.state = 'paused'
  show(room, b, 120)
  expect(room.scopeReport(b.key)).toMatchObject({ rows: 0 })
})

describe('a device of few flows', () => {
  /** Of 15 a day. */
  const EVERY = 96
  const quiet = { devices: { ...DEFAULT_DEVICES, approve: 'auto' }, budget: null } as const
  const days = (a: Device, count: number): number => START + count * 15 * EVERY * MINUTE - a.flows
  const pass = async (room: ModelManager, a: Device, count: number): Promise<void> => {
    room.advance(days(a, count))
    await train(room)
  }

  it('is judged after two days with what its flows can promise, whatever that is', async () => {
    const { room } = await gateway(temporaryFolder(), quiet)
    const a = device(1)
    show(room, a, 29, 0, EVERY)
    await train(room)
    expect(isTrained(room, a.key)).toBe(false)
    expect(room.isProven(a.key)).toBe(false)
    await pass(room, a, 2.1)
    expect(isTrained(room, a.key)).toBe(true)
    expect(room.isProven(a.key)).toBe(true)
    const told = room.scopeReport(a.key)!
    expect(told).toMatchObject({ modelRows: 29, keepsPromise: false, proving: { state: 'open', novel: 0 } })
    expect(verdictOn(room, 1, 80)).toMatchObject({ rule: 'score', novel: false })
    expect(verdictOn(room, 1, 1080).novel).toBe(true)
    // a row in fifteen of them was kept for the threshold
    expect(alarmsText(a, told)).toBe('about 1 false alarm a day')
  })

  it('has its promise tightened as flows come, by those alone that its model finds normal', async () => {
    const { room } = await gateway(temporaryFolder(), quiet)
    const a = device(1)
    show(room, a, 30, 0, EVERY)
    await pass(room, a, 2.1)
    a.state = 'watching'
    const first = room.scopeReport(a.key)!
    show(room, a, 10, 0, EVERY)
    // an attack of an hour is learnt by one flow of it, at most
    const before = room.scopeReport(a.key)!.rows
    for (let i = 0; i < 60; i++) {
      show(room, a, 1, 3000, EVERY)
      a.flows--
    }
    expect(room.scopeReport(a.key)!.rows).toBeLessThanOrEqual(before + 1)
    for (let i = 0; i < 40; i++) {
      show(room, a, 5, 0, EVERY)
      await train(room)
    }
    const later = room.scopeReport(a.key)!
    expect(later.modelRows).toBeGreaterThanOrEqual(190)
    expect(later.falseAlarmShare).toBeLessThan(first.falseAlarmShare! / 4)
    expect(alarmsText(a, later)).toMatch(/^about 1 false alarm in \d+ days$/)
    expect(verdictOn(room, 1, 3080).novel).toBe(true)
    expect(verdictOn(room, 1, 80).novel).toBe(false)
    // then it is as good as was asked for, proves that, and learns no more
    show(room, a, 201, 0, EVERY)
    expect(room.report().owners).toMatchObject({ learning: 0, withModel: 1 })
  })

  /** A watched device that still collects rows, as saved. */
  async function tightening() {
    const first = await gateway(temporaryFolder(), quiet)
    const a = device(1)
    show(first.room, a, 30, 0, EVERY)
    await pass(first.room, a, 2.1)
    a.state = 'watching'
    show(first.room, a, 5, 0, EVERY)
    await first.room.save()
    return { first, a }
  }

  it('continues tightening after a restart', async () => {
    const { first, a } = await tightening()
    const second = await gateway(first.folder, quiet, [a])
    expect(second.room.scopeReport(a.key)).toMatchObject({ rows: 35, modelRows: 30 })
    show(second.room, a, 10, 0, EVERY)
    await train(second.room)
    expect(second.room.scopeReport(a.key)?.modelRows).toBeGreaterThanOrEqual(45)
  })

  it('is watched where the table of devices is lost while it tightens', async () => {
    const { first, a } = await tightening()
    expect(existsSync(join(first.folder, 'models', `device-${a.key.replaceAll(':', '-')}.rows`))).toBe(true)
    const store = new ModelStore(nodeFileSystem, first.folder, (owner) => scopeFileName('device', owner))
    const found = await devicesOfModels(store, first.log)
    expect(found).toMatchObject([{ key: a.key, state: 'watching' }])
    const second = await gateway(first.folder, quiet, found)
    expect(second.room.scopeReport(a.key)).toMatchObject({ rows: 35, modelRows: 30 })
    expect(verdictOn(second.room, 1, 3080).novel).toBe(true)
  })

  it('is watched without a model where its flows are too few for one, and gets it when they are enough', async () => {
    const { room } = await gateway(temporaryFolder(), quiet)
    const a = device(1)
    show(room, a, 4, 0, 5 * EVERY)
    await pass(room, a, 3)
    expect(isTrained(room, a.key)).toBe(false)
    expect(room.isProven(a.key)).toBe(true)
    a.state = 'watching'
    show(room, a, 6, 0, 5 * EVERY)
    await train(room)
    expect(room.scopeReport(a.key)).toMatchObject({ state: 'trained', modelRows: 10 })
  })

  it('is judged where its rows have not settled, and where no model can be made of them', async () => {
    const unsettled = await gateway(temporaryFolder(), quiet)
    const a = device(1)
    show(unsettled.room, a, 20, 0, EVERY)
    show(unsettled.room, a, 10, 600, EVERY)
    await pass(unsettled.room, a, 2.1)
    expect(unsettled.room.isProven(a.key)).toBe(true)
    expect(unsettled.room.report().trainings).toMatchObject({ accepted: 1, unsettled: 0 })
    const train = async (): Promise<never> => {
      throw new DataError('all rows are equal')
    }
    const failing = await gateway(temporaryFolder(), { ...quiet, train })
    const b = device(2)
    show(failing.room, b, 30, 0, EVERY)
    await pass(failing.room, b, 2.1)
    expect(isTrained(failing.room, b.key)).toBe(false)
    expect(failing.room.isProven(b.key)).toBe(true)
    expect(failing.room.isJudged(b.key)).toBe(false)
  })

  it('is not called judged where its training fails, and the reason stays while others are trained', async () => {
    let failing = true
    const { room } = await gateway(temporaryFolder(), {
      ...quiet,
      async train(job) {
        if (failing) throw new DataError('the training process ended (signal SIGKILL)')
        return trainRows(job)
      },
    })
    const a = device(1)
    show(room, a, 30, 0, EVERY)
    await pass(room, a, 2.1)
    a.state = 'watching'
    expect(room.isJudged(a.key)).toBe(false)
    expect(room.warnings()).toEqual([expect.stringMatching(/:01: no model was made: .*SIGKILL/)])
    failing = false
    const b = device(2)
    show(room, b, 30, 0, EVERY)
    await pass(room, b, 2.1)
    expect(isTrained(room, b.key)).toBe(true)
    expect(isTrained(room, a.key)).toBe(false)
    expect(room.warnings()).toEqual([expect.stringMatching(/:01: no model was made: .*SIGKILL/)])
    show(room, a, 35, 0, EVERY)
    await train(room)
    expect(room.isJudged(a.key)).toBe(true)
    expect(room.warnings()).toEqual([])
  })

  it('relearns from nothing on request while its promise is being tightened', async () => {
    const { room } = await gateway(temporaryFolder(), quiet)
    const a = device(1)
    show(room, a, 30, 0, EVERY)
    await pass(room, a, 2.1)
    a.state = 'watching'
    show(room, a, 5, 0, EVERY)
    learnAgain(a)
    show(room, a, 3, 600, EVERY)
    expect(room.scopeReport(a.key)).toMatchObject({ state: 'learning', rows: 3 })
    expect(room.isProven(a.key)).toBe(false)
  })

  it('keeps a proof in which one flow of any number was novel, and as large a share as was asked for', async () => {
    const { room } = await gateway(temporaryFolder(), { budget: onePercent })
    const a = device(1)
    show(room, a, 200)
    await train(room)
    show(room, a, 1, 3000)
    show(room, a, 199)
    const { proving } = room.scopeReport(a.key)!
    expect(proving?.novel).toBeGreaterThanOrEqual(1)
    expect(proving?.state).toBe(proving!.novel <= 2 ? 'kept' : 'broken')
  })
})

it('a promise is described in words, by the flows of the device so far', () => {
  const HOUR = 60 * MINUTE
  const told = (flows: number, hours: number, falseAlarmShare: number | null): string =>
    alarmsText({ flows, learningSinceMicros: 0, lastSeenMicros: hours * HOUR }, { falseAlarmShare })
  expect(told(30, 48, 1 / 31)).toBe('about 1 false alarm in 2 days')
  expect(told(100, 168, 1 / 101)).toBe('about 1 false alarm in 7 days')
  expect(told(560, 48, 1 / 280)).toBe('about 1 false alarm a day')
  expect(told(5600, 48, 1 / 280)).toBe('about 10 false alarms a day')
  expect(told(3, 0, 0.5)).toBe('about 36 false alarms a day')
  expect(told(30, 48, null)).toBe('')
  expect(told(0, 0, 0.5)).toBe('')
})

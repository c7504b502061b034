/** What `devices` and `models` print: of a running agent by its socket, of one that is not from its folder. */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRng } from '@oddflow/core'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { actOnDevices, listDevices } from '../../src/commands/devices.js'
import { listIncidents } from '../../src/commands/incidents.js'
import { listModels, rollbackModels } from '../../src/commands/models.js'
import { dashboardLink } from '../../src/commands/setup.js'
import { keyOf } from '../../src/commands/state-of.js'
import { DEFAULT_DEVICES } from '../../src/config/settings.js'
import { openControlSocket } from '../../src/devices/control-socket.js'
import { createDevice, type Device, toldOf } from '../../src/devices/device.js'
import { DeviceTable, writeKnownDevices } from '../../src/devices/device-table.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { ANSWERS, type Answer, answersFields } from '../../src/incidents/answer.js'
import { emptyIncident, INCIDENTS, type Incident } from '../../src/incidents/incident.js'
import { scopeFileName } from '../../src/models/model-scopes.js'
import { ModelStore } from '../../src/models/model-store.js'
import type { ScopeReport } from '../../src/models/progress.js'
import { trainRows } from '../../src/models/train.js'
import { controlAnswers } from '../../src/pipeline/open-devices.js'
import { run } from '../../src/run.js'
import { brokenProof } from '../support/broken-proof.js'
import { temporaryFolder } from '../support/folder.js'
import { iatSizeContract, wanderingRows } from '../support/rows.js'

const key = '02:00:00:00:00:01'
const now = 1_800_000_000_000_000
const broken: ScopeReport = {
  owner: key,
  model: '0123456789abcdef',
  ...brokenProof,
  flows: 1500,
  unsettledShare: 0.012,
}

let said = ''
let told = ''
beforeEach(() => {
  said = ''
  told = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    said += text
    return true
  })
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    told += text
    return true
  })
})
afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

const device = (changes: Partial<Device> = {}): Device => ({
  ...createDevice(key, '192.168.0.1', now),
  ...changes,
})

async function running(report: ScopeReport, work: (state: string) => Promise<void>): Promise<void> {
  const state = temporaryFolder()
  const socket = await openControlSocket(state)
  const table = new DeviceTable(DEFAULT_DEVICES, [device()])
  socket.serve({
    '/devices': async () => ({
      devices: [...table.all()].map((each) => ({ ...toldOf(each), model: report })),
    }),
    '/models': async () => ({ owners: [report] }),
  })
  try {
    await work(state)
  } finally {
    await socket.close()
  }
}

describe('the state folder', () => {
  it('is given by itself or by the configuration, and named where it is not there', async () => {
    await running(broken, async (state) => {
      const config = join(state, 'agent.yaml')
      // the rest may be given on the command line of the run
      writeFileSync(config, 'state: .\n')
      for (const options of [{ state }, { config }, { config: '/none', state }]) {
        said = ''
        await listDevices({ ...options, format: 'json' })
        expect(JSON.parse(said)).toMatchObject({ key, novelShare: null })
        said = ''
        await listModels({ ...options, format: 'json' })
        expect(JSON.parse(said)).toMatchObject({ owner: key })
      }
      await expect(dashboardLink({ config })).rejects.toThrow(/no agent with a dashboard is running/)
      writeFileSync(config, `interface: eth0\neve: eve.json\nmodel: m\n`)
      await expect(listDevices({ config, format: 'text' })).rejects.toThrow(/agent\.yaml: no state folder/)
    })
    await expect(listDevices({ format: 'text' })).rejects.toThrow(/--state is missing/)
  })

  it('leads to the dashboard, with the token', async () => {
    const state = temporaryFolder()
    const socket = await openControlSocket(state)
    const link = 'http://127.0.0.1:9477/#token=secret'
    socket.serve({ '/dashboard': async () => ({ link }) })
    await dashboardLink({ state })
    await socket.close()
    expect(said).toBe(`${link}\n`)
  })
})

describe('of a running agent', () => {
  it('devices list shows the state of a proof, and a broken one', () =>
    running(broken, async (state) => {
      await listDevices({ state, format: 'text' })
      expect(said).toContain(
        'false alarms up to 9.8 %; 398 of 896 flows unusual, more than promised; retraining; the last training (1000 rows) was refused: it flagged 36.5 % more of the later flows than promised',
      )
      expect(told).toBe('')
    }))

  it('devices list says how many flows an open proof needs', async () => {
    const proving = { state: 'open', flows: 12, needed: 200, novel: 1 } as const
    const report = { ...broken, proving, keepsPromise: false, refused: null }
    await running(report, (state) => listDevices({ state, format: 'text' }))
    expect(said).toContain(
      'false alarms up to 9.8 %, more than allowed; its test on later flows: 1 of 12 flows unusual so far, 200 flows needed',
    )
  })

  it('models list keeps apart the model in force and the training that was refused', () =>
    running(broken, async (state) => {
      await listModels({ state, format: 'text' })
      const [head = '', row = ''] = said.split('\n')
      const cellOf = (name: string): string => row.slice(head.indexOf(name)).split(/ {2,}/)[0]!.trim()
      expect(cellOf('of rows')).toBe('596')
      expect(cellOf('unsettled')).toBe('1.2 %')
      expect(cellOf('learning')).toBe('1000 rows, 20 needed')
      expect(cellOf('last training')).toBe('refused: 36.5 % of 1000 rows unsettled')
    }))
})

describe('of a state folder alone', () => {
  it('a folder that is not there is an error with its name, and is not made', async () => {
    const state = join(temporaryFolder(), 'typo')
    const works = [
      () => listDevices({ state, format: 'text' }),
      () => listModels({ state, format: 'json' }),
      () => actOnDevices('forget', [key], { state }),
      () => actOnDevices('approve', [], { state, ready: true }),
      () => rollbackModels([key], { state }),
    ]
    for (const work of works) {
      await expect(work()).rejects.toMatchObject({
        code: 'file.ENOENT',
        message: expect.stringContaining(`${state}: cannot read it: no such file or folder`),
      })
    }
    expect(said).toBe('')
  })

  it.each(['00-16-3e-00-00-01', '00-16-3E-00-00-01', '00:16:3E:00:00:01'])(
    '%s is a MAC address too',
    (given) => {
      expect(keyOf(given)).toBe('00:16:3e:00:00:01')
      expect(keyOf('living-room')).toBe('living-room')
    },
  )

  it('gives a device a name and a group, lists the group, and refuses control characters', async () => {
    const state = temporaryFolder()
    await writeKnownDevices(nodeFileSystem, state, [device(), device({ key: '00:00:00:00:00:09' })])
    await actOnDevices('name', [key], { state }, 'Camera in the hall')
    await actOnDevices('group', [key], { state }, 'cameras')
    expect(said).toBe(`${key}: is named "Camera in the hall"\n${key}: is in the group "cameras"\n`)
    said = ''
    await listDevices({ state, format: 'text', group: 'cameras' })
    expect(said.split('\n')).toHaveLength(3)
    expect(said).toMatch(/Camera in the hall +cameras/)
    await actOnDevices('name', [key], { state }, '\u001b[2J')
    expect(told).toContain('expected at most 63 printable characters')
    expect(process.exitCode).toBe(1)
  })

  it('lists the contacts of a device, of a running agent and of the folder', async () => {
    const usual = [{ peer: '192.0.2.0/24', service: 'tcp port 443', isIncoming: false, flows: 9 }]
    const state = temporaryFolder()
    await writeKnownDevices(nodeFileSystem, state, [device({ usual })])
    await listDevices({ state, format: 'json' })
    const socket = await openControlSocket(state)
    const table = new DeviceTable(DEFAULT_DEVICES, [device({ usual })])
    const watch = { table, word: async () => [], forecast: () => null } as never
    socket.serve(controlAnswers(watch, null, null, null))
    await listDevices({ state, format: 'json' })
    await socket.close()
    for (const line of said.trim().split('\n'))
      expect(JSON.parse(line)).toMatchObject({ key, contacts: ['192.0.2.0/24 (tcp port 443)'] })
    expect(said.trim().split('\n')).toHaveLength(2)
  })

  it('says how long a device was seen, in seconds, minutes and hours', async () => {
    const state = temporaryFolder()
    const seen = (seconds: number, last: string) =>
      device({ key: `02:00:00:00:00:0${last}`, lastSeenMicros: now + seconds * 1_000_000 })
    await writeKnownDevices(nodeFileSystem, state, [seen(0, '1'), seen(1200, '2'), seen(90_000, '3')])
    await listDevices({ state, format: 'text' })
    const [head = '', ...rows] = said.trim().split('\n')
    const at = head.indexOf('seen for')
    expect(rows.map((row) => row.slice(at).split(/ {2,}/)[0])).toEqual(['25 h', '20 min', '1 s'])
  })

  it('says what names a device, in the error without one and in the help', async () => {
    await expect(actOnDevices('pause', [], { state: temporaryFolder() })).rejects.toThrow(
      'devices pause: give the MAC address of a device; "oddflow-agent devices list" prints it',
    )
    await run(['node', 'oddflow-agent', 'devices', 'pause', '--help'])
    expect(said).toMatch(/devices +a device as the column/)
  })

  it('approve --ready says where none is ready', async () => {
    const state = temporaryFolder()
    await writeKnownDevices(nodeFileSystem, state, [device()])
    await actOnDevices('approve', [], { state, ready: true })
    expect(said).toBe('no device is ready\n')
    await writeKnownDevices(nodeFileSystem, state, [device({ state: 'ready' })])
    await actOnDevices('approve', [], { state, ready: true })
    expect(said).toBe(`no device is ready\n${key}: is watched\n`)
  })

  it('devices list shows saved models, and promises nothing for one without a finished proof', async () => {
    const state = temporaryFolder()
    await writeKnownDevices(nodeFileSystem, state, [device()])
    const store = new ModelStore(nodeFileSystem, state, (owner) => scopeFileName('device', owner))
    const { file, rows, unsettledShare } = trainRows({
      rows: wanderingRows(200, 5, createRng(1)),
      contract: iatSizeContract(3),
      onePacketRule: { flows: 0, services: [] },
      falsePositiveRate: 0.02,
      seed: 1,
      oddflowVersion: '0.0.0',
    })
    await store.write(
      {
        owner: key,
        sha256: createHash('sha256').update(file).digest('hex'),
        previous: null,
        source: 'trained',
        pinned: false,
        rows,
        unsettledShare,
        trainedAtMicros: now,
      },
      file,
    )
    const listed = async (): Promise<{ model: ScopeReport }> => {
      said = ''
      await listDevices({ state, format: 'json' })
      return JSON.parse(said)
    }
    expect((await listed()).model).toMatchObject({ state: 'trained', modelRows: 200, keepsPromise: null })
    // a watched device has rows too, of what it shows
    await store.writeRows(key, new Uint8Array(8))
    await writeKnownDevices(nodeFileSystem, state, [device({ state: 'watching' })])
    expect((await listed()).model.keepsPromise).toBe(true)
    said = ''
    await listModels({ state, format: 'json' })
    expect(JSON.parse(said)).toMatchObject({ owner: key, keepsPromise: true })
    await writeKnownDevices(nodeFileSystem, state, [device()])
    said = ''
    await listDevices({ state, format: 'text' })
    expect(said).toMatch(/false alarms up to (1\.\d|2) %, not proven/)
    expect(told).toBe('oddflow-agent: no agent is running here; showing the state that the last one saved\n')
  })
})

it('incidents list shows the answer that holds for each: its own, or one that mutes its device and kind', async () => {
  const state = temporaryFolder()
  const incident = (digit: string, changes: Partial<Incident>): Incident => {
    const id = digit.repeat(32)
    const times = { beginMicros: now, endMicros: now }
    return {
      ...emptyIncident({ id, key, device: { mac: key, address: '192.168.0.1' }, ...times }),
      state: 'open',
      summary: `incident ${digit}`,
      ...changes,
    }
  }
  const incidents = [
    incident('1', { state: 'over' }),
    incident('2', {}),
    incident('3', { state: 'over' }),
    incident('4', { kind: 'scan', state: 'over' }),
    incident('6', { kind: 'flood', state: 'over' }),
  ]
  const answered = (to: Incident, answer: Answer['answer'], endsMicros: number | null): Answer => ({
    ...{ incident: to.id, answer, device: key, kind: to.kind, summary: to.summary, beginMicros: now },
    ...{ atMicros: now, endsMicros, contacts: [], rows: [], models: [], changes: [] },
  })
  const ends = Date.parse('2096-01-01T00:00:00Z') * 1000
  const [first, , , scan, flood] = incidents as [Incident, Incident, Incident, Incident, Incident]
  const forgotten = incident('5', { beginMicros: now + 1 })
  const answers = [
    answered(first, 'snooze', ends),
    answered(scan, 'attack', null),
    { ...answered(flood, 'not-this-kind', null), kind: 'scan' as const },
    { ...answered(forgotten, 'normal', null), beginMicros: now + 1 },
  ]
  const of = `${key} (192.168.0.1)`
  await INCIDENTS.writeTwice(nodeFileSystem, state, { incidents })
  await ANSWERS.writeTwice(nodeFileSystem, state, answersFields(answers))
  await listIncidents({ state, format: 'text' })
  expect(said.split('\n').map((line) => line.trim().split(/ {2,}/).slice(5))).toEqual([
    ['device', 'answer', 'summary'],
    [of, 'snooze until 2096-01-01T00:00', 'incident 1'],
    [of, 'snooze until 2096-01-01T00:00 (given to 11111111)', 'incident 2'],
    [of, '-', 'incident 3'],
    [of, 'attack', 'incident 4'],
    [of, 'not-this-kind (of kind scan)', 'incident 6'],
    [key, 'normal', 'incident 5'],
    [],
  ])
})

describe('incidents answer', () => {
  it.each([
    [['maybe'], 'answer maybe: expected one of snooze, not-this-kind, attack, normal, none'],
    [['snooze', '--hours', '721'], '--hours: expected at most 720'],
    [['attack', '--hours', '8'], '--hours: only a snooze has an end'],
  ])('%j is a wrong command line', async (args, why) => {
    await run(['node', 'oddflow-agent', 'incidents', 'answer', '5f', ...args, '--state', temporaryFolder()])
    expect(process.exitCode).toBe(2)
    expect(told).toContain(why)
  })
})

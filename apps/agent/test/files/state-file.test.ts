import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import type { Notice } from '../../src/alerts/eve.js'
import { readTemporaryRules } from '../../src/alerts/suppress.js'
import { CALIBRATION } from '../../src/budget/calibration.js'
import { DEFAULT_DEVICES } from '../../src/config/settings.js'
import { createDevice, type Device } from '../../src/devices/device.js'
import { lookAtKnownDevices, readKnownDevices, writeKnownDevices } from '../../src/devices/device-table.js'
import { DeviceWatch } from '../../src/devices/device-watch.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import {
  checkVersion,
  createStateFaults,
  makeStateFolder,
  readStateOrSetAside,
  readTwice,
  writeState,
  writeStateTwice,
} from '../../src/files/state-file.js'
import type { Log } from '../../src/log.js'
import { ModelStore } from '../../src/models/model-store.js'
import { decodeRowReservoir } from '../../src/models/row-reservoir.js'
import { readCursor, readEnd } from '../../src/spool/segments.js'
import { openToken } from '../../src/web/sessions.js'
import { type Faults, faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { sampleRecord } from '../support/sample-record.js'

const store = (folder: string) => new ModelStore(nodeFileSystem, join(folder, '..'), (owner) => owner)
const readers: Record<string, (folder: string, log: Log) => Promise<unknown>> = {
  'suppressions.json': (folder, log) => readTemporaryRules(nodeFileSystem, folder, log),
  'dashboard-token.json': (folder, log) => openToken(nodeFileSystem, folder, log),
  'calibration.json': (folder, log) => CALIBRATION.read(nodeFileSystem, folder, log),
  'eve.place': (folder, log) => readCursor(nodeFileSystem, folder, 'eve', log),
  'end.mark': (folder, log) => readEnd(nodeFileSystem, folder, log),
  'device-a.json': (folder, log) => store(folder).readAll(log),
  'device-a.rows': (folder, log) =>
    store(folder).readRows(
      'device-a',
      (bytes) => decodeRowReservoir(bytes, { dimension: 5, capacity: 20, seed: 1 }),
      log,
    ),
}

/** As the folder of models is called. */
function newFolder(): string {
  const folder = join(temporaryFolder(), 'models')
  mkdirSync(folder)
  return folder
}

describe.each(Object.entries(readers))('a damaged %s', (name, read) => {
  it.each(['', '{"a":', '{a":1}', 'null', '[]', '7', '{"version":1}'])(
    'of %j is reported, renamed, and started empty',
    async (text) => {
      const folder = newFolder()
      const path = join(folder, name)
      writeFileSync(path, text)
      const log = keepingLog()
      await read(folder, log)
      expect(log.lines).toEqual([expect.stringContaining(path)])
      expect(readFileSync(`${path}.damaged`, 'utf8')).toBe(text)
    },
  )

  it('is neither told of nor made where there is none', async () => {
    const folder = newFolder()
    const log = keepingLog()
    await read(folder, log)
    expect(log.lines).toEqual([])
    expect(existsSync(join(folder, `${name}.damaged`))).toBe(false)
  })
})

describe('each step of writing a state file in turn', async () => {
  const write = async (path: string, faults: Faults): Promise<boolean> =>
    writeState(faultyFiles(faults), path, { is: 'new' }).then(
      () => true,
      () => false,
    )
  const counting = noFaults()
  await write(join(temporaryFolder(), 'a.json'), counting)

  it.each(counting.seen.map((kind, step) => [kind, step] as const))(
    '%s: it is the old one or the new one',
    async (kind, step) => {
      for (const isForGood of [false, true]) {
        const folder = temporaryFolder()
        const path = join(folder, 'a.json')
        await writeState(nodeFileSystem, path, { is: 'old' })
        const faults = noFaults()
        faults.fails = (at) => (isForGood ? at >= step : at === step)
        const isKept = await write(path, faults)
        const found = JSON.parse(readFileSync(path, 'utf8')).is
        expect(found).toBe(isKept || kind === 'syncFolder' ? 'new' : 'old')
        expect(isKept).toBe(kind === 'remove' && !isForGood)
        // a full disk has its space again, where it can be freed
        if (!isForGood) expect(readdirSync(folder)).toEqual(['a.json'])
        // what it left half done is no hindrance
        await writeState(nodeFileSystem, path, { is: 'next' })
        expect(JSON.parse(readFileSync(path, 'utf8')).is).toBe('next')
        expect(readdirSync(folder)).toEqual(['a.json'])
      }
    },
  )
})

it('what a kill has left of a model file goes with the next model of its device', async () => {
  const folder = newFolder()
  const left = ['device-a-0123456789abcdef.oddflow', 'device-a-fedcba9876543210.oddflow.new']
  for (const name of [...left, 'device-b-0123456789abcdef.oddflow']) writeFileSync(join(folder, name), 'half')
  const sha256 = 'e'.repeat(64)
  const record = { owner: 'device-a', sha256, previous: null, source: 'trained', pinned: false } as const
  const numbers = { rows: 1, unsettledShare: 0, trainedAtMicros: 1 }
  await store(folder).write({ ...record, ...numbers }, Uint8Array.of(1))
  expect(readdirSync(folder)).toEqual([
    `device-a-${sha256.slice(0, 16)}.oddflow`,
    'device-a.json',
    'device-a.json.copy',
    'device-b-0123456789abcdef.oddflow',
  ])
})

it('a token that was told is there after a restart, whichever step fails', async () => {
  for (let step = 0; step < 6; step++) {
    const folder = temporaryFolder()
    const faults = noFaults()
    faults.fails = (at) => at === step
    const told = await openToken(faultyFiles(faults), folder, keepingLog()).catch(() => null)
    const next = await openToken(nodeFileSystem, folder, keepingLog())
    if (told !== null) expect(next).toEqual(told)
  }
})

/** Each makes something of a path that is no whole file of its kind, or nothing. */
const damages: Record<string, (path: string) => void | Promise<void>> = {
  truncated: (path) => truncateSync(path, readFileSync(path).length >> 1),
  empty: (path) => truncateSync(path),
  newer(path) {
    const { crc32: _, ...value } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
    return writeState(nodeFileSystem, path, { ...value, version: 2 })
  },
  'a folder': (path) => {
    rmSync(path)
    mkdirSync(join(path, 'with'), { recursive: true })
  },
  'a pipe': (path) => {
    rmSync(path)
    execFileSync('mkfifo', [path])
  },
  'a link': (path) => {
    renameSync(path, `${path}.elsewhere`)
    symlinkSync(`${path}.elsewhere`, path)
  },
  gone: (path) => rmSync(path),
}

describe('a state file and its copy', () => {
  const value = { version: 1, text: 'kept', list: [0.1, -0, 1e21, null], of: { a: 'ü' } }
  const decode = (found: unknown): unknown => {
    checkVersion('test', 1, (found as { version?: unknown }).version)
    return found
  }
  const written = async (): Promise<string> => {
    const path = join(temporaryFolder(), 'a.json')
    await writeStateTwice(nodeFileSystem, path, value)
    return path
  }

  it('are found whole', async () => {
    expect(await readTwice(nodeFileSystem, await written(), decode)).toEqual({
      is: 'whole',
      value: { ...value, list: [0.1, 0, 1e21, null] },
    })
    expect(await readTwice(nodeFileSystem, join(temporaryFolder(), 'a.json'), decode)).toEqual({ is: 'none' })
  })

  it.each(Object.keys(damages))('of which the copy is %s: it is made again', async (damage) => {
    const path = await written()
    await damages[damage]!(`${path}.copy`)
    expect((await readTwice(nodeFileSystem, path, decode)).is).toBe('whole')
    expect(readFileSync(`${path}.copy`)).toEqual(readFileSync(path))
    expect(lstatSync(`${path}.copy`).isFile()).toBe(true)
  })

  it('any changed byte of the file is found, and the copy used', async () => {
    const path = await written()
    const bytes = readFileSync(path)
    for (let at = 0; at < bytes.length; at++) {
      for (const bit of [1, 128]) {
        const garbled = bytes.slice()
        garbled[at] ^= bit
        writeFileSync(path, garbled)
        const found = await readTwice(nodeFileSystem, path, decode)
        expect(found, `byte ${at}`).toMatchObject({ is: 'copy', reason: expect.stringContaining('CRC-32') })
        expect(readFileSync(`${path}.damaged`)).toEqual(garbled)
      }
    }
  })

  it('a foreign file of any size is no state', async () => {
    const path = await written()
    writeFileSync(path, '['.repeat(4_000_000))
    const parse = vi.spyOn(JSON, 'parse')
    expect(await readTwice(nodeFileSystem, path, decode)).toMatchObject({
      is: 'copy',
      reason: expect.stringContaining('no CRC-32 at its end'),
    })
    // of the copy alone
    expect(parse).toHaveBeenCalledTimes(1)
    parse.mockRestore()
  })

  it('is not read where it is longer than any of its kind', async () => {
    const path = await written()
    writeFileSync(path, '')
    truncateSync(path, 17_000_000)
    expect(await readTwice(nodeFileSystem, path, decode)).toMatchObject({
      is: 'copy',
      reason: expect.stringContaining('is longer than 16777216 bytes'),
    })
  })

  it.each(Object.keys(damages))(
    'of which the file is %s: the copy is used, and what stood there is kept',
    async (damage) => {
      const path = await written()
      await damages[damage]!(path)
      expect(await readTwice(nodeFileSystem, path, decode)).toMatchObject({
        is: 'copy',
        value: { text: 'kept' },
      })
      expect(await readTwice(nodeFileSystem, path, decode)).toMatchObject({ is: 'whole' })
      expect(damage === 'gone' || lstatSync(`${path}.damaged`) !== null).toBe(true)
    },
  )

  it.each(Object.keys(damages))('that are both %s are lost, or none', async (damage) => {
    const path = await written()
    for (const each of [path, `${path}.copy`]) await damages[damage]!(each)
    expect((await readTwice(nodeFileSystem, path, decode)).is).toBe(damage === 'gone' ? 'none' : 'lost')
    await writeStateTwice(nodeFileSystem, path, value)
    expect(await readTwice(nodeFileSystem, path, decode)).toMatchObject({ is: 'whole' })
  })

  it.each(Object.keys(damages))('are written where %s stands in the place of both', async (damage) => {
    const path = await written()
    for (const each of [path, `${path}.copy`]) await damages[damage]!(each)
    await writeStateTwice(nodeFileSystem, path, { ...value, text: 'new' })
    expect(await readTwice(nodeFileSystem, path, decode)).toMatchObject({
      is: 'whole',
      value: { text: 'new' },
    })
    if (damage === 'a link') expect(JSON.parse(readFileSync(`${path}.elsewhere`, 'utf8')).text).toBe('kept')
  })

  it('too many open files are no damage', async () => {
    const path = await written()
    const files = {
      ...nodeFileSystem,
      read: async () => {
        throw Object.assign(new Error('EMFILE'), { code: 'EMFILE' })
      },
    }
    await expect(readTwice(files, path, decode)).rejects.toThrow('too many open files')
    await expect(readStateOrSetAside(files, path, decode, keepingLog())).rejects.toThrow(
      'too many open files',
    )
    expect(existsSync(`${path}.damaged`)).toBe(false)
  })
})

describe('devices that an earlier run has kept', () => {
  const device = (n: number) => createDevice(`02:00:00:00:00:0${n}`, '192.0.2.1', 5)

  it.each(Object.keys(damages))(
    'come from the copy where devices.json is %s, and it is said once',
    async (damage) => {
      const folder = temporaryFolder()
      await writeKnownDevices(nodeFileSystem, folder, [{ ...device(1), state: 'watching' }, device(2)])
      await damages[damage]!(join(folder, 'devices.json'))
      const looking = keepingLog()
      expect((await lookAtKnownDevices(nodeFileSystem, folder, looking)).map(({ state }) => state)).toEqual([
        'watching',
        'learning',
      ])
      expect(looking.lines).toEqual([expect.stringContaining('this is its copy')])
      const log = keepingLog()
      const found = await readKnownDevices(nodeFileSystem, folder, log)
      expect(found).toMatchObject({ from: 'copy', devices: [{ state: 'watching' }, { state: 'learning' }] })
      expect(log.lines).toEqual([expect.stringMatching(/devices\.json: .*its copy of 2 devices is used/)])
      if (damage === 'newer')
        expect(log.lines[0]).toContain('expected 1, found 2, which a newer version writes')
    },
  )

  it.each(Object.keys(damages).filter((damage) => damage !== 'gone'))(
    'are lost where both are %s',
    async (damage) => {
      const folder = temporaryFolder()
      await writeKnownDevices(nodeFileSystem, folder, [device(1)])
      for (const name of ['devices.json', 'devices.json.copy']) await damages[damage]!(join(folder, name))
      await expect(lookAtKnownDevices(nodeFileSystem, folder, keepingLog())).rejects.toThrow(
        /restore a whole file/,
      )
      const log = keepingLog()
      expect(await readKnownDevices(nodeFileSystem, folder, log)).toEqual({ from: 'lost', devices: [] })
      expect(log.lines).toEqual([expect.stringContaining('those found from now on are watched')])
    },
  )
})

it('devices that are found where the table is lost are reported at once, watched, and written within a tick', async () => {
  const told: string[] = []
  let kept: Device[] = []
  const watch = new DeviceWatch({
    settings: DEFAULT_DEVICES,
    localNetworks: [],
    known: { from: 'lost', devices: [] },
    onNew: (_, rule) => told.push(rule),
    onReady: () => undefined,
    onFact: () => undefined,
    write: async (devices) => {
      kept = [...devices].map((each) => ({ ...each }))
    },
  })
  expect(watch.saveError()).toMatch(/damaged, and not written again yet/)
  const minute = 60_000_000
  expect(watch.verdict(sampleRecord(1, { startMicros: 0 }), true)).toBe(true)
  expect(watch.verdict(sampleRecord(2, { startMicros: 59 * minute }), true)).toBe(true)
  // later ones are new ones
  expect(watch.verdict(sampleRecord(3, { startMicros: 61 * minute }), true)).toBe(false)
  expect(told).toEqual(['new-device', 'new-device', 'new-device'])
  watch.tick()
  await expect.poll(() => kept.map(({ state }) => state)).toEqual(['watching', 'watching', 'learning'])
  expect(watch.saveError()).toBe(null)
})

it('a folder of the state folder that is a link or a file is set aside, and one of its own made', async () => {
  const elsewhere = temporaryFolder()
  const folder = temporaryFolder()
  symlinkSync(elsewhere, join(folder, 'models'))
  writeFileSync(join(folder, 'spool'), '')
  const log = keepingLog()
  for (const name of ['models', 'spool']) await makeStateFolder(nodeFileSystem, join(folder, name), log)
  expect(log.lines).toEqual([
    expect.stringContaining('models: is not a folder'),
    expect.stringContaining('spool: is not a folder'),
  ])
  expect(readdirSync(folder).sort()).toEqual(['models', 'models.damaged', 'spool', 'spool.damaged'])
  expect(lstatSync(join(folder, 'models')).isDirectory()).toBe(true)
  expect(readdirSync(elsewhere)).toEqual([])
})

it('damage is logged each time, told to the outputs when they are open, and of very much only a part', () => {
  const log = keepingLog()
  const faults = createStateFaults(log, () => 7)
  const told: Notice[] = []
  for (let n = 0; n < 20; n++) faults.warn(`file ${n}`)
  expect(told).toEqual([])
  faults.tellBy((notice) => told.push(notice))
  faults.warn('another')
  expect(log.lines).toHaveLength(21)
  expect(told).toHaveLength(17)
  expect(told[0]).toEqual({ rule: 'state-damaged', atMicros: 7, summary: 'file 0' })
  expect(told[16].summary).toBe('4 more files of the state folder are damaged; see the log')
  expect(faults.reasons()).toEqual(['21 files of the state folder were damaged; see the log'])
})

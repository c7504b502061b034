import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readTemporaryRules } from '../../src/alerts/temporary-suppressions.js'
import { readKeptCalibration } from '../../src/budget/alert-budget.js'
import { openToken } from '../../src/dashboard/token.js'
import { readKnownDevices } from '../../src/devices/device-watch.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { writeState } from '../../src/files/state-file.js'
import type { Log } from '../../src/log.js'
import { readEnd, readPlace } from '../../src/spool/place-file.js'
import { createModelStore } from '../../src/training/model-store.js'
import { decodeRowReservoir } from '../../src/training/row-reservoir.js'
import { type Faults, faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'

const store = (folder: string) => createModelStore(nodeFileSystem, join(folder, '..'), (owner) => owner)
const readers: Record<string, (folder: string, log: Log) => Promise<unknown>> = {
  'devices.json': (folder, log) => readKnownDevices(nodeFileSystem, folder, log),
  'suppressions.json': (folder, log) => readTemporaryRules(nodeFileSystem, folder, log),
  'dashboard-token.json': (folder, log) => openToken(nodeFileSystem, folder, log),
  'calibration.json': (folder, log) => readKeptCalibration(nodeFileSystem, folder, 'a'.repeat(16), log),
  'eve.place': (folder, log) => readPlace(nodeFileSystem, folder, 'eve', log),
  'end.mark': (folder, log) => readEnd(nodeFileSystem, folder, log),
  'device-a.json': (folder, log) => store(folder).readAll(log.warn),
  'device-a.rows': (folder, log) =>
    store(folder).readRows(
      'device-a',
      (bytes) => decodeRowReservoir(bytes, { dimension: 5, capacity: 20, seed: 1 }),
      log.warn,
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
    'of %j is told of, kept aside, and begun anew',
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
    writeState(faultyFiles(faults), path, 'new').then(
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
        await writeState(nodeFileSystem, path, 'old')
        const faults = noFaults()
        faults.fails = (at) => (isForGood ? at >= step : at === step)
        const isKept = await write(path, faults)
        const found = JSON.parse(readFileSync(path, 'utf8'))
        expect(found).toBe(isKept || kind === 'syncFolder' ? 'new' : 'old')
        expect(isKept).toBe(kind === 'remove' && !isForGood)
        // what it left half done is no hindrance
        await writeState(nodeFileSystem, path, 'next')
        expect(JSON.parse(readFileSync(path, 'utf8'))).toBe('next')
        expect(readdirSync(folder)).toEqual(['a.json'])
      }
    },
  )
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

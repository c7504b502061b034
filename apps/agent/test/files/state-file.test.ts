import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readTemporaryRules } from '../../src/alerts/temporary-suppressions.js'
import { readKeptCalibration } from '../../src/budget/alert-budget.js'
import { openToken } from '../../src/dashboard/token.js'
import { readKnownDevices } from '../../src/devices/device-watch.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import type { Log } from '../../src/log.js'
import { readEnd, readPlace } from '../../src/spool/place-file.js'
import { createModelStore } from '../../src/training/model-store.js'
import { decodeRowReservoir } from '../../src/training/row-reservoir.js'
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

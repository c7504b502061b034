import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readTemporaryRules } from '../../src/alerts/temporary-suppressions.js'
import { readKeptCalibration } from '../../src/budget/alert-budget.js'
import { openToken } from '../../src/dashboard/token.js'
import { readKnownDevices } from '../../src/devices/device-watch.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import type { Log } from '../../src/log.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'

const readers: Record<string, (folder: string, log: Log) => Promise<unknown>> = {
  'devices.json': (folder, log) => readKnownDevices(nodeFileSystem, folder, log),
  'suppressions.json': (folder, log) => readTemporaryRules(nodeFileSystem, folder, log),
  'dashboard-token.json': (folder, log) => openToken(nodeFileSystem, folder, log),
  'calibration.json': (folder, log) => readKeptCalibration(nodeFileSystem, folder, 'a'.repeat(16), log),
}

describe.each(Object.entries(readers))('a damaged %s', (name, read) => {
  it.each(['', '{"a":', '{a":1}', 'null', '[]', '7', '{"version":1}'])(
    'of %j is told of, kept aside, and begun anew',
    async (text) => {
      const folder = temporaryFolder()
      const path = join(folder, name)
      writeFileSync(path, text)
      const log = keepingLog()
      await read(folder, log)
      expect(log.lines).toEqual([expect.stringContaining(path)])
      expect(readFileSync(`${path}.damaged`, 'utf8')).toBe(text)
    },
  )

  it('is neither told of nor made where there is none', async () => {
    const folder = temporaryFolder()
    const log = keepingLog()
    await read(folder, log)
    expect(log.lines).toEqual([])
    expect(existsSync(join(folder, `${name}.damaged`))).toBe(false)
  })
})

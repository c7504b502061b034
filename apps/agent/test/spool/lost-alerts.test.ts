/** Alerts that were not written: refused ones are logged in series, pending ones are counted as lost at the end. */
import { expect, it } from 'vitest'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { createRefusals, openSpool } from '../../src/spool/spool.js'
import { faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolders } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'
import { keepingLog } from '../support/keeping-log.js'

const newFolder = temporaryFolders()
const line = (name: string): Uint8Array => new TextEncoder().encode(name)

it.each(['write', 'sync', 'create', 'syncFolder'])(
  'a disk that fails for good at %s: every alert is acknowledged, lost or refused, and no lost one comes back',
  async (kind) => {
    for (let after = 0; after < 6; after++) {
      const folder = newFolder()
      const faults = noFaults()
      const { lines: told, ...log } = keepingLog()
      const options = { folder, clock: hastyClock, log, maximumBytes: 1 << 20, maximumPendingBytes: 1000 }
      const spool = await openSpool({ ...options, files: faultyFiles(faults) })
      await spool.reader('eve')
      let ofKind = 0
      faults.fails = (_, found) => found === kind && ofKind++ >= after
      let taken = 0
      for (let i = 0; i < 80; i++) {
        if (spool.append(line(`alert ${i}`.padEnd(40, '.')))) taken++
        if (i < 20) await hastyClock.sleep(1)
      }
      const refused = 80 - taken
      await spool.close()
      expect(spool).toMatchObject({ acknowledged: taken - spool.lost, refused, pending: 0, pendingBytes: 0 })
      expect(told.filter((each) => each.includes('refused'))).toHaveLength(refused > 0 ? 2 : 0)
      if (refused > 0) expect(told.join('\n')).toContain(`${refused} alerts were refused`)

      const again = await openSpool({ ...options, files: nodeFileSystem })
      const reader = await again.reader('eve')
      expect(reader.backlog, `${kind} after ${after}`).toBe(spool.acknowledged)
      await again.close()
    }
  },
)

it('a disk that fails for a moment as the log is closed loses nothing', async () => {
  const faults = noFaults()
  const spool = await openSpool({
    folder: newFolder(),
    clock: hastyClock,
    log: keepingLog(),
    files: faultyFiles(faults),
    maximumBytes: 1 << 20,
    maximumPendingBytes: 1000,
  })
  const failing = faults.steps
  faults.fails = (step) => step === failing
  for (let i = 0; i < 9; i++) spool.append(line(`alert ${i}`))
  await hastyClock.sleep(20)
  await spool.close()
  expect(spool).toMatchObject({ acknowledged: 9, lost: 0, refused: 0 })
})

it('refusals are logged once per series, however they alternate with accepted alerts', () => {
  const { lines, ...log } = keepingLog()
  let now = 0
  const refusals = createRefusals('state', () => now, log)
  for (let i = 0; i < 1000; i++) {
    refusals.refuse()
    refusals.accept()
    now += 9
  }
  expect(lines).toEqual([
    'state: alerts arrive faster than they are written, and memory is full; some are refused',
  ])
  now += 9990
  refusals.accept()
  expect(lines).toHaveLength(1)
  now += 10
  refusals.accept()
  refusals.accept()
  expect(lines.slice(1)).toEqual(['state: 1000 alerts were refused'])
  refusals.refuse()
  refusals.end()
  refusals.end()
  expect(lines.slice(2)).toEqual([lines[0], 'state: an alert was refused'])
  expect(refusals.count).toBe(1001)
})

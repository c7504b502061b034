/**
 * Appends numbered alerts to a spool as fast as it can and delivers them to an EVE file, until it is killed.
 *
 *   node spool-worker.mjs FOLDER FIRST      FIRST: the first number; the next ones follow
 *
 * Prints the numbers that are acknowledged, from … to, as lines, written at once: what is printed is promised.
 */
import { writeSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { nodeFileSystem } from '../../../apps/agent/build/files/file-system.js'
import { systemClock } from '../../../apps/agent/build/input/clocks.js'
import { startDelivery } from '../../../apps/agent/build/outputs/delivery.js'
import { openEveFile } from '../../../apps/agent/build/outputs/eve-file.js'
import { openSpool } from '../../../apps/agent/build/spool/spool.js'

const [folder, first] = process.argv.slice(2)
let number = Number(first)
let acknowledged = number
const started = process.cpuUsage()
const log = await openSpool({
  files: nodeFileSystem,
  clock: systemClock,
  log: { warn: (line) => process.stderr.write(`${line}\n`) },
  folder,
  // as by default: lives that are killed before they deliver anything fill a small one, and its oldest go
  maximumBytes: 67_108_864,
  maximumPendingBytes: 65_536,
  onAcknowledged(from, to) {
    writeSync(1, `${acknowledged} ${acknowledged + to - from}\n`)
    acknowledged += to - from
  },
})
const output = await openEveFile(nodeFileSystem, join(folder, 'eve.json'))
await startDelivery({ log, output, clock: systemClock })
const { user, system } = process.cpuUsage(started)
writeSync(1, `ready ${Math.round((user + system) / 1000)}\n`)
for (;;) {
  for (let i = 0; i < 3; i++) {
    const line = Buffer.from(
      JSON.stringify({ timestamp: '', oddflow: { id: '' }, number, text: 'x'.repeat(number % 700) }),
    )
    if (log.append(line)) number++
  }
  await systemClock.sleep(number % 3)
}

/**
 * Gateways without packets, many in one process: the agent's own spool, delivery and output `nats`, an incident now and then,
 * and a status each minute. Started by gateways.mjs with its settings as JSON. An id is in the file `truth` as soon as the
 * spool has its event; SIGUSR2 ends the incidents, SIGTERM the process when all are delivered.
 */
import { randomBytes } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
// @boundaries-ignore the bench plays gateways with the agent's own code
import { nodeFileSystem } from '../../agent/build/files/file-system.js'
// @boundaries-ignore the bench plays gateways with the agent's own code
import { emptyIncident, encodeIncidentEvent } from '../../agent/build/incidents/incident.js'
// @boundaries-ignore the bench plays gateways with the agent's own code
import { systemClock } from '../../agent/build/input/clocks.js'
// @boundaries-ignore the bench plays gateways with the agent's own code
import { startDelivery } from '../../agent/build/outputs/delivery.js'
// @boundaries-ignore the bench plays gateways with the agent's own code
import { createNats } from '../../agent/build/outputs/nats.js'
// @boundaries-ignore the bench plays gateways with the agent's own code
import { openSpool } from '../../agent/build/spool/spool.js'

const { names, url, folder, seeds, caFile, everyMillis, truth } = JSON.parse(process.argv[2])
const quiet = { warn() {}, info() {} }
const kinds = ['upload', 'scan', 'password-guessing', 'flood', 'new-device', 'unusual-flows']
let isMaking = true
process.on('SIGUSR2', () => {
  isMaking = false
})

const gateways = []
for (const [i, name] of names.entries()) {
  const waiting = []
  const log = await openSpool({
    files: nodeFileSystem,
    clock: systemClock,
    folder: join(folder, name),
    maximumBytes: 64 * 2 ** 20,
    maximumPendingBytes: 2 ** 20,
    log: quiet,
    onAcknowledged: (first, end) =>
      appendFileSync(
        truth,
        waiting
          .splice(0, end - first)
          .map((id) => `${id}\n`)
          .join(''),
      ),
  })
  const counters = {
    captured: 1e6,
    processed: 1e6,
    dropped: 0,
    flows: 1e5,
    novel: 100,
    events: 100,
    waiting: 0,
    lost: 0,
  }
  const device = (n) => ({
    ...{ key: `02:00:5e:00:00:${n}`, name: `device-${n}`, state: 'watching', incidentsToday: 1 },
    lastIncident: 'device-10 (192.168.1.10): 40 unusual flows with 203.0.113.7, 12 MB sent',
  })
  const status = async () => ({
    ...{ format: 1, at: new Date().toISOString(), version: '0.0.0', model: null, isWell: true, reasons: [] },
    ...{ residentBytes: 9e7, counters, openIncidents: { low: 1, medium: 0, high: 0 } },
    ...{ deviceCounts: { watching: 20 }, devices: Array.from({ length: 20 }, (_, n) => device(n + 10)) },
  })
  const environment = {
    version: '0.0.0',
    hostname: name,
    alertFile: 'eve.json',
    clock: systemClock,
    log: quiet,
    status,
  }
  const output = await createNats(
    { kind: 'nats', name: 'fleet', url, gateway: name, seedFile: join(seeds, `${name}.seed`), caFile },
    environment,
  )
  gateways.push({ log, delivery: await startDelivery({ log, output, clock: systemClock }) })
  const make = () => {
    if (!isMaking) return
    const id = randomBytes(16).toString('hex')
    const micros = Date.now() * 1000
    const incident = {
      ...emptyIncident({
        ...{ id, key: '02:00:5e:00:00:10', beginMicros: micros - 60_000_000, endMicros: micros },
        device: { mac: '02:00:5e:00:00:10', address: '192.168.1.10', name: 'device-10' },
      }),
      ...{
        state: 'open',
        kind: kinds[i % kinds.length],
        level: 'medium',
        evidence: 10,
        totalEvidence: 10,
        flows: 40,
      },
      summary: 'device-10 (192.168.1.10): 40 unusual flows with 203.0.113.7, 12 MB sent',
      contacts: [{ peer: '203.0.113.7', service: 'tcp/443', alerts: 40 }],
      reasons: ['bytes sent: 12 MB, normally 20 kB'],
    }
    const line = encodeIncidentEvent(incident, 'opened', null)
    waiting.push(JSON.parse(new TextDecoder().decode(line)).oddflow.id)
    if (!log.append(line)) waiting.pop()
  }
  // spread evenly
  setTimeout(() => setInterval(make, everyMillis), (everyMillis * i) / names.length)
}
process.send?.('ready')

process.once('SIGTERM', async () => {
  isMaking = false
  await Promise.all(gateways.map(({ delivery }) => delivery.drained(AbortSignal.timeout(400_000))))
  const backlog = gateways.reduce((sum, { delivery }) => sum + delivery.backlog, 0)
  await Promise.all(gateways.map(({ delivery }) => delivery.stop()))
  await Promise.all(gateways.map(({ log }) => log.close()))
  process.exit(backlog === 0 ? 0 : 1)
})

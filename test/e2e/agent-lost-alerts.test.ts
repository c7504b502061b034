/**
 * What a run says of alerts when a disk or an output fails: nothing is lost while what it waits for works, and what
 * is lost is counted and said to be.
 */
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Settings } from '../../apps/agent/src/config/settings.js'
import { settingsFrom } from '../../apps/agent/src/config/settings-from.js'
import { type FileSystem, nodeFileSystem } from '../../apps/agent/src/files/file-system.js'
import { createSystemClock } from '../../apps/agent/src/input/clocks.js'
import { type AgentResult, runAgent } from '../../apps/agent/src/pipeline/run-agent.js'
import { faultyFiles, noFaults } from '../../apps/agent/test/support/faulty-files.js'
import { keepingLog } from '../../apps/agent/test/support/keeping-log.js'
import { expectSums } from './support/agent.js'
import { synFlood } from './support/captures.js'
import { temporaryFolder, trainLabModel } from './support/oddflow.js'

/** More than the memory for alerts holds; the ceiling is for the process of this test too. */
const FLOWS = 10_000
const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
const flood = join(folder, 'flood.pcap')
/** Gives up and tries again sooner. */
const clock = createSystemClock(0.1)

beforeAll(async () => {
  await trainLabModel(model)
  writeFileSync(flood, synFlood(FLOWS))
})

async function run(
  name: string,
  state: boolean,
  more: Partial<Settings>,
  files: FileSystem = nodeFileSystem,
): Promise<AgentResult & { told: string }> {
  const { lines, ...log } = keepingLog()
  const given = settingsFrom(
    { read: flood, model, eve: join(folder, `${name}.json`), fold: false, once: true, memoryLimit: '512M' },
    null,
  )
  const settings = { ...given, state: state ? join(folder, name) : null, ...more }
  const result = await runAgent(settings, {
    files,
    clock,
    log,
    stop: new AbortController().signal,
    readAgain: null,
    onReopen: () => undefined,
  })
  const { alerts } = result.counters
  expectSums(result.counters)
  for (const output of Object.keys(alerts.delivered)) {
    const { [output]: delivered } = alerts.delivered
    expect(delivered! + alerts.dropped[output]! + alerts.waiting[output]!, output).toBe(alerts.accepted)
  }
  return { ...result, told: lines.join('\n') }
}

/** A port at which nobody listens. */
async function closedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** A webhook that gets every event. */
const EVENTS = {
  kind: 'webhook',
  headers: {},
} as const

describe('an output that is down', () => {
  it.each([true, false])('takes no alert from one that works (state folder: %s)', async (state) => {
    const url = `http://127.0.0.1:${await closedPort()}/`
    const { counters, lost, undelivered, told } = await run(`webhook-${state}`, state, {
      outputs: [{ ...EVENTS, name: 'hub', url }],
    })
    const { accepted, refused, delivered, dropped, waiting } = counters.alerts
    expect({ accepted, refused, lost }).toEqual({ accepted: FLOWS, refused: 0, lost: 0 })
    expect(delivered).toEqual({ eve: FLOWS, hub: 0 })
    expect(dropped.eve).toBe(0)
    if (state) expect(dropped.hub).toBe(0)
    expect(undelivered).toEqual([{ target: url, alerts: waiting.hub }])
    expect(told).not.toMatch(/refused;|were refused/)
  })
})

describe('a state disk that is slow', () => {
  it('is waited for where a file is read: no alert is refused, however many flows end at once', async () => {
    const refusedFlood = join(folder, 'refused.pcap')
    writeFileSync(refusedFlood, synFlood(FLOWS, true))
    const files: FileSystem = {
      ...nodeFileSystem,
      async open(path, mode) {
        const file = await nodeFileSystem.open(path, mode)
        return { ...file, sync: () => pause(2) }
      },
    }
    const input = { kind: 'recorded', path: refusedFlood, filter: null } as const
    const { counters, lost, told } = await run('slow', true, { input }, files)
    const { given, accepted, refused, delivered } = counters.alerts
    expect(given).toBeGreaterThan(FLOWS * 0.9)
    expect({ accepted, refused, lost, delivered }).toEqual({
      accepted: given,
      refused: 0,
      lost: 0,
      delivered: { eve: given },
    })
    expect(told).not.toContain('refused')
  })
})

describe('a state disk that is full', () => {
  /** The disk of the alert file fails as well where `alsoAlerts`. */
  const fullDisk = (alsoAlerts: boolean): FileSystem => {
    const faults = noFaults()
    const failing = faultyFiles(faults)
    let writes = 0
    faults.fails = (_, kind) => (kind === 'write' || kind === 'create') && writes++ > 20
    return {
      ...nodeFileSystem,
      open: (path, mode) =>
        (!alsoAlerts && path.endsWith('.json') ? nodeFileSystem : failing).open(path, mode),
    }
  }

  it('takes no alert from a file on another disk, and is told of', async () => {
    const url = `http://127.0.0.1:${await closedPort()}/`
    const outputs = [{ ...EVENTS, name: 'hub', url }]
    const { counters, lost, told } = await run('full', true, { outputs }, fullDisk(false))
    const { accepted, refused, delivered, dropped, given } = counters.alerts
    expect({ accepted, refused }).toEqual({ accepted: given, refused: 0 })
    expect(delivered).toEqual({ eve: given, hub: 0 })
    expect(dropped.eve).toBe(0)
    // the webhook is away, and what has no room any more is counted as its loss
    expect(lost).toBeGreaterThan(0)
    expect(dropped.hub).toBeGreaterThanOrEqual(lost)
    expect(told).toMatch(/cannot be written and memory is full; outputs that are behind lose alerts/)
    expect(told).toMatch(/spool\/eve\.place: cannot write it: no space left/)
    expect(told).not.toMatch(/were refused|full\.json/)
  })

  it('loses what neither it nor an output took, and counts it', async () => {
    const { counters, lost, undelivered, told } = await run('both-full', true, {}, fullDisk(true))
    const { accepted, refused, delivered, dropped, given } = counters.alerts
    expect(refused).toBeGreaterThan(0)
    expect(lost).toBeGreaterThan(0)
    expect(accepted + refused).toBe(given)
    expect(delivered.eve! + dropped.eve! + undelivered[0]!.alerts).toBe(accepted)
    expect(told).toContain(`${refused} alerts were refused`)
  })
})

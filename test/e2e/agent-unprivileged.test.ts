/**
 * What the agent may do and does not: it runs as a user without a privilege, its recorder alone has the one that it
 * takes, and it speaks to nobody whom the configuration does not name. And what a person gets who gives flags alone.
 * In a network namespace with a route to everywhere, in which the kernel counts what goes out. Root only.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { agentMain, type Counters, expectSums, readEve } from './support/agent.js'
import { whyNoNamespace } from './support/network-namespace.js'
import { lab, runToEnd, temporaryFolder, trainLabModel } from './support/oddflow.js'

const worker = fileURLToPath(new URL('support/agent-unprivileged.mjs', import.meta.url))
const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
const reason = whyNoNamespace(['tcpdump', 'tcpreplay', 'setpriv', 'ss']) ?? whyNotAsNobody()

/** Why nobody's user cannot run the program from here, or a file cannot have a capability; null where both can be. */
function whyNotAsNobody(): string | null {
  chmodSync(folder, 0o755)
  const probe = join(folder, 'probe')
  try {
    execFileSync('cp', ['/bin/true', probe])
    execFileSync('setcap', ['cap_net_raw+eip', probe], { stdio: 'ignore' })
  } catch {
    return 'setcap is not installed, or this file system has no capabilities'
  }
  try {
    const identity = ['--reuid', '65534', '--regid', '65534', '--clear-groups']
    execFileSync('setpriv', [...identity, process.execPath, agentMain, '--version'], { stdio: 'ignore' })
  } catch {
    return 'the checkout cannot be read by a user without rights'
  }
  return null
}

interface Rights {
  name: string
  uid: string
  permitted: string
  effective: string
}

interface Run {
  sent: number
  code: number
  stdout: string
  stderr: string
  agent: Rights
  children: Rights[]
  listening: string
  files: string[]
  out: { packets: number; connections: number; datagrams: number }
}

const NONE = '0000000000000000'
/** CAP_NET_RAW (13). */
const RECORDERS = '0000000000002000'

beforeAll(async () => {
  if (reason !== null) return
  await trainLabModel(model)
  chmodSync(model, 0o644)
})

async function watch(name: string, ...options: string[]): Promise<Run & { eve: string; counters: Counters }> {
  const place = join(folder, name)
  mkdirSync(place, { recursive: true, mode: 0o755 })
  const args = [process.execPath, worker, lab('novel-scan.pcap').path, place, agentMain, ...options]
  const ran = await runToEnd('unshare', ['--net', ...args])
  expect(ran, ran.stderr).toMatchObject({ code: 0 })
  const told = JSON.parse(ran.stdout) as Run
  expect(told.stderr, told.stderr).toContain('{"captured"')
  const counters = JSON.parse(/\{"captured".*\}/.exec(told.stderr)?.[0] ?? '{}') as Counters
  return { ...told, eve: join(place, 'home/eve.json'), counters }
}

function expectUnprivileged({ agent, children }: Run): void {
  expect(agent).toMatchObject({ uid: '65534', permitted: NONE, effective: NONE })
  // beside it a shell, which ends it with the agent
  const guards = children.filter(({ name }) => name === 'sh')
  const recorders = children.filter(({ name }) => name === 'tcpdump')
  expect([recorders.length, guards.length, children.length]).toEqual([1, 1, 2])
  expect(guards[0]).toMatchObject({ uid: '65534', permitted: NONE, effective: NONE })
  expect(recorders[0]).toMatchObject({ uid: '65534' })
  // tcpdump may lay them down once the interface is open
  expect([RECORDERS, NONE]).toContain(recorders[0]?.effective)
}

describe('the agent as a user without privileges', () => {
  it('watches an interface by flags alone: alerts come, nothing else is written, opened or sent', async (context) => {
    if (reason !== null) context.skip(reason)
    const ran = await watch('flags', '--model', model, '--eve', 'eve.json')
    expectUnprivileged(ran)
    expect(ran.code).toBe(0)
    expectSums(ran.counters)
    expect(ran.counters).toMatchObject({ captured: ran.sent, dropped: 0 })
    expect(readEve(ran.eve).length).toBeGreaterThan(3)
    expect(ran.files).toEqual(['eve.json'])
    expect(ran.listening).toBe('')
    expect(ran.out).toEqual({ packets: 0, connections: 0, datagrams: 0 })
    expect(ran.stdout).toBe('')
  })

  it('speaks to nobody with all that needs no other machine, and to whom the configuration names', async (context) => {
    if (reason !== null) context.skip(reason)
    const config = (name: string, more: string): string => {
      const place = join(folder, name, 'agent.yaml')
      mkdirSync(join(folder, name), { recursive: true, mode: 0o755 })
      writeFileSync(
        place,
        `model: ${model}\neve: home/eve.json\nstate: home/state\nlisten: 127.0.0.1:0\ndashboard: {}\ndevices: { approve: auto, learnHours: 0, learnFlows: 1, stableShare: 1, inventoryMinutes: 0 }\nevidence: { directory: home/evidence }\nbudget: { falseAlertsPerDay: 1 }\n${more}`,
        { mode: 0o644 },
      )
      return place
    }
    const silent = await watch('silent', '-c', config('silent', ''))
    expectUnprivileged(silent)
    expectSums(silent.counters)
    expect(readEve(silent.eve).length).toBeGreaterThan(3)
    expect(silent.stderr).toMatch(/dashboard at http:\/\/127\.0\.0\.1:\d+\//)
    expect(silent.listening.split('\n')).toHaveLength(1)
    expect(silent.listening).toContain('127.0.0.1:')
    expect(silent.out).toEqual({ packets: 0, connections: 0, datagrams: 0 })

    const named = await watch(
      'named',
      '-c',
      config('named', 'outputs: [{ kind: webhook, url: "http://198.51.100.7:9/alerts" }]\n'),
    )
    expectUnprivileged(named)
    expect(named.out.connections).toBeGreaterThan(0)
    expect(readEve(named.eve).length).toBeGreaterThan(3)
  })
})

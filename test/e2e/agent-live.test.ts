/**
 * Live = file: a capture sent over a veth pair raises the alerts that `oddflow score` gives on what the agent's
 * recorder wrote, with equal scores; every packet is accounted for; and a recorder that is killed is started
 * again. The pair lives in a network namespace that ends with the test. Root only.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { agentMain, type Counters, expectSums, readEve } from './support/agent.js'
import { whyNoNamespace } from './support/network-namespace.js'
import { jsonLines, lab, runToEnd, succeeds, temporaryFolder, trainLabModel } from './support/oddflow.js'

const worker = fileURLToPath(new URL('support/agent-live.mjs', import.meta.url))
const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
const reason = whyNoNamespace(['tcpdump', 'tcpreplay'])

beforeAll(async () => {
  if (reason === null) await trainLabModel(model)
})

interface LiveRun {
  sent: number
  copy: string
  code: number
  stopMillis: number
  stdout: string
  stderr: string
}

async function live(
  name: string,
  environment: Record<string, string> = {},
): Promise<LiveRun & { eve: string; counters: Counters }> {
  const place = join(folder, name)
  mkdirSync(place)
  const eve = join(place, 'eve.json')
  const variables = Object.entries(environment).map(([key, value]) => `${key}=${value}`)
  const args = [...variables, process.execPath, worker, lab('novel-scan.pcap').path, place, agentMain]
  const options = [
    '--model',
    model,
    '--eve',
    eve,
    '--no-fold',
    '--state',
    join(place, 'state'),
    '--filter',
    'not ether proto 0x88cc',
  ]
  // before other work of the machine: an agent that gets no processor leaves flows out by its rule (docs/overload.md)
  const ran = await runToEnd('unshare', ['--net', 'nice', '-n', '-15', 'env', ...args, ...options])
  expect(ran, ran.stderr).toMatchObject({ code: 0 })
  const told = JSON.parse(ran.stdout) as LiveRun
  expect(told, told.stderr).toMatchObject({ code: 0 })
  return { ...told, eve, counters: JSON.parse(told.stdout) as Counters }
}

/** Novel flows of what the recorder wrote, as `oddflow score` has them. */
async function novelOf(copy: string): Promise<string[]> {
  const run = await succeeds(['score', model, copy, '--format', 'json'])
  return jsonLines<{
    novel: boolean
    source: string
    sourcePort: number
    destination: string
    destinationPort: number
    startMicros: number
    score: number
  }>(run)
    .filter(({ novel }) => novel)
    .map(
      (flow) =>
        `${flow.source} ${flow.sourcePort} ${flow.destination} ${flow.destinationPort} ${flow.startMicros} ${flow.score}`,
    )
    .sort()
}

const alertsOf = (eve: string): string[] =>
  readEve(eve)
    .map(
      ({ oddflow: { flow, score } }) =>
        `${flow.source} ${flow.sourcePort} ${flow.destination} ${flow.destinationPort} ${flow.startMicros} ${score}`,
    )
    .sort()

describe('an interface', () => {
  it('raises what the same packets raise from a file, and stops in time', async (context) => {
    if (reason !== null) context.skip(reason)
    const { sent, copy, eve, counters, stopMillis } = await live('plain')
    expectSums(counters)
    expect(counters).toMatchObject({ captured: sent, dropped: 0, processed: sent })
    const alerts = alertsOf(eve)
    expect(alerts.length).toBeGreaterThan(100)
    expect(alerts).toEqual(await novelOf(copy))
    expect(stopMillis).toBeLessThan(process.env.CI === undefined ? 6000 : 12_000)
  })

  it('loses nothing while the recorder waits for a processor: the kernel keeps what comes', async (context) => {
    if (reason !== null) context.skip(reason)
    const { sent, copy, eve, counters, stderr } = await live('stalled', { STALL_RECORDER: '1' })
    expectSums(counters)
    expect(sent).toBeGreaterThan(1500)
    expect(counters).toMatchObject({ captured: sent, droppedKernel: 0 })
    // what waited so long that the agent leaves flows out by its rule is no loss of the kernel's, and is said
    if (/overload entered: /.test(stderr)) return
    expect(counters).toMatchObject({ droppedAgent: 0, processed: sent })
    expect(alertsOf(eve)).toEqual(await novelOf(copy))
  })

  it('is recorded again when the recorder is killed, and says so', async (context) => {
    if (reason !== null) context.skip(reason)
    const { sent, copy, eve, counters, stderr } = await live('killed', { KILL_RECORDER: '1' })
    expect(stderr).toMatch(/interface take0: tcpdump ended \(signal SIGKILL\).*recording again in 1 s/)
    expectSums(counters)
    expect(counters).toMatchObject({ captured: sent, interruptions: 1 })
    expect(alertsOf(eve)).toEqual(await novelOf(copy))
  })
})

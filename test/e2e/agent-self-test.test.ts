/**
 * The agent watches itself: synthetic attacks through the model in force, the recorder's heartbeat, an overload; each told once to
 * every output, at /healthz and on the dashboard. The real agent with a recorder that is made up.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { nodeFileSystem } from '../../apps/agent/src/files/file-system.js'
import { createSystemClock } from '../../apps/agent/src/input/clocks.js'
import { scopeFileName } from '../../apps/agent/src/models/model-scopes.js'
import { ModelStore } from '../../apps/agent/src/models/model-store.js'
import { encodePcap, type PcapFrame } from '../../packages/capture/src/index.js'
import { createRng } from '../../packages/core/src/index.js'
import { decodeModelFile, encodeModelFile } from '../../packages/detectors/src/index.js'
import { agent, agentMain, agentOnce, type Counters, expectSums } from './support/agent.js'
import { udpFrame } from './support/captures.js'
import { madeInterface, onMadeInterface } from './support/made-interface.js'
import { whyNoNamespace } from './support/network-namespace.js'
import { runToEnd, temporaryFolder } from './support/oddflow.js'

const DEVICE = '02:00:00:00:00:02'
const running = new Set<ChildProcess>()
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
})

/** A device that has learnt and is watched: a flow of three packets a minute, as agent-learning-on.test.ts has them. */
async function trainedState(folder: string): Promise<void> {
  const frames: PcapFrame[] = []
  for (let minute = 0; minute < 1300; minute++) {
    const rng = createRng(minute)
    for (let packet = 0; packet < 3; packet++) {
      const bytes = udpFrame(20_000 + minute, 80 + 4 * rng.nextBelow(5))
      bytes.set([192, 168, 0, 1], 26)
      const timestampMicros =
        1_700_000_000_000_000 + 60_000_000 * minute + 1000 * packet * (10 + rng.nextBelow(3))
      frames.push({ timestampMicros, bytes })
    }
  }
  writeFileSync(join(folder, 'in.pcap'), encodePcap(frames))
  const counters = await agentOnce(['-c', join(folder, 'agent.yaml'), '--read', join(folder, 'in.pcap')])
  expect(counters.devices!.byState).toMatchObject({ watching: 1 })
}

const BASE = `eve: eve.json
state: state
models: { per: device, features: { idleSeconds: 10 }, rowsPerDevice: 200 }
devices: { learnHours: 1, learnFlows: 60, approve: auto }
`

/** Models that learn on; their rows are of a flow's first packets. */
const LEARNING_ON = `eve: eve.json
state: state
models:
  per: device
  features: { set: iat-size, packetsPerFlow: 3, cutSeconds: 10, idleSeconds: 10 }
  rowsPerDevice: 200
devices: { learnHours: 1, judgeHours: 7, learnFlows: 60, approve: auto }
budget: { falseAlertsPerDay: 14.5 }
learning: { online: true }
`

interface Notice {
  event_type: string
  alert: { signature: string }
  oddflow: { id: string; rule: string; summary: string; seconds?: number }
}

const noticesIn = (events: readonly Notice[], rule: string): string[] =>
  events.filter(({ oddflow }) => oddflow.rule === rule).map(({ oddflow }) => oddflow.summary)
const eventsOf = (folder: string): Notice[] =>
  readFileSync(join(folder, 'eve.json'), 'utf8')
    .trimEnd()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Notice)

/** The real agent on an interface that is made up; waiting takes `scale` of its time. */
async function watching(folder: string, scale: number) {
  const child = spawn(
    process.execPath,
    [agentMain, 'run', '--allow-root', '-c', join(folder, 'agent.yaml'), '--interface', 'made0', '--once'],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        ...madeInterface(folder),
        ODDFLOW_WAIT_SCALE: String(scale),
      },
    },
  )
  running.add(child)
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const said = (pattern: RegExp) => expect.poll(() => stderr, { timeout: 60_000 }).toMatch(pattern)
  await said(/metrics at http/)
  const address = /metrics at http:\/\/(.*)\/metrics/.exec(stderr)![1]!
  const health = async (): Promise<string> => {
    const answer = await fetch(`http://${address}/healthz`)
    return `${answer.status} ${await answer.text()}`
  }
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`http://${address}/metrics`)).text()
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.slice(name.length + 1),
    )
  }
  const healthIs = (pattern: RegExp) =>
    expect.poll(health, { timeout: 60_000, interval: 50 }).toMatch(pattern)
  const end = async (): Promise<Counters> => {
    const closed = new Promise((resolve) => child.once('close', resolve))
    child.kill('SIGTERM')
    await closed
    running.delete(child)
    const counters = JSON.parse(stdout) as Counters
    expectSums(counters)
    return counters
  }
  return { child, address, said, stderr: () => stderr, health, healthIs, metric, end }
}

/** Servers that take alerts by webhook and by syslog. */
async function receivers() {
  const hooked: Notice[] = []
  const logged: string[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      body += piece
    })
    request.on('end', () => {
      hooked.push(...(JSON.parse(body) as Notice[]))
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const socket = createSocket('udp4')
  socket.on('message', (message) => logged.push(message.toString()))
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  const outputs = `outputs:
  - { kind: webhook, url: 'http://127.0.0.1:${(server.address() as AddressInfo).port}/' }
  - { kind: syslog, host: 127.0.0.1, protocol: udp, port: ${socket.address().port} }
`
  const close = (): void => {
    server.closeAllConnections()
    server.close()
    socket.close()
  }
  return { hooked, logged, outputs, close }
}

describe('a model that is replaced by one that flags nothing', () => {
  it('is told once to each output, at /healthz and on the dashboard, and so is that it is well again', async () => {
    const folder = temporaryFolder()
    const { hooked, logged, outputs, close } = await receivers()
    writeFileSync(join(folder, 'agent.yaml'), BASE)
    await trainedState(folder)
    // the model in force at the start is the one before, but for a threshold that nothing is below
    const store = new ModelStore(nodeFileSystem, join(folder, 'state'), (owner) =>
      scopeFileName('device', owner),
    )
    const {
      models: [kept],
    } = await store.lookAtAll({ warn: (message) => expect.fail(message) })
    const bytes = await store.readFile(kept!.record)
    const saved = decodeModelFile(bytes)
    const blind = encodeModelFile({ ...saved, threshold: { ...saved.threshold, value: -1e300 } })
    const sha256 = createHash('sha256').update(blind).digest('hex')
    await store.write({ ...kept!.record, previous: null }, bytes)
    await store.write({ ...kept!.record, sha256, previous: kept!.record.sha256 }, blind)
    writeFileSync(join(folder, 'agent.yaml'), `${BASE}listen: 127.0.0.1:0\ndashboard: {}\n${outputs}`)
    rmSync(join(folder, 'eve.json'))

    const { address, health, healthIs, metric, end, stderr } = await watching(folder, 0.01)
    const rollback = () => agent(['models', 'rollback', DEVICE, '--state', join(folder, 'state')])
    const flagged = () => metric('oddflow_self_tests_total{result="flagged"}')
    // it starts with the one that flags nothing
    await healthIs(/^503 ill\nmodel [0-9a-f]{16} \(device 02:.*\) notices no synthetic attack of any kind/)
    expect(await metric('oddflow_degraded')).toBe(1)
    expect(await rollback()).toMatchObject({ code: 0 })
    await expect.poll(flagged, { timeout: 60_000 }).toBeGreaterThan(1)
    expect(await health()).toBe('200 well\n')
    expect(await metric('oddflow_degraded')).toBe(0)
    expect(await rollback()).toMatchObject({ code: 0 })
    await healthIs(
      /^503 ill\ndevice 02:00:00:00:00:02: model [0-9a-f]{16} notices no synthetic attack, though/,
    )
    const { token } = JSON.parse(readFileSync(join(folder, 'state/dashboard-token.json'), 'utf8')) as {
      token: string
    }
    const state = await fetch(`http://${address}/api/state`, {
      headers: { authorization: `Bearer ${token}` },
    })
    expect(await state.json()).toMatchObject({
      degraded: [expect.stringContaining('notices no synthetic attack')],
      alerts: expect.arrayContaining([
        expect.objectContaining({ oddflow: expect.objectContaining({ rule: 'degraded' }) }),
      ]),
    })
    // a round or two more: it is told no second time
    const missed = await metric('oddflow_self_tests_total{result="missed"}')
    await expect
      .poll(() => metric('oddflow_self_tests_total{result="missed"}'), { timeout: 60_000 })
      .toBeGreaterThan(missed + 1)
    expect(await rollback()).toMatchObject({ code: 0 })
    await healthIs(/^200 well/)
    const counters = await end()
    close()
    const events = eventsOf(folder)
    for (const told of [events, hooked]) {
      expect(noticesIn(told, 'degraded'), stderr()).toHaveLength(1)
      expect(noticesIn(told, 'recovered')).toEqual([expect.stringMatching(/^over after \d+ s: device 02:/)])
      expect(noticesIn(told, 'blind-model')).toHaveLength(1)
    }
    for (const rule of ['degraded', 'recovered'])
      expect(logged.filter((line) => line.includes(` ${rule} - {`))).toHaveLength(1)
    // nothing of the synthetic attacks is anywhere else
    expect(counters.alerts.told).toBe(3)
    const ofFlows = events.filter((event) => 'dest_ip' in event)
    for (const event of ofFlows) expect(event).toMatchObject({ src_ip: '192.168.0.1', dest_ip: '192.0.2.2' })
    expect(events).toHaveLength(3 + ofFlows.length)
    expect(counters).toMatchObject({ captured: counters.processed, dropped: 0 })
    expect(counters.devices).toMatchObject({ found: 0 })
    const models = readdirSync(join(folder, 'state/models')).filter((name) => name.endsWith('.oddflow'))
    expect(
      models
        .map((name) =>
          createHash('sha256')
            .update(readFileSync(join(folder, 'state/models', name)))
            .digest('hex'),
        )
        .sort(),
    ).toEqual([sha256, kept!.record.sha256].sort())
  }, 180_000)
})

describe('the recorder', () => {
  it('of an interface that is gone for good is told once to each output, and that it is back', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'agent.yaml'), `${BASE}listen: 127.0.0.1:0\n`)
    const { health, healthIs, metric, end } = await watching(folder, 0.1)
    await expect
      .poll(() => metric('oddflow_packets_total{fate="processed"}'), { timeout: 60_000 })
      .toBeGreaterThan(5)
    expect(await health()).toBe('200 well\n')
    writeFileSync(join(folder, 'gone'), '')
    await healthIs(
      /^503 ill\nnothing is recorded: interface made0: tcpdump ended \(exit code 1\) saying: .*No such device/,
    )
    rmSync(join(folder, 'gone'))
    await healthIs(/^200 well/)
    const counters = await end()
    const events = eventsOf(folder)
    expect(noticesIn(events, 'degraded')).toHaveLength(1)
    expect(noticesIn(events, 'recovered')).toHaveLength(1)
    expect(counters).toMatchObject({ captured: counters.processed, alerts: { told: 2 } })
  }, 120_000)

  // a model that learns on is tested as it is in force
  const configurations = { 'the default': BASE, 'learning: online': LEARNING_ON }
  for (const [name, configuration] of sampleOf(Object.entries(configurations), 0.5)) {
    it(`of a real interface (${name}): synthetic attacks are flagged, and that it is off or gone and its return are told`, async (context) => {
      const why = whyNoNamespace(['tcpdump'])
      if (why !== null) context.skip(why)
      const folder = temporaryFolder()
      writeFileSync(join(folder, 'agent.yaml'), configuration)
      await trainedState(folder)
      rmSync(join(folder, 'eve.json'))
      writeFileSync(join(folder, 'agent.yaml'), `${configuration}listen: 127.0.0.1:0\n`)
      const worker = fileURLToPath(new URL('support/agent-gone.mjs', import.meta.url))
      const ran = await runToEnd(
        'unshare',
        ['--net', '--mount', process.execPath, worker, agentMain, '-c', join(folder, 'agent.yaml')],
        { environment: { ODDFLOW_WAIT_SCALE: '0.1' } },
      )
      expect(ran, ran.stderr).toMatchObject({ code: 0 })
      const told = JSON.parse(ran.stdout) as Record<
        'before' | 'off' | 'gone' | 'after' | 'stdout' | 'stderr',
        string
      >
      expect(told, told.stderr).toMatchObject({
        before: '200 well\n',
        off: '503 ill\nnothing is recorded: interface take0 is down\n',
        on: '200 well\n',
        gone: expect.stringMatching(/^503 ill\nnothing is recorded: interface take0: tcpdump ended .*take0/),
        after: '200 well\n',
        flaggedBefore: expect.any(Number),
        flaggedAfter: expect.any(Number),
      })
      const counters = JSON.parse(told.stdout) as Counters
      expectSums(counters)
      expect(counters).toMatchObject({ captured: counters.processed, alerts: { told: 4, raised: 0 } })
      const events = eventsOf(folder)
      // beside the end of an incident that the training traffic began
      const rules = events.map(({ oddflow }) => oddflow.rule).filter((rule) => rule !== 'incident')
      expect(rules).toEqual(['degraded', 'recovered', 'degraded', 'recovered'])
    }, 180_000)
  }

  it('that hangs is told', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'agent.yaml'), `${BASE}listen: 127.0.0.1:0\n`)
    const { child, healthIs, metric, end } = await watching(folder, 0.1)
    await expect
      .poll(() => metric('oddflow_packets_total{fate="processed"}'), { timeout: 60_000 })
      .toBeGreaterThan(5)
    const pids = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
      .trim()
      .split(' ')
      .map(Number)
    const recorderPid = pids.find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('made0'))!
    process.kill(recorderPid, 'SIGSTOP')
    await healthIs(/^503 ill\ninterface made0: the recorder does not answer, and gives no packets/)
    process.kill(recorderPid, 'SIGCONT')
    await healthIs(/^200 well/)
    expect((await end()).alerts.told).toBe(2)
  }, 120_000)

  it('that gives nothing while it answers is told after ten minutes', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'agent.yaml'), `${BASE}listen: 127.0.0.1:0\n`)
    const { healthIs, metric, end } = await watching(folder, 0.005)
    await expect
      .poll(() => metric('oddflow_packets_total{fate="processed"}'), { timeout: 60_000 })
      .toBeGreaterThan(5)
    writeFileSync(join(folder, 'silent'), '')
    await healthIs(/^503 ill\nno packet for \d+ minutes/)
    rmSync(join(folder, 'silent'))
    await healthIs(/^200 well/)
    expect((await end()).alerts.told).toBe(2)
  }, 120_000)
})

describe('an agent that is stopped', () => {
  it('says so, and takes neither that nor what has come meanwhile for an overload or a silence', async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'agent.yaml'), `${BASE}listen: 127.0.0.1:0\n`)
    const { child, health, said, stderr, metric, end } = await watching(folder, 1)
    const processed = () => metric('oddflow_packets_total{fate="processed"}')
    await expect.poll(processed, { timeout: 60_000 }).toBeGreaterThan(5)
    const before = await processed()
    child.kill('SIGSTOP')
    await new Promise((resolve) => setTimeout(resolve, 15_000))
    child.kill('SIGCONT')
    await said(/the agent did not run for 1\d(\.\d)? s \(stopped, or without a processor\)/)
    await expect.poll(processed, { timeout: 60_000 }).toBeGreaterThan(before + 100)
    expect(await health()).toBe('200 well\n')
    expect(stderr()).not.toMatch(/overload|degraded|the clock was set/)
    const counters = await end()
    // one flow, which the time in which nobody read has not ended
    expect(counters).toMatchObject({ dropped: 0, overloads: 0, clockSteps: 0, flows: 1, alerts: { told: 0 } })
  }, 120_000)
})

describe('an overload', () => {
  it('is told to every output when it begins and when it ends, with counts', async () => {
    const folder = temporaryFolder()
    const { hooked, outputs, close } = await receivers()
    writeFileSync(join(folder, 'agent.yaml'), `${BASE}interface: made0\n${outputs}`)
    const before = { ...process.env }
    Object.assign(process.env, madeInterface(folder), { FLOW_PACKETS: '1' })
    try {
      const clock = createSystemClock()
      // memory of the test alone is above the ceiling from the start to the end
      const held = Buffer.alloc(160 * 1_048_576, 1)
      const { counters, told } = await onMadeInterface(folder, clock, '140M', async () => {
        await expect
          .poll(() => noticesIn(eventsOf(folder), 'overload-entered').length, { timeout: 60_000 })
          .toBe(1)
        await clock.sleep(2000)
      })
      expect(held.at(-1)).toBe(1)
      // a busy machine may also delay the packets, or the agent's own checks
      expect(counters, told).toMatchObject({ overloads: 1, alerts: { told: eventsOf(folder).length } })
      expect(counters.droppedAgent).toBeGreaterThan(0)
      expect(counters.captured).toBe(counters.processed + counters.dropped)
      for (const events of [eventsOf(folder), hooked]) {
        const [began, ended, ...more] = events.filter(({ oddflow }) => oddflow.rule.startsWith('overload'))
        expect(more).toEqual([])
        expect(began?.oddflow).toMatchObject({ rule: 'overload-entered', droppedKernel: 0, droppedAgent: 0 })
        expect(began?.oddflow.summary).toMatch(
          /^overload entered: (resident memory is \d+ % of its ceiling|packets wait for \d)/,
        )
        const { captured, droppedAgent } = counters
        expect(ended?.oddflow).toMatchObject({
          rule: 'overload-left',
          captured,
          droppedAgent,
          leftOut: droppedAgent,
        })
      }
    } finally {
      for (const name of ['MADE_RECORDER', 'FLOW_PACKETS']) delete process.env[name]
      process.env.PATH = before.PATH
      close()
    }
  }, 120_000)
})

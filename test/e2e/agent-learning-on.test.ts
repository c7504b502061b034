/** Learning on through the real agent: off unless asked for, bounded, told of, taken back to the byte, and not ended by kill -9. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../apps/agent/test/support/mosquitto.js'
import { encodePcap, type PcapFrame } from '../../packages/capture/src/index.js'
import { createRng } from '../../packages/core/src/index.js'
import { decodeModelFile } from '../../packages/detectors/src/index.js'
import { agent, agentMain, agentOnce, readEve } from './support/agent.js'
import { udpFrame } from './support/captures.js'
import { temporaryFolder } from './support/oddflow.js'

const START = 1_700_000_000_000_000
const MINUTE = 60_000_000
/** As many flows as learn, prove and are watched (docs/gateway-models.md): 198 rows, and as many again. */
const LEARNING = 600
const MORE = 700
/** Minutes after these, which are judged when a round has been learnt. */
const LATER = 30
const PCAP_HEADER_BYTES = 24
const ROWS_PER_HOUR = 20
const EVERY = 100
/** The sender in udpFrame. */
const DEVICE = '02:00:00:00:00:02'

/** A flow of three packets a minute, of the minutes from … to; `novel` says which of them are large. */
function flows(from: number, to: number, novel: (minute: number) => boolean = () => false): PcapFrame[] {
  const frames: PcapFrame[] = []
  for (let minute = from; minute < to; minute++) {
    const rng = createRng(minute)
    for (let packet = 0; packet < 3; packet++) {
      const size = novel(minute) ? 1200 : 80 + 4 * rng.nextBelow(5)
      const bytes = udpFrame(20_000 + minute, size)
      // a host of the local network, which is the device
      bytes.set([192, 168, 0, 1], 26)
      const timestampMicros = START + minute * MINUTE + 1000 * packet * (10 + rng.nextBelow(3))
      frames.push({ timestampMicros, bytes })
    }
  }
  return frames
}

interface ModelLine {
  owner: string
  state: string
  model: string
  previous: string | null
}

interface LearningCounters {
  rows: { learnt: number; heldBack: number; disregarded: number; refused: number; overBudget: number }
  rounds: { accepted: number; refused: number }
  shadow: Record<string, number>
}

const FIRST_PACKETS = '{ set: iat-size, packetsPerFlow: 3, cutSeconds: 10, idleSeconds: 10 }'
const WHOLE_FLOWS = '{ idleSeconds: 10 }'

function configure(folder: string, online: boolean, more = '', features = FIRST_PACKETS): string {
  const path = join(folder, online ? 'on.yaml' : 'off.yaml')
  const learning = online
    ? `learning: { online: true, rowsPerHour: ${ROWS_PER_HOUR}, everyRows: ${EVERY} }`
    : ''
  writeFileSync(
    path,
    `eve: eve.json
state: state
models: { per: device, features: ${features}, rowsPerDevice: 200 }
devices: { learnHours: 1, judgeHours: 7, learnFlows: 60, approve: auto }
budget: { falseAlertsPerDay: 14.5 }
${learning}
${more}
`,
  )
  return path
}

/** Runs over the flows of some minutes. */
async function watch(
  folder: string,
  online: boolean,
  frames: readonly PcapFrame[],
  features = FIRST_PACKETS,
): Promise<LearningCounters | null> {
  const file = join(folder, 'in.pcap')
  writeFileSync(file, encodePcap(frames))
  const counters = await agentOnce(['-c', configure(folder, online, '', features), '--read', file])
  expect(counters.devices!.byState).toMatchObject({ watching: 1 })
  return (counters as unknown as { models: { learning: LearningCounters | null } }).models.learning
}

async function modelOf(folder: string): Promise<ModelLine> {
  const run = await agent(['models', 'list', '--state', join(folder, 'state'), '--format', 'json'])
  expect(run.code, run.stderr).toBe(0)
  const lines = run.stdout.trimEnd().split('\n')
  expect(lines).toHaveLength(1)
  return JSON.parse(lines[0]!) as ModelLine
}

function modelFiles(folder: string): Map<string, Buffer> {
  const models = join(folder, 'state', 'models')
  const names = readdirSync(models).filter((name) => name.endsWith('.oddflow'))
  return new Map(
    names.map((name) => [/([0-9a-f]+)\.oddflow$/.exec(name)![1]!, readFileSync(join(models, name))]),
  )
}

const trained = (async () => {
  const folder = temporaryFolder()
  expect(await watch(folder, false, flows(0, LEARNING))).toBeNull()
  const { model, state } = await modelOf(folder)
  expect(state).toBe('trained')
  return { model, bytes: modelFiles(folder).get(model)! }
})()

it('models are of whole flows unless they learn on, and judge the flows that follow', async () => {
  const folder = temporaryFolder()
  expect(await watch(folder, false, flows(0, LEARNING + MORE), WHOLE_FLOWS)).toBeNull()
  const { model, state } = await modelOf(folder)
  expect(state).toBe('trained')
  const bytes = modelFiles(folder).get(model)!
  const { contract, detector, onePacketRule, threshold } = decodeModelFile(bytes)
  expect(contract).toMatchObject({ featureSet: 'flow-summary', idleTimeoutMicros: 10_000_000 })
  expect(onePacketRule).toBeNull()
  expect(detector.kind).toBe('ensemble')
  expect(threshold.calibration).toMatchObject({ method: 'held-out-inputs', inputs: 8, guaranteed: true })

  // and it says how rows are made, of which no model learns on
  writeFileSync(join(folder, 'given.oddflow'), bytes)
  const config = join(folder, 'given.yaml')
  writeFileSync(
    config,
    'read: in.pcap\neve: given.json\nstate: other\nmodel: given.oddflow\nmodels: {}\nlearning: { online: true }\n',
  )
  const refused = await agent(['run', '-c', config])
  expect(refused.code).toBe(2)
  expect(refused.stderr).toMatch(/given\.oddflow: .*models cannot learn online; remove learning/)
}, 120_000)

describe('learning on', () => {
  it('is off unless it is asked for: a model is as it was trained', async () => {
    const folder = temporaryFolder()
    expect(await watch(folder, false, flows(0, LEARNING + MORE))).toBeNull()
    const { owner, state, model } = await modelOf(folder)
    expect({ owner, state }).toEqual({ owner: DEVICE, state: 'trained' })
    expect(decodeModelFile(modelFiles(folder).get(model)!).learned).toBeUndefined()
  }, 120_000)

  it('takes so many rows an hour, changes the model, tells what the shadow said, and is taken back to the byte', async () => {
    const { model, bytes } = await trained
    const folder = temporaryFolder()
    const end = LEARNING + MORE
    const learning = (await watch(
      folder,
      true,
      flows(0, end, (minute) => minute >= end - 3),
    ))!
    const learnt = await modelOf(folder)
    expect(learnt).toMatchObject({ owner: DEVICE, state: 'learnt-on', previous: model })
    expect(learnt.model).not.toBe(model)
    const { rows, rounds, shadow } = learning
    expect(rounds.accepted).toBeGreaterThan(0)
    const taken = rows.learnt + rows.heldBack + rows.disregarded + rows.refused
    expect(rows.learnt).toBeGreaterThan(0)
    expect(taken).toBe(EVERY * (rounds.accepted + rounds.refused))
    // it is watched when 198 rows have made a model and as many have proved it, at the earliest
    const hours = Math.ceil((end - 396) / 60) + 1
    expect(taken).toBeLessThanOrEqual(ROWS_PER_HOUR * hours)
    // of three flows that come one is taken
    expect(rows.overBudget).toBeGreaterThan(1.5 * taken)
    expect(Object.values(shadow).reduce((sum, n) => sum + n, 0)).toBeGreaterThan(0)
    const alerts = readEve(join(folder, 'eve.json')).filter(({ oddflow }) => oddflow.rule === 'score')
    expect(alerts.length).toBeGreaterThan(0)
    const last = alerts.at(-1)!.oddflow
    expect(last).toMatchObject({ shadow: { novel: true, model } })
    expect(last.shadow!.score).toBeLessThan(last.shadow!.threshold)

    const back = await agent(['models', 'rollback', DEVICE, '--state', join(folder, 'state')])
    expect(back.code, back.stderr).toBe(0)
    expect(await modelOf(folder)).toMatchObject({ state: 'trained', model, previous: learnt.model })
    expect(modelFiles(folder).get(model)!.equals(bytes)).toBe(true)
    // and learns no more
    await watch(folder, true, flows(end, end + MORE))
    expect(await modelOf(folder)).toMatchObject({ state: 'trained', model })
    expect(modelFiles(folder).get(model)!.equals(bytes)).toBe(true)
  }, 180_000)

  it('goes on where it was after kill -9 in the middle, and metrics tell of it meanwhile', async () => {
    const folder = temporaryFolder()
    const port = await freePort()
    const config = configure(folder, true, `listen: 127.0.0.1:${port}`)
    const first = encodePcap(flows(0, LEARNING + MORE))
    const { child, closed } = start(config)
    child.stdin!.write(first)
    await expect
      .poll(() => metric(port, 'oddflow_online_rounds_total{result="accepted"}'), { timeout: 60_000 })
      .toBeGreaterThan(0)
    // all that was written may have been judged before that round ended: the shadow speaks of what comes after it
    child.stdin!.write(
      encodePcap(flows(LEARNING + MORE, LEARNING + MORE + LATER)).subarray(PCAP_HEADER_BYTES),
    )
    await expect
      .poll(() => metric(port, 'oddflow_shadow_verdicts_total{verdict="bothNormal"}'), { timeout: 60_000 })
      .toBeGreaterThan(0)
    expect(await metric(port, 'oddflow_online_rows_total{fate="learnt"}')).toBeGreaterThan(0)
    // a change of state is on disk within a second; what takes hours on a network took less than that here
    await expect
      .poll(() => readFileSync(join(folder, 'state', 'devices.json'), 'utf8'), { timeout: 20_000 })
      .toContain('"watching"')
    child.kill('SIGKILL')
    await closed
    const killed = await modelOf(folder)
    expect(killed).toMatchObject({ owner: DEVICE, state: 'learnt-on' })
    const next = LEARNING + MORE + LATER
    const learning = (await watch(folder, true, flows(next, next + MORE)))!
    expect(learning.rounds.accepted).toBeGreaterThan(0)
    const after = await modelOf(folder)
    expect(after).toMatchObject({ state: 'learnt-on', previous: killed.previous })
    expect(after.model).not.toBe(killed.model)
  }, 180_000)
})

/** An agent whose packets come by standard input, which stays open. */
function start(config: string): { child: ChildProcess; closed: Promise<unknown> } {
  const child = spawn(process.execPath, [agentMain, 'run', '--allow-root', '-c', config, '--read', '-'], {
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.stdin!.on('error', () => undefined)
  return { child, closed: once(child, 'close') }
}

/** NaN while there is none. */
async function metric(port: number, name: string): Promise<number> {
  const text = await fetch(`http://127.0.0.1:${port}/metrics`).then(
    (answer) => answer.text(),
    () => '',
  )
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  return line === undefined ? Number.NaN : Number(line.slice(name.length + 1))
}

/**
 * The state folder, each file of it damaged in each way, at the start and while the agent runs. The tables below are what the agent
 * does then (docs/results/faults.md); each row is run with the real program, `npm test` a seeded part of all.
 *
 * One rule: whatever is wrong with a file, the agent watches on. What stands in its place is moved to NAME.damaged, the log and
 * every output name it once, and a watched device stays watched.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { PEER_NAMES } from '../../apps/agent/src/devices/peer-names.js'
import { nodeFileSystem } from '../../apps/agent/src/files/file-system.js'
import { writeState } from '../../apps/agent/src/files/state-file.js'
import { ANSWERS } from '../../apps/agent/src/incidents/answer.js'
import { encodePcap, type PcapFrame } from '../../packages/capture/src/index.js'
import { createRng } from '../../packages/core/src/index.js'
import { agent, agentMain, type Counters, expectSums, readEve } from './support/agent.js'
import { udpFrame } from './support/captures.js'
import { type Run, runToEnd, temporaryFolder } from './support/oddflow.js'

const START = 1_700_000_000_000_000
const MINUTE = 60_000_000
/** The sender in udpFrame, which has a model and one before it; and one that learns. */
const WATCHED = '02:00:00:00:00:02'
const LEARNING = '02:00:00:00:00:03'
const NOBODY = 65_534
const isRoot = process.geteuid?.() === 0
vi.setConfig({ testTimeout: 60_000 })

const base = temporaryFolder()
const prepared = join(base, 'prepared')
const environment = { ODDFLOW_WAIT_SCALE: '0.05' }
let cases = 0
/** Those that a failed test has left. */
const children: ChildProcess[] = []

/** A flow of three packets a minute. */
function flows(from: number, to: number, mac = WATCHED, size = (_: number): number => 80): PcapFrame[] {
  const last = Number.parseInt(mac.slice(-2), 16)
  const frames: PcapFrame[] = []
  for (let minute = from; minute < to; minute++) {
    const rng = createRng(minute)
    for (let packet = 0; packet < 3; packet++) {
      const bytes = udpFrame(20_000 + minute, size(minute) + 4 * rng.nextBelow(5))
      bytes[11] = last
      // a host of the local network, which is the device
      bytes.set([192, 168, 0, last], 26)
      const timestampMicros = START + minute * MINUTE + 1000 * packet * (10 + rng.nextBelow(3))
      frames.push({ timestampMicros, bytes })
    }
  }
  return frames
}
const inOrder = (frames: PcapFrame[]): PcapFrame[] =>
  frames.sort((a, b) => a.timestampMicros - b.timestampMicros)

const CONFIG = `eve: eve.json
state: st
fold: false
listen: 127.0.0.1:0
dashboard: {}
peerNames: []
allowRoot: true
budget: { falseAlertsPerDay: 144 }
devices: { learnHours: 0.5, learnFlows: 60, stableShare: 0.2, approve: auto, inventoryMinutes: 0, vendors: false }
models: { per: device, rowsPerDevice: 200, features: { set: iat-size, packetsPerFlow: 3, cutSeconds: 10, idleSeconds: 10 } }
`

async function run(folder: string, capture: readonly PcapFrame[], asNobody = false): Promise<Run> {
  writeFileSync(join(folder, 'in.pcap'), encodePcap(capture))
  return agent(['run', '-c', join(folder, 'agent.yaml'), '--read', join(folder, 'in.pcap'), '--once'], {
    environment,
    asNobody,
  })
}

const NOVEL = 20
/** Half of them novel. */
const LAST = flows(520, 560, WATCHED, (minute) => (minute % 2 === 0 ? 1200 : 80))
/** Alerts of a run in which nothing is wrong: the novel ones, and false ones if there are any. */
let wholeAlerts = 0

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})
beforeAll(async () => {
  mkdirSync(prepared)
  writeFileSync(join(prepared, 'agent.yaml'), CONFIG)
  const first = await run(prepared, flows(0, 160))
  expect(first, first.stderr).toMatchObject({ code: 0 })
  const relearn = await agent(['devices', 'relearn', WATCHED, '--state', join(prepared, 'st')])
  expect(relearn, relearn.stderr).toMatchObject({ code: 0 })
  // else the model would only be proved again
  rmSync(join(prepared, 'st/models', `device-${WATCHED.replaceAll(':', '-')}.rows`), { force: true })
  const second = await run(prepared, flows(160, 400))
  expect(second, second.stderr).toMatchObject({ code: 0 })
  // a model that was made of one recording proves itself in the next
  const third = await run(prepared, inOrder([...flows(400, 500), ...flows(470, 500, LEARNING)]))
  expect(third, third.stderr).toMatchObject({ code: 0 })
  await writeState(nodeFileSystem, join(prepared, 'st/suppressions.json'), {
    rules: [{ name: 'temporary 0', port: 1, endsMicros: 4e15 }],
  })
  await ANSWERS.writeTwice(nodeFileSystem, join(prepared, 'st'), { answers: [] })
  await PEER_NAMES.write(nodeFileSystem, join(prepared, 'st'), { names: [] })
  rmSync(join(prepared, 'eve.json'))
  chmodSync(base, 0o755)
  const whole = newCase()
  expectEnded(await run(whole, LAST))
  wholeAlerts = heard(whole).scored
}, 300_000)

/** Files of the state folder, by what stands for them below. */
function pathOf(name: string, folder: string): string {
  const models = join(folder, 'st/models')
  const inModels = (pattern: RegExp): string[] =>
    existsSync(models) ? readdirSync(models).filter((each) => pattern.test(each)) : []
  const record = (): { sha256: string; previous: string } =>
    JSON.parse(readFileSync(join(models, inModels(/-02\.json$/)[0]!), 'utf8'))
  switch (name) {
    case 'the record of a model':
      return join(models, inModels(/-02\.json$/)[0]!)
    case 'the copy of a record':
      return join(models, inModels(/-02\.json\.copy$/)[0]!)
    case 'the model in force':
      return join(models, inModels(new RegExp(record().sha256.slice(0, 16)))[0]!)
    case 'the model before':
      return join(models, inModels(new RegExp(record().previous.slice(0, 16)))[0]!)
    case 'the rows of a learning device':
      return join(models, inModels(/-03\.rows$/)[0]!)
    case 'a spool segment':
      return join(
        folder,
        'st/spool',
        readdirSync(join(folder, 'st/spool'))
          .filter((each) => each.endsWith('.spool'))
          .at(-1)!,
      )
    default:
      return join(folder, 'st', name)
  }
}

/** Ways in which a file is damaged. */
const WAYS: Record<string, (path: string) => void | Promise<void>> = {
  truncated: (path) => truncateSync(path, readFileSync(path).length >> 1),
  garbled(path) {
    const bytes = readFileSync(path)
    bytes[bytes.length >> 1]! ^= 0x15
    bytes[(bytes.length >> 1) + 1]! ^= 0x2a
    writeFileSync(path, bytes)
  },
  empty: (path) => truncateSync(path),
  async newer(path) {
    if (!/\.(json|copy|place|mark)$/.test(path)) {
      // of a later format: its signature, or the length of its header, is another one
      const bytes = readFileSync(path)
      bytes[7]! += 1
      writeFileSync(path, bytes)
      return
    }
    const { crc32: _, ...value } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
    // at once: a running agent writes the same file
    const made = join(base, `newer-${cases}`)
    await writeState(nodeFileSystem, made, 'version' in value ? { ...value, version: 2 } : { later: value })
    writeFileSync(path, readFileSync(made))
  },
  'a folder'(path) {
    rmSync(path, { recursive: true })
    mkdirSync(join(path, 'in it'), { recursive: true })
  },
  'a pipe'(path) {
    rmSync(path, { recursive: true })
    execFileSync('mkfifo', [path])
  },
  'a link'(path) {
    const elsewhere = join(dirname(path), '..', `elsewhere-${cases}`)
    renameSync(path, elsewhere)
    symlinkSync(elsewhere, path)
  },
  unreadable: (path) => chmodSync(path, 0),
  'read-only': (path) => chmodSync(path, lstatSync(path).isDirectory() ? 0o500 : 0o400),
  gone: (path) => rmSync(path, { recursive: true }),
}
const BY_RIGHTS = ['unreadable', 'read-only']

/**
 * What a start does. `used`: in whose place what is wrong is set aside, and reported. `gone`: whether a file that is gone is reported too;
 * where not, it is as at a first start. `unjudged`: nothing judges the watched device until it has learnt again.
 */
interface Outcome {
  readonly used: string
  readonly gone: 'reported' | 'silent'
  /** Reported by the log and the outputs in these words. */
  readonly says: RegExp
  readonly unjudged?: true
  /** Ways by which nothing is lost, so that nothing is said. */
  readonly harmless?: readonly string[]
}

const AT_START: Record<string, Outcome> = {
  'devices.json': {
    used: 'its copy',
    gone: 'reported',
    says: /devices\.json: .*its copy of 2 devices is used/,
  },
  'devices.json.copy': {
    used: 'nothing: the file itself is whole',
    gone: 'silent',
    says: /^$/,
    harmless: ['all'],
  },
  'the record of a model': { used: 'its copy', gone: 'reported', says: /\.json: .*its copy is used/ },
  'the copy of a record': {
    used: 'nothing: the record itself is whole',
    gone: 'silent',
    says: /^$/,
    harmless: ['all'],
  },
  'the model in force': {
    used: 'the model before',
    gone: 'reported',
    says: /the model of 02:00:00:00:00:02 is damaged: .*; the previous model is active/,
  },
  'the model before': {
    used: 'nothing, until somebody rolls back',
    gone: 'silent',
    says: /^$/,
    harmless: ['all'],
  },
  'the rows of a learning device': {
    used: 'what it shows from now on',
    gone: 'silent',
    says: /\.rows: .*its contents are lost/,
  },
  'incidents.json': {
    used: 'its copy',
    gone: 'reported',
    says: /incidents\.json: .*its copy is used/,
  },
  'incidents.json.copy': {
    used: 'nothing: the file itself is whole',
    gone: 'silent',
    says: /^$/,
    harmless: ['all'],
  },
  'incident-rows.json': {
    used: 'nothing: an answer about flows of earlier incidents is refused',
    gone: 'silent',
    says: /incident-rows\.json: .*its contents are lost/,
  },
  'answers.json': {
    used: 'its copy',
    gone: 'reported',
    says: /answers\.json: .*its copy is used/,
  },
  'answers.json.copy': {
    used: 'nothing: the file itself is whole',
    gone: 'silent',
    says: /^$/,
    harmless: ['all'],
  },
  'peer-names.json': {
    used: 'no name of a peer',
    gone: 'silent',
    says: /peer-names\.json: .*its contents are lost/,
  },
  'suppressions.json': {
    used: 'no rule of suppression',
    gone: 'silent',
    says: /suppressions\.json: .*its contents are lost/,
  },
  'recent-alerts.json': {
    used: 'an empty list on the dashboard',
    gone: 'silent',
    says: /recent-alerts\.json: .*its contents are lost/,
  },
  'dashboard-token.json': {
    used: 'a new token: everybody signs in again',
    gone: 'silent',
    says: /dashboard-token\.json: .*its contents are lost/,
  },
  'spool/eve.place': {
    used: 'the oldest alert: what is left comes again, under the same ids',
    gone: 'silent',
    says: /eve\.place: .*its contents are lost/,
  },
  'spool/end.mark': {
    used: 'the numbers of the other files',
    gone: 'silent',
    says: /end\.mark: .*its contents are lost/,
  },
  // all of its alerts were delivered; what was not is missed by its number (apps/agent/test/spool)
  'a spool segment': {
    used: 'the other segments',
    gone: 'silent',
    says: /\.spool: /,
    harmless: ['truncated', 'garbled', 'empty', 'newer'],
  },
  models: {
    used: 'nothing: what is watched learns again',
    gone: 'reported',
    says: /models: (.*its contents are lost|is missing, with the models of one watched device\. Until new models are trained)/,
    unjudged: true,
  },
  spool: {
    used: 'nothing: alerts that were not delivered are lost',
    gone: 'silent',
    says: /spool: .*its contents are lost/,
  },
}
const FOLDERS = ['models', 'spool']
const whatIs = (name: string): readonly string[] =>
  FOLDERS.includes(name) ? ['a pipe', 'a link', 'unreadable', 'gone'] : Object.keys(WAYS)

function newCase(): string {
  const folder = join(base, `case-${cases++}`)
  cpSync(prepared, folder, { recursive: true })
  return folder
}

/** As the user nobody, whom rights keep out, and whose folder it then is. */
function giveToNobody(folder: string): void {
  const all = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))
  for (const each of [folder, ...all]) lchownSync(each, NOBODY, NOBODY)
}

/** Why a way cannot be tried here; null where it can. */
const cannotBeNobody = ((): string | null => {
  if (!isRoot) return null
  try {
    execFileSync(process.execPath, [agentMain, '--version'], { stdio: 'ignore', uid: NOBODY, gid: NOBODY })
    return null
  } catch {
    return 'the checkout cannot be read by a user without rights'
  }
})()

/** The alerts of the watched device by its score, and what the agent told of itself. */
function heard(folder: string): { scored: number; notices: string[]; degraded: string[] } {
  const events = readEve(join(folder, 'eve.json')) as {
    oddflow: { rule: string; summary: string; device?: { mac: string | null } }
  }[]
  const summaries = (rule: string): string[] =>
    events.filter(({ oddflow }) => oddflow.rule === rule).map(({ oddflow }) => oddflow.summary)
  return {
    scored: events.filter(({ oddflow }) => oddflow.rule === 'score' && oddflow.device?.mac === WATCHED)
      .length,
    notices: summaries('state-damaged'),
    degraded: summaries('degraded'),
  }
}

const states = async (folder: string, asNobody = false): Promise<Record<string, string>> => {
  const listed = await agent(['devices', 'list', '--state', join(folder, 'st'), '--format', 'json'], {
    asNobody,
  })
  expect(listed, listed.stderr).toMatchObject({ code: 0 })
  const devices = listed.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { key: string; state: string })
  return Object.fromEntries(devices.map(({ key, state }) => [key, state]))
}

function expectEnded(ended: Run): Counters {
  expect(ended, ended.stderr).toMatchObject({ code: 0 })
  expect(ended.stderr).not.toMatch(/bug in OddFlow|\n {4}at /)
  const counters = JSON.parse(ended.stdout) as Counters
  expectSums(counters)
  return counters
}

/** The program while it waits for more of its input. */
interface Running {
  /** Takes input, and waits until so many of its alerts are out. */
  delivers(input: Uint8Array, alerts: number): Promise<void>
  health(): Promise<{ status: number; text: string }>
  /** Takes the last of its input. */
  end(input: Uint8Array): Promise<Run>
}

function begin(folder: string, asNobody = false): Running {
  const child = spawn(
    process.execPath,
    [agentMain, 'run', '-c', join(folder, 'agent.yaml'), '--read', '-', '--once'],
    { env: { ...process.env, ...environment }, ...(asNobody ? { uid: NOBODY, gid: NOBODY } : {}) },
  )
  children.push(child)
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = new Promise<Run>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
  })
  const until = async (isSo: () => boolean): Promise<void> => {
    for (let i = 0; i < 600 && !isSo() && child.exitCode === null; i++) await pause(50)
    expect(isSo(), stderr).toBe(true)
  }
  const address = (): string | undefined => /metrics at (http:\/\/[\d.:]+)\//.exec(stderr)?.[1]
  return {
    async delivers(input, alerts) {
      child.stdin.write(input)
      // the last line may be half written
      const scored = (): number =>
        readFileSync(join(folder, 'eve.json'), 'utf8')
          .split('\n')
          .slice(0, -1)
          .filter((line) => line.includes('"rule":"score"')).length
      await until(() => existsSync(join(folder, 'eve.json')) && scored() >= alerts)
    },
    async health() {
      await until(() => address() !== undefined)
      const response = await fetch(`${address()}/healthz`)
      return { status: response.status, text: await response.text() }
    },
    end(input) {
      child.stdin.end(input)
      return ended
    },
  }
}

it('a whole state folder: the watched device is judged, and nothing is said', async () => {
  const folder = newCase()
  const ended = await run(folder, LAST)
  expectEnded(ended)
  expect(heard(folder)).toMatchObject({ scored: wholeAlerts, notices: [] })
  expect(wholeAlerts).toBeGreaterThanOrEqual(NOVEL)
  expect(wholeAlerts).toBeLessThan(1.5 * NOVEL)
  expect(ended.stderr).not.toMatch(/damaged|copy|lost/)
  expect(await states(folder)).toEqual({ [WATCHED]: 'watching', [LEARNING]: 'learning' })
})

const kills = sampleCount(100, 0.03)
it(
  `${kills} kills at random times leave each file whole, while devices, incidents and models are written`,
  async () => {
    const folder = newCase()
    const rng = createRng(20_261_129)
    for (let i = 0; i < kills; i++) {
      const child = begin(folder)
      await child.health()
      const [from, to] = [600 + 60 * i, 660 + 60 * i]
      const odd = (minute: number): number => (minute % 5 === 0 ? 1200 : 80)
      const ended = child.end(
        encodePcap(inOrder([...flows(from, to, WATCHED, odd), ...flows(from, to, LEARNING)])),
      )
      await pause(400 * rng.nextFloat())
      children.at(-1)?.kill('SIGKILL')
      expect((await ended).stderr).not.toMatch(/damaged|its copy|lost|bug in OddFlow/)
    }
    expectEnded(await run(folder, flows(600 + 60 * kills, 603 + 60 * kills)))
    expect(heard(folder).notices).toEqual([])
    expect(await states(folder)).toMatchObject({ [WATCHED]: 'watching' })
  },
  20_000 * kills,
)

const started = Object.keys(AT_START).flatMap((name) => whatIs(name).map((way) => [name, way] as const))

describe('at the start', () => {
  it.for(sampleOf(started, 0.03))('$0 that is $1', async ([name, way], context) => {
    const asNobody = isRoot && BY_RIGHTS.includes(way)
    if (asNobody && cannotBeNobody !== null) context.skip(cannotBeNobody)
    const folder = newCase()
    const path = pathOf(name, folder)
    await WAYS[way]!(path)
    if (asNobody) giveToNobody(folder)
    const { says, gone, unjudged, harmless = [] } = AT_START[name]!
    const isSilent =
      way === 'read-only' ||
      (way === 'gone' && gone === 'silent') ||
      harmless.includes('all') ||
      harmless.includes(way)
    const ended = await run(folder, LAST, asNobody)
    expectEnded(ended)
    const { scored, notices, degraded } = heard(folder)
    if (isSilent) expect(notices).toEqual([])
    else {
      expect(notices).toEqual([expect.stringMatching(says)])
      expect(ended.stderr).toMatch(says)
      if (way !== 'gone') expect(lstatSync(`${path}.damaged`)).toBeDefined()
    }
    // the model before has other false alarms; without its place an output gets what it had got before
    const isBefore = name === 'the model in force' && !isSilent
    const isAgain = name === 'spool/eve.place'
    // nothing judges it, which is said by itself
    expect(degraded.length).toBe(unjudged === true && !isSilent ? 1 : 0)
    for (const reason of degraded) expect(reason).toMatch(/^one watched device is not judged: no model/)
    if (unjudged) expect(scored).toBe(0)
    else if (isBefore || isAgain) expect(scored).toBeGreaterThanOrEqual(NOVEL)
    else expect(scored).toBe(wholeAlerts)
    expect(await states(folder, asNobody)).toEqual({ [WATCHED]: 'watching', [LEARNING]: 'learning' })
    // which nobody follows until somebody rolls back, and then neither
    if (way === 'a link' && name !== 'the model before')
      expect(lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false).toBe(false)

    // and well again: the next start has nothing to say
    if (asNobody) return
    rmSync(join(folder, 'eve.json'))
    expectEnded(await run(folder, flows(561, 563)))
    expect(heard(folder).notices).toEqual([])
  })
})

/** While it runs the agent holds what it needs, and writes it again. The alerts are the same, whatever becomes of the files. */
const WHILE_RUNNING = [
  'devices.json',
  'devices.json.copy',
  'the record of a model',
  'the model in force',
  'the rows of a learning device',
  'incidents.json',
  'incident-rows.json',
  'suppressions.json',
  'recent-alerts.json',
  'dashboard-token.json',
  'spool/eve.place',
  'a spool segment',
] as const
const running = WHILE_RUNNING.flatMap((name) => Object.keys(WAYS).map((way) => [name, way] as const))

describe('while it runs', () => {
  it.for(sampleOf(running, 0.025))('$0 becomes $1', async ([name, way], context) => {
    const asNobody = isRoot && BY_RIGHTS.includes(way)
    if (asNobody && cannotBeNobody !== null) context.skip(cannotBeNobody)
    const folder = newCase()
    if (asNobody) giveToNobody(folder)
    const child = begin(folder, asNobody)
    // half of its alerts, but for the flow that is still open
    await child.delivers(encodePcap(LAST.slice(0, 60)), wholeAlerts / 2 - 2)
    await WAYS[way]!(pathOf(name, folder))
    expectEnded(await child.end(encodePcap(LAST.slice(60)).subarray(24)))
    expect(heard(folder).scored).toBe(wholeAlerts)
    if (asNobody) return

    // a restart finds all that it needs
    rmSync(join(folder, 'eve.json'))
    expectEnded(await run(folder, flows(561, 563)))
    expect(await states(folder)).toEqual({ [WATCHED]: 'watching', [LEARNING]: 'learning' })
  })
})

describe('devices.json and its copy, both damaged', () => {
  it('disarm nothing: what has a model is watched, and what is found is reported and watched', async () => {
    const folder = newCase()
    for (const name of ['devices.json', 'devices.json.copy']) writeFileSync(join(folder, 'st', name), '{')
    const STRANGER = '02:00:00:00:00:09'
    const ended = await run(folder, inOrder([...LAST, ...flows(521, 523, STRANGER)]))
    expectEnded(ended)
    expect(heard(folder)).toMatchObject({
      scored: wholeAlerts,
      notices: [expect.stringMatching(/devices\.json: .*those found from now on are watched/)],
    })
    const announced = readEve(join(folder, 'eve.json')).filter(({ oddflow }) => oddflow.rule === 'new-device')
    expect(announced.map(({ oddflow }) => oddflow.device.mac)).toEqual([STRANGER])
    expect(await states(folder)).toEqual({ [WATCHED]: 'watching', [STRANGER]: 'watching' })
  })
})

describe('the state folder itself', () => {
  const refusals: readonly (readonly [way: string, make: (path: string) => unknown, says: RegExp])[] = [
    ['a file', (path) => writeFileSync(path, ''), /st: cannot write it: /],
    ['a pipe', (path) => execFileSync('mkfifo', [path]), /st: cannot write it: /],
    ['unreadable', (path) => mkdirSync(path, { mode: 0 }), /st.*: cannot (read|write) it: permission denied/],
    ['read-only', (path) => mkdirSync(path, { mode: 0o500 }), /st.*: cannot write it: permission denied/],
  ]
  it.for([...refusals])('that is $0 is refused in one line', async ([way, make, says], context) => {
    const asNobody = isRoot && BY_RIGHTS.includes(way)
    if (asNobody && cannotBeNobody !== null) context.skip(cannotBeNobody)
    const folder = newCase()
    rmSync(join(folder, 'st'), { recursive: true })
    make(join(folder, 'st'))
    if (asNobody) giveToNobody(folder)
    const ended = await run(folder, LAST, asNobody)
    expect(ended.code).toBe(1)
    expect(ended.stderr.split('\n').at(-2)).toMatch(says)
    expect(ended.stderr).not.toMatch(/bug in OddFlow/)
  })

  it('that is gone is made, and one that is a link is the folder it leads to, since a person gives its path', async () => {
    const folder = newCase()
    renameSync(join(folder, 'st'), join(folder, 'there'))
    symlinkSync('there', join(folder, 'st'))
    expectEnded(await run(folder, LAST))
    expect(heard(folder)).toMatchObject({ scored: wholeAlerts, notices: [] })
    rmSync(join(folder, 'st'))
    expectEnded(await run(folder, LAST))
    expect(existsSync(join(folder, 'st/devices.json'))).toBe(true)
  })
})

describe('while it runs, the whole state folder', () => {
  it.each(['removed', 'moved away'])(
    'is %s: alerts go on, and the agent is found where it was',
    async (way) => {
      const folder = newCase()
      const st = join(folder, 'st')
      const child = begin(folder)
      await child.delivers(encodePcap(LAST.slice(0, 60)), wholeAlerts / 2 - 2)
      // at once, while the agent writes into it
      renameSync(st, join(folder, 'elsewhere'))
      if (way === 'removed') rmSync(join(folder, 'elsewhere'), { recursive: true })
      await expect.poll(() => existsSync(join(st, 'devices.json')), { timeout: 10_000 }).toBe(true)
      const paused = await agent(['devices', 'pause', LEARNING, '--state', st])
      expect(paused, paused.stderr).toMatchObject({ code: 0 })
      // the folder has one agent
      const second = await agent([
        'run',
        '--read',
        '-',
        '-c',
        join(folder, 'agent.yaml'),
        '--eve',
        join(folder, 'x'),
      ])
      expect(second).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/another agent uses this folder/),
      })
      expectEnded(await child.end(encodePcap(LAST.slice(60)).subarray(24)))
      expect(heard(folder).scored).toBe(wholeAlerts)
      expect(await states(folder)).toEqual({ [WATCHED]: 'watching', [LEARNING]: 'paused' })
    },
  )
})

describe('a control socket', () => {
  it.each(sampleOf(['a file', 'a folder', 'a pipe', 'a link'], 0.5))(
    'in whose place is %s is made anew',
    async (way) => {
      const folder = newCase()
      const path = join(folder, 'st/control.sock')
      writeFileSync(path, '')
      if (way !== 'a file') await WAYS[way]!(path)
      expectEnded(await run(folder, LAST))
      expect(heard(folder)).toMatchObject({ scored: wholeAlerts, notices: [] })
    },
  )
})

describe('/healthz', () => {
  it('is 503 while a watched device has no model, devices list says so, and the outputs are told of it', async () => {
    const folder = newCase()
    for (const name of ['the model before', 'the model in force']) await WAYS.garbled!(pathOf(name, folder))
    const child = begin(folder)
    try {
      await expect.poll(async () => (await child.health()).status, { timeout: 20_000 }).toBe(503)
      expect((await child.health()).text).toMatch(
        /^ill\none watched device is not judged: no model, learning again/,
      )
      const listed = await agent(['devices', 'list', '--state', join(folder, 'st')])
      expect(listed.stdout).toMatch(/02:00:00:00:00:02.*NOT JUDGED; the model is damaged; retraining/)
    } finally {
      expectEnded(await child.end(encodePcap(flows(561, 563))))
    }
    const rules = readEve(join(folder, 'eve.json')).map(({ oddflow }) => oddflow.rule)
    expect(rules.filter((rule) => rule === 'state-damaged' || rule === 'degraded').sort()).toEqual([
      'degraded',
      'state-damaged',
    ])

    // not before it has learnt again: then it is judged, and that is told
    rmSync(join(folder, 'eve.json'))
    expectEnded(await run(folder, flows(564, 660)))
    expectEnded(
      await run(
        folder,
        flows(660, 668, WATCHED, (minute) => (minute % 2 === 0 ? 1200 : 80)),
      ),
    )
    expect(heard(folder).scored).toBeGreaterThanOrEqual(4)
  })

  it('is 503 where the folder of models is gone, and the outputs are told of it', async () => {
    const folder = newCase()
    await WAYS.gone!(pathOf('models', folder))
    const child = begin(folder)
    try {
      // said before the first packet, too
      await expect.poll(async () => (await child.health()).status, { timeout: 20_000 }).toBe(503)
      expect((await child.health()).text).toMatch(
        /^ill\none watched device is not judged: .*\none file of the state folder was damaged; see the log/,
      )
    } finally {
      expectEnded(await child.end(encodePcap(flows(561, 563))))
    }
    expect(heard(folder)).toEqual({
      scored: 0,
      notices: [expect.stringMatching(/models: is missing, with the models of one watched device/)],
      degraded: [expect.stringMatching(/^one watched device is not judged: no model/)],
    })
  })

  it('is 503 until damaged devices are written again, and names what was damaged from then on', async () => {
    const folder = newCase()
    writeFileSync(join(folder, 'st/devices.json'), '')
    // what is in the way of writing
    const obstacle = join(folder, 'st/devices.json.copy.new')
    mkdirSync(join(obstacle, 'in it'), { recursive: true })
    const child = begin(folder)
    try {
      const first = await child.health()
      expect(first).toMatchObject({
        status: 503,
        text: expect.stringMatching(/^ill\n(the devices in|devices cannot be kept in) the state folder/),
      })
      rmSync(obstacle, { recursive: true })
      await expect.poll(async () => (await child.health()).status, { timeout: 20_000 }).toBe(200)
      expect((await child.health()).text).toMatch(/^well\none file of the state folder was damaged/)
    } finally {
      expectEnded(await child.end(encodePcap(flows(561, 563))))
    }
  })
})

describe('commands in a damaged folder in which no agent runs', () => {
  const commands = [
    ['devices', 'list'],
    ['devices', 'pause', WATCHED],
    ['models', 'list'],
    ['models', 'rollback', WATCHED],
  ]
  it.for(sampleOf(started, 0.02))(
    '$0 that is $1: an answer or one line that says what to do',
    async ([name, way], context) => {
      const asNobody = isRoot && BY_RIGHTS.includes(way)
      if (asNobody && cannotBeNobody !== null) context.skip(cannotBeNobody)
      const folder = newCase()
      await WAYS[way]!(pathOf(name, folder))
      if (asNobody) giveToNobody(folder)
      for (const command of commands) {
        const isList = command[1] === 'list'
        const before = readdirSync(join(folder, 'st'))
        const said = await agent([...command, '--state', join(folder, 'st')], { asNobody })
        expect(said.stderr, command.join(' ')).not.toMatch(/bug in OddFlow|\n {4}at /)
        expect([0, 1]).toContain(said.code)
        // who only looks changes nothing, so that the next start finds what is damaged
        if (isList) expect(readdirSync(join(folder, 'st'))).toEqual(before)
        if (command[0] === 'devices') expect(said, said.stderr).toMatchObject({ code: 0 })
      }
    },
  )

  it('doctor names what is damaged', async () => {
    const folder = newCase()
    const findings = async (): Promise<string[]> => {
      const { stdout } = await agent([
        'doctor',
        '-c',
        join(folder, 'agent.yaml'),
        '--read',
        '-',
        '--format',
        'json',
      ])
      const all = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { what: string; detail: string })
      return all.filter(({ what }) => what === 'damage').map(({ detail }) => detail)
    }
    expect(await findings()).toEqual([])
    writeFileSync(join(folder, 'st/devices.json'), '{')
    await WAYS.garbled!(pathOf('the model in force', folder))
    expect(await findings()).toEqual([
      expect.stringMatching(/devices\.json: .*this is its copy/),
      expect.stringMatching(/the model of 02:00:00:00:00:02 is damaged: .*the previous model is active/),
    ])
    for (const name of ['devices.json', 'devices.json.copy']) writeFileSync(join(folder, 'st', name), '{')
    expect((await findings())[0]).toMatch(/restore a whole file, or start the agent/)
  })

  it('devices.json and its copy damaged: refused, and left for the next start', async () => {
    const folder = newCase()
    for (const name of ['devices.json', 'devices.json.copy']) writeFileSync(join(folder, 'st', name), '{')
    for (const command of [
      ['devices', 'list'],
      ['devices', 'pause', WATCHED],
    ]) {
      const said = await agent([...command, '--state', join(folder, 'st')])
      expect(said).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(
          /^[^\n]*devices\.json: .*restore a whole file, or start the agent[^\n]*\n$/,
        ),
      })
    }
    expect(readFileSync(join(folder, 'st/devices.json'), 'utf8')).toBe('{')
  })
})

describe('commands at the same time, and beside a starting agent', () => {
  it.each(['whole', 'damaged'])(
    'lose no word that was acknowledged (%s folder)',
    async (kind) => {
      const folder = newCase()
      if (kind === 'damaged') {
        writeFileSync(join(folder, 'st/devices.json'), '{')
        await WAYS.garbled!(pathOf('the model in force', folder))
      }
      const state = ['--state', join(folder, 'st')]
      writeFileSync(join(folder, 'in.pcap'), encodePcap(LAST))
      const words = [
        ['devices', 'pause', WATCHED],
        ['devices', 'approve', LEARNING],
      ]
      const others = [
        ['devices', 'list'],
        ['models', 'list'],
        ['models', 'rollback', WATCHED],
      ]
      const [watched, ...said] = await Promise.all([
        // which waits for the folder as long as ever
        agent(['run', '-c', join(folder, 'agent.yaml'), '--read', join(folder, 'in.pcap'), '--once']),
        ...[...words, ...others].map((command) => agent([...command, ...state])),
      ])
      for (const each of [watched!, ...said]) expect(each.stderr).not.toMatch(/bug in OddFlow|\n {4}at /)
      expect(watched, watched!.stderr).toMatchObject({ code: 0 })
      const results = said.slice(0, words.length)
      // an agent that ends may have given up its socket in the midst
      expect(results.map(({ code, stderr }) => (code === 0 ? '' : stderr)).join('')).toMatch(
        /^(oddflow-agent: .*\n)*$/,
      )
      const found = await states(folder)
      if (results[0]!.code === 0) expect(found[WATCHED]).toBe('paused')
      if (results[1]!.code === 0) expect(found[LEARNING]).toBe('watching')
      expect(results.some(({ code }) => code === 0)).toBe(true)
    },
    60_000,
  )
})

describe('root', () => {
  it('is refused as user of a run, unless the configuration allows it, and warned of by --check-config', async (context) => {
    if (!isRoot) context.skip('only root can be refused as root')
    const folder = newCase()
    const config = join(folder, 'agent.yaml')
    writeFileSync(config, CONFIG.replace('allowRoot: true\n', ''))
    writeFileSync(join(folder, 'in.pcap'), encodePcap(LAST))
    const args = ['run', '-c', config, '--read', join(folder, 'in.pcap')]
    const refused = await runToEnd(process.execPath, [agentMain, ...args, '--once'])
    expect(refused).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toMatch(
      /^oddflow-agent: refuses to run as root; run the agent as a separate user, .*allowRoot: true\)\n$/,
    )
    expect(existsSync(join(folder, 'eve.json'))).toBe(false)
    const checked = await runToEnd(process.execPath, [agentMain, ...args, '--check-config'])
    expect(checked).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/warning: the agent refuses to run as root/),
    })
    expect((await runToEnd(process.execPath, [agentMain, ...args, '--once', '--allow-root'])).code).toBe(0)
  })

  it('changes nothing in a folder of another user in which no agent runs', async (context) => {
    if (!isRoot) context.skip('only root can make the folder of another user')
    const folder = newCase()
    giveToNobody(folder)
    for (const command of [
      ['devices', 'pause', WATCHED],
      ['models', 'rollback', WATCHED],
    ]) {
      const said = await agent([...command, '--state', join(folder, 'st')])
      expect(said).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/st: belongs to user 65534, .*sudo -u '#65534'/),
      })
    }
    expect((await agent(['devices', 'list', '--state', join(folder, 'st')])).code).toBe(0)
    expect(lstatSync(join(folder, 'st/devices.json')).uid).toBe(NOBODY)
  })
})

/**
 * The agent under load, as a user runs it: npm run -s slow:agent -- paced|long|normal|flood|flood-devices [--packets N] [--core C]
 *
 *     paced          over a veth pair at 100 Mbit/s and more than 20,000 packets a second, the agent on one core: drops,
 *                    time from the moment at which no packet can change a verdict to the line in the EVE file, memory
 *     long           20 M packets through a pipe: resident memory, and what it gains in the later half
 *     normal         every second capture of normal traffic (the repository's, and the evidence folder's pairs) is learnt, the
 *                    others are watched: alerts beside those that the threshold promises, and what it finds of captures of
 *                    another kind; one model of all, and one of each device
 *     flood          over a veth pair: SYNs of 1 M different ends from 100,000 made-up MAC addresses, every one an alert
 *     flood-beside   over a veth pair: four seconds of a flood beside traffic that the model knows: alerts of that by the
 *                    time at which their flows began
 *     flood-devices  the same as flood with alike alerts folded, and a table of devices
 *
 * One line of JSON each; exit code 1 where a promise is broken. What needs a veth pair needs root: it lives in a network
 * namespace of its own, and ends with the job.
 */
import { execFileSync, spawn } from 'node:child_process'
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { trafficBlocks } from '../../packages/flows/bench/support/generate-traffic.mjs'
import { root } from '../workspace/layout.mjs'

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: { packets: { type: 'string' }, core: { type: 'string', default: '0' } },
})
const [what = ''] = positionals
const MEBIBYTE = 1_048_576
const CEILING = 128 * MEBIBYTE
const agentMain = join(root, 'apps/agent/dist/main.js')
const folder = mkdtempSync(join(tmpdir(), 'oddflow-load-'))
const eve = join(folder, 'eve.json')
const model = join(folder, 'home.oddflow')
const children = new Set()
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130))

const LAB = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz', 'normal-4.pcap.gz']

function train(captures = LAB.map((name) => join(root, 'test/fixtures/lab', name))) {
  execFileSync(
    process.execPath,
    [join(root, 'apps/trainer/dist/main.js'), 'train', ...captures, '-o', model],
    {
      stdio: ['ignore', 'ignore', 'ignore'],
    },
  )
  const bytes = readFileSync(model)
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + Number(bytes.readBigUInt64LE(0))))
  return Object.values(header.__metadata__)
    .map((text) => {
      try {
        return JSON.parse(text)
      } catch {
        return null
      }
    })
    .find((value) => value?.packetsPerFlow !== undefined)
}

/** Starts the agent on one core; `packets()` is how many it was given. */
function startAgent(args) {
  const child = spawn(
    'taskset',
    ['-c', given.core, process.execPath, agentMain, 'run', '--allow-root', '--once', ...args],
    {
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  )
  children.add(child)
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
  child.stdin.on('error', () => undefined)
  const closed = new Promise((resolve) => child.on('close', (code) => resolve(code)))
  return {
    child,
    said: () => stderr,
    status: (field) => {
      try {
        const text = readFileSync(`/proc/${child.pid}/status`, 'utf8')
        return 1024 * Number(new RegExp(`${field}:\\s+(\\d+)`).exec(text)?.[1] ?? Number.NaN)
      } catch {
        return Number.NaN
      }
    },
    async end() {
      const code = await closed
      children.delete(child)
      // alerts that are left undelivered at the end are exit code 1, and counted
      if (code !== 0 && !(code === 1 && stdout.startsWith('{')))
        throw new Error(`the agent ended with ${code}: ${stderr}`)
      return JSON.parse(stdout)
    },
  }
}

function sums(counters) {
  const { captured, processed, droppedKernel, droppedAgent, filtered, packetsInFlows, notInFlows } = counters
  const others = Object.values(notInFlows).reduce((sum, n) => sum + n, 0)
  return (
    captured === processed + droppedKernel + droppedAgent + filtered && processed === packetsInFlows + others
  )
}

const promises = []
function promise(name, holds) {
  promises.push([name, holds])
}
function tell(result) {
  const broken = promises.filter(([, holds]) => !holds).map(([name]) => name)
  const machine = { node: process.version, processors: availableParallelism(), load: loadavg()[0] }
  process.stdout.write(`${JSON.stringify({ what, ...result, broken, machine })}\n`)
  process.exitCode = broken.length === 0 ? 0 : 1
}

function veth() {
  const run = (program, ...args) => execFileSync(program, args, { stdio: 'pipe' })
  run('sysctl', '-q', '-w', 'net.ipv6.conf.default.disable_ipv6=1')
  run('ip', 'link', 'add', 'send0', 'type', 'veth', 'peer', 'name', 'take0')
  for (const end of ['send0', 'take0']) run('ip', 'link', 'set', end, 'mtu', '9000', 'up')
}

/** Packets that were sent, and the seconds that it took. */
async function replay(capture, ...pace) {
  const start = performance.now()
  const child = spawn('tcpreplay', ['-q', '-i', 'send0', ...pace, capture], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  children.add(child)
  let told = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (told += text))
  await new Promise((resolve) => child.on('close', resolve))
  children.delete(child)
  return {
    sent: Number(/Successful packets:\s+(\d+)/.exec(told)?.[1]),
    seconds: (performance.now() - start) / 1000,
  }
}

async function recording(agent) {
  for (let i = 0; i < 600 && !existsSync(eve); i++) await pause(50)
  for (let i = 0; i < 600; i++) {
    const below = execFileSync('sh', ['-c', `pgrep -P ${agent.child.pid} || true`])
      .toString()
      .trim()
    if (below !== '') return pause(1500)
    await pause(50)
  }
  throw new Error(`nothing was recorded: ${agent.said()}`)
}

/** Lines of the EVE file with the time at which they were seen there. */
function followEve(onLine) {
  let rest = Buffer.alloc(0)
  let file = null
  const block = Buffer.alloc(MEBIBYTE)
  const timer = setInterval(() => {
    if (file === null) {
      if (!existsSync(eve)) return
      file = openSync(eve, 'r')
    }
    const now = Date.now() / 1000
    for (;;) {
      const bytes = readSync(file, block, 0, block.length, null)
      if (bytes === 0) break
      rest = Buffer.concat([rest, block.subarray(0, bytes)])
      const end = rest.lastIndexOf(10)
      if (end < 0) continue
      for (const line of rest.subarray(0, end).toString('utf8').split('\n')) onLine(line, now)
      rest = rest.subarray(end + 1)
    }
  }, 10)
  return () => {
    clearInterval(timer)
    if (file !== null) closeSync(file)
  }
}

function writeTraffic(name, packets, flows, active) {
  const path = join(folder, name)
  const file = openSync(path, 'w')
  for (const block of trafficBlocks(packets, flows, active)) writeSync(file, block)
  closeSync(file)
  return path
}

async function paced() {
  // packets are written 10 µs apart and sent three times as slowly: three times as many flows have the same gaps
  const normal = writeTraffic('normal.pcap', 600_000, 12_000, 11_600)
  const contract = train([normal])
  const packets = Number(given.packets ?? 660_000)
  const capture = writeTraffic('mixed.pcap', packets, Math.floor(packets / 50), 4000)
  veth()
  const agent = startAgent([
    '--interface',
    'take0',
    '--model',
    model,
    '--eve',
    eve,
    '--no-fold',
    '--state',
    join(folder, 'state'),
  ])
  await recording(agent)
  const late = []
  let alerts = 0
  const stop = followEve((line, at) => {
    const { rule, flow } = JSON.parse(line).oddflow
    alerts++
    if (rule !== 'score') return
    const last = (flow.startMicros + flow.durationMicros) / 1e6
    const cut = (flow.startMicros + contract.truncation.durationMicros) / 1e6
    late.push(at - (flow.packets >= contract.packetsPerFlow ? last : Math.max(last, cut)))
  })
  const { sent, seconds } = await replay(capture, '--mbps', '102')
  const megabits = (8 * (statSync(capture).size - 16 * packets)) / 1e6 / seconds
  await pause(1000 + contract.truncation.durationMicros / 1000)
  stop()
  const peak = agent.status('VmHWM')
  const lines = late.length
  late.sort((a, b) => a - b)
  agent.child.kill('SIGTERM')
  const counters = await agent.end()
  const quantile = (q) => Math.round(1000 * late[Math.min(lines - 1, Math.floor(q * lines))]) / 1000
  promise('sums', sums(counters))
  promise('every packet captured', counters.captured === sent)
  promise('no drops', counters.dropped === 0)
  promise('p99 within a second', quantile(0.99) < 1)
  promise('memory', peak <= CEILING)
  tell({
    packetsPerSecond: Math.round(sent / seconds),
    megabitsPerSecond: Math.round(megabits),
    sent,
    captured: counters.captured,
    droppedKernel: counters.droppedKernel,
    droppedAgent: counters.droppedAgent,
    overloads: counters.overloads,
    alerts,
    timed: lines,
    medianSeconds: quantile(0.5),
    p99Seconds: quantile(0.99),
    latestSeconds: quantile(1),
    peakResidentBytes: peak,
  })
}

async function long() {
  train()
  const packets = Number(given.packets ?? 20_000_000)
  const agent = startAgent([
    '--read',
    '-',
    '--model',
    model,
    '--eve',
    eve,
    '--state',
    join(folder, 'state'),
    '--memory-limit',
    '128M',
  ])
  const { stdin } = agent.child
  const start = performance.now()
  const total = packets * 396
  let bytes = 0
  const samples = []
  let next = 0
  for (const block of trafficBlocks(packets, Math.floor(packets / 50), 4000)) {
    if (!stdin.write(block)) await new Promise((resolve) => stdin.once('drain', resolve))
    bytes += block.length
    if (bytes >= next) {
      samples.push([bytes / total, agent.status('VmRSS')])
      next = bytes + total / 480
    }
  }
  stdin.end()
  const counters = await agent.end()
  const seconds = (performance.now() - start) / 1000
  // a day is the whole; after the first quarter a line of least squares
  const later = samples.filter(([share, rss]) => share > 0.25 && rss > 0)
  const mean = (of) => later.reduce((sum, sample) => sum + of(sample), 0) / later.length
  const [x, y] = [mean(([share]) => share), mean(([, rss]) => rss)]
  const slope = mean(([share, rss]) => (share - x) * (rss - y)) / mean(([share]) => (share - x) ** 2)
  const perHour = slope / 24 / MEBIBYTE
  promise('sums', sums(counters))
  promise('every packet', counters.captured === packets && counters.dropped === 0)
  promise('memory', counters.peakResidentBytes <= CEILING)
  promise('slope below 1 MiB an hour', perHour < 1)
  tell({
    packets,
    seconds: Math.round(seconds),
    packetsPerSecond: Math.round(packets / seconds),
    flows: counters.flows,
    novel: counters.novel.total,
    alertsGiven: counters.alerts.given,
    peakResidentBytes: counters.peakResidentBytes,
    meanResidentMebibytes: Math.round((10 * y) / MEBIBYTE) / 10,
    slopeMebibytesAnHour: Math.round(1000 * perHour) / 1000,
  })
}

const pairsFolder = join(process.env.ODDFLOW_SHARED ?? join(root, '../shared'), 'data/pairs')

/** Normal captures by where they come from; the first is of the repository. */
function normalCaptures() {
  const sets = { lab: LAB.map((name) => join(root, 'test/fixtures/lab', name)) }
  for (const name of existsSync(pairsFolder) ? readdirSync(pairsFolder).sort() : []) {
    const captures = join(pairsFolder, name, 'normal')
    sets[name] = readdirSync(captures)
      .sort()
      .map((file) => join(captures, file))
  }
  return sets
}

/** What a model of those has never seen: another device, another state, an attack. */
function novelCaptures(name) {
  const novel = join(pairsFolder, name, 'novel')
  if (name !== 'lab') return readdirSync(novel).map((file) => join(novel, file))
  const lab = join(root, 'test/fixtures/lab')
  return readdirSync(lab)
    .filter((file) => /^novel-.*\.pcap/.test(file))
    .map((file) => join(lab, file))
}

function inOrder(captures, order) {
  if (order === 'name') return captures
  const timeOf = (capture) => {
    const told = execFileSync(process.execPath, [
      join(root, 'apps/trainer/dist/main.js'),
      'info',
      capture,
      '--format',
      'json',
    ])
    return JSON.parse(String(told)).firstTimestampMicros
  }
  const times = new Map(captures.map((capture) => [capture, timeOf(capture)]))
  return [...captures].sort((a, b) => times.get(a) - times.get(b))
}

/** All captures in turn, each device watched as soon as its model has proved itself. */
async function normalOfDevices(name, captures) {
  const state = join(folder, `state-${name}`)
  const config = join(folder, `${name}.json`)
  const settings = { learnHours: 0, judgeHours: 8760, learnFlows: 200, approve: 'auto' }
  const features = { set: 'iat-size', cutSeconds: 5 }
  writeFileSync(config, JSON.stringify({ models: { features }, devices: settings, state }))
  const all = { flows: 0, novel: 0 }
  let counters
  for (const capture of captures) {
    counters = await startAgent(['-c', config, '--read', capture, '--eve', eve, '--no-fold']).end()
    promise('sums', sums(counters))
    all.flows += counters.verdicts.score
    all.novel += counters.novel.score
  }
  const watched = { flows: 0, novel: 0 }
  for (const device of JSON.parse(readFileSync(join(state, 'devices.json'), 'utf8')).devices) {
    watched.flows += device.watchedFlows
    watched.novel += device.watchedNovel
  }
  return {
    learning: { flows: all.flows - watched.flows, novel: all.novel - watched.novel },
    watched,
    devices: counters.devices.byState,
  }
}

async function verdictsOn(captures) {
  const total = { flows: 0, novel: 0, onePacketNovel: 0 }
  for (const capture of captures) {
    const counters = await startAgent(['--read', capture, '--model', model, '--eve', eve]).end()
    promise('sums', sums(counters))
    total.flows += counters.verdicts.score
    total.novel += counters.novel.score
    total.onePacketNovel += counters.novel.onePacket
  }
  return total
}

async function normal() {
  const results = []
  for (const [name, captures] of Object.entries(normalCaptures())) {
    train(captures.filter((_, i) => i % 2 === 0))
    const unseen = await verdictsOn(captures.filter((_, i) => i % 2 === 1))
    const ofOthers = await verdictsOn(novelCaptures(name))
    results.push({ name, promised: 0.01, ...unseen, ofOthers })
  }
  const results2 = []
  for (const order of ['name', 'time']) {
    for (const [name, captures] of Object.entries(normalCaptures())) {
      results2.push({ name, order, ...(await normalOfDevices(`${order}-${name}`, inOrder(captures, order))) })
    }
  }
  tell({ oneModel: results, modelsOfDevices: results2 })
}

/** SYNs: ends, ports and MAC addresses all differ. */
function writeFlood(path, packets) {
  const out = Buffer.alloc(24 + packets * 76)
  out.writeUInt32LE(0xa1b2c3d4, 0)
  out.writeUInt16LE(2, 4)
  out.writeUInt16LE(4, 6)
  out.writeUInt32LE(65_535, 16)
  out.writeUInt32LE(1, 20)
  for (let i = 0, at = 24; i < packets; i++, at += 76) {
    out.writeUInt32LE(1_700_000_000 + Math.floor(i / 20_000), at)
    out.writeUInt32LE(50 * (i % 20_000), at + 4)
    out.writeUInt32LE(60, at + 8)
    out.writeUInt32LE(60, at + 12)
    const frame = at + 16
    out.writeUInt32BE(0x02000000, frame)
    out.writeUInt32BE(0x06000000 + (Math.imul(i % 100_000, 40_503) >>> 16), frame + 6)
    out.writeUInt16BE((i % 100_000) & 0xffff, frame + 10)
    out.writeUInt16BE(0x0800, frame + 12)
    out.set([0x45, 0, 0, 46, 0, 1, 0, 0, 64, 6, 0, 0], frame + 14)
    out.writeUInt32BE(0x0a000000 + (Math.imul(i, 2_654_435_761) >>> 8), frame + 26)
    out.writeUInt32BE(0xc0000201, frame + 30)
    out.writeUInt16BE(1024 + ((7919 * i) % 60_000), frame + 34)
    out.writeUInt16BE(1 + (i % 1000), frame + 36)
    out.set([0x50, 2], frame + 46)
  }
  const file = openSync(path, 'w')
  writeSync(file, out)
  closeSync(file)
}

/** @param config - of the agent, beside what the command line says. */
async function flood(configuration, ...options) {
  train()
  const packets = Number(given.packets ?? 1_000_000)
  const capture = join(folder, 'flood.pcap')
  writeFlood(capture, packets)
  veth()
  const config = join(folder, 'agent.json')
  const file = openSync(config, 'w')
  writeSync(file, JSON.stringify(configuration))
  closeSync(file)
  const agent = startAgent([
    '-c',
    config,
    '--interface',
    'take0',
    '--model',
    model,
    '--eve',
    eve,
    ...options,
    '--state',
    join(folder, 'state'),
    '--memory-limit',
    '128M',
  ])
  await recording(agent)
  const { sent, seconds } = await replay(capture, '--pps', '100000')
  // what waits in the recorder is taken first, then the steps are gone back
  for (let i = 0; i < 120; i++) {
    await pause(1000)
    const said = agent.said()
    const entered = (said.match(/overload entered/g) ?? []).length
    if (i >= 12 && (said.match(/overload left/g) ?? []).length === entered) break
  }
  const said = agent.said()
  const [entered, left] = [/overload entered/g, /overload left/g].map((of) => (said.match(of) ?? []).length)
  const peak = agent.status('VmHWM')
  agent.child.kill('SIGTERM')
  const counters = await agent.end()
  promise('sums', sums(counters))
  promise('every packet is accounted for', counters.captured === sent)
  promise('memory', peak <= CEILING)
  promise('overload entered once and left', entered === 1 && left === 1)
  const { captured, processed, droppedKernel, droppedAgent, filtered, alerts, devices } = counters
  tell({
    sent,
    packetsPerSecond: Math.round(sent / seconds),
    captured,
    processed,
    droppedKernel,
    droppedAgent,
    filtered,
    entered,
    left,
    said: said.split('\n').filter((line) => line.includes('overload')),
    alerts,
    devices,
    peakResidentBytes: peak,
  })
}

/** Traffic that the model knows, and four seconds of a flood beside it. */
async function floodBeside() {
  train([writeTraffic('normal.pcap', 600_000, 12_000, 11_600)])
  const capture = writeTraffic('mixed.pcap', 660_000, 13_200, 4000)
  const attack = join(folder, 'flood.pcap')
  writeFlood(attack, 200_000)
  veth()
  const agent = startAgent([
    ...['--interface', 'take0', '--model', model, '--eve', eve, '--no-fold'],
    ...['--state', join(folder, 'state')],
  ])
  await recording(agent)
  const others = { before: 0, during: 0, after: 0 }
  let ofFlood = 0
  let began = Number.POSITIVE_INFINITY
  let ended = Number.POSITIVE_INFINITY
  const stop = followEve((line) => {
    const alert = JSON.parse(line)
    if (alert.dest_ip === '192.0.2.1') ofFlood++
    else {
      const start = alert.oddflow.flow.startMicros / 1000
      others[start < began ? 'before' : start < ended ? 'during' : 'after']++
    }
  })
  const background = replay(capture, '--mbps', '51')
  await pause(10_000)
  began = Date.now()
  const flooded = await replay(attack, '--pps', '50000')
  ended = Date.now()
  const { sent } = await background
  await pause(5000)
  const said = agent.said()
  agent.child.kill('SIGTERM')
  const counters = await agent.end()
  stop()
  promise('sums', sums(counters))
  promise('every packet is accounted for', counters.captured === sent + flooded.sent)
  promise('overload entered once and left', counters.overloads === 1 && said.includes('overload left'))
  const { captured, processed, droppedKernel, droppedAgent, verdicts } = counters
  tell({
    sent: sent + flooded.sent,
    captured,
    processed,
    droppedKernel,
    droppedAgent,
    verdicts,
    alertsOfFlood: ofFlood,
    alertsOfOthers: others,
  })
}

const jobs = {
  paced,
  long,
  normal,
  'flood-beside': floodBeside,
  flood: () => flood({}, '--no-fold'),
  'flood-devices': () => flood({ devices: {} }),
}
if (!Object.hasOwn(jobs, what)) throw new Error(`expected one of ${Object.keys(jobs).join(', ')}`)
const needsNetwork = what !== 'long' && what !== 'normal'
if (needsNetwork && process.env.ODDFLOW_LOAD_NAMESPACE === undefined) {
  const script = new URL(import.meta.url).pathname
  const child = spawn('unshare', ['--net', process.execPath, script, ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: { ...process.env, ODDFLOW_LOAD_NAMESPACE: '1' },
  })
  children.add(child)
  process.exitCode = await new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)))
  children.delete(child)
} else await jobs[what]()

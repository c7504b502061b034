/** What the agent reports, printed as it comes: docs/results/incidents.md is written from these scenes (see --help). */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodePcapRecord, readDomainName } from '@oddflow/capture'
import { matrixOf } from '@oddflow/core'
import { decodeModelFile, encodeModelFile } from '@oddflow/detectors'
import { UsageError } from '@oddflow/program'
import { Argument, Command } from 'commander'
import { z } from 'zod'
import { inFile } from '../files.js'
import { printText } from '../output.js'
import {
  type AgentEvent,
  type AgentOptions,
  agentProgram,
  captureOf,
  configure,
  countByRule,
  DAY_MICROS,
  eventsIn,
  frameOf,
  inOrder,
  inTemporaryFolder,
  ipv4At,
  moved,
  type Packet,
  readPackets,
  readWeeks,
  refused,
  replay,
  runArguments,
  spread,
  withAgent,
  withChecksum,
} from './agent-runs.js'
import { LAB, labMac, labNormal } from './attacks.js'
import { DEFAULT_VARIANT, novelShare, trainOn, variantNamed, wholeCapture } from './flows.js'
import { type Study, type StudyOptions, withEvidence } from './study.js'
import { ORDER_OF_TIME, readDevices, splitOf } from './watch.js'

// ---- recordings

const CAMERA_ADDRESS = [192, 168, 50, 23]
const LOCAL = ['192.168.50.0/24', 'fd50::/64', 'fe80::/10']
const ATTACKS = {
  scan: 'novel-scan.pcap',
  'password guessing': 'novel-bruteforce.pcap.gz',
  download: 'novel-firmware.pcap',
  upload: 'novel-publishing.pcap.gz',
  'DNS tunnel': 'novel-dnstunnel.pcap.gz',
} as const

/** The camera's IPv4 frames as another device's. */
function asOther(packets: readonly Packet[], mac: string, lastByte: number): Packet[] {
  const camera = labMac('camera')
  return packets.flatMap(({ micros, frame }) => {
    const isFrom = camera.equals(frame.subarray(6, 12))
    const isTo = camera.equals(frame.subarray(0, 6))
    if ((!isFrom && !isTo) || frame.readUInt16BE(12) !== 0x0800) return []
    const changed = Buffer.from(frame)
    changed.set(Buffer.from(mac, 'hex'), isFrom ? 6 : 0)
    changed[(isFrom ? 26 : 30) + 3] = lastByte
    return [{ micros, frame: withChecksum(changed) }]
  })
}

/** TCP SYNs to one port of the camera, from made-up addresses outside, through the gateway. */
function synFlood(atMicros: number, packets: number, perSecond: number): Packet[] {
  const head = [labMac('camera'), labMac('gw'), Buffer.from('08004500002c0000400040060000', 'hex')]
  return Array.from({ length: packets }, (_, i) => {
    const frame = Buffer.alloc(60)
    frame.set(Buffer.concat(head))
    frame.set([198, 51, 100, i & 255, ...CAMERA_ADDRESS], 26)
    frame.writeUInt16BE(1024 + ((i * 7919) % 60_000), 34)
    frame.writeUInt16BE(80, 36)
    frame.writeUInt32BE((i * 2_654_435 + 1) >>> 0, 38)
    frame.set([0x60, 0x02, 0xff, 0xff], 46)
    return { micros: atMicros + Math.floor((i * 1e6) / perSecond), frame: withChecksum(frame) }
  })
}

// ---- runs

interface Room {
  readonly agent: string
  /** Of temporary files. */
  readonly folder: string
  readonly data: string
  /** The situation or device that was asked for, if one was. */
  readonly only: string | undefined
}

const openedIn = (events: readonly AgentEvent[]): number =>
  events.filter(({ oddflow }) => oddflow.incident?.change === 'opened').length

function showIncidents(events: readonly AgentEvent[], from = ''): void {
  for (const { timestamp, oddflow } of events) {
    if (oddflow.incident?.change === undefined) continue
    const { change, kind, level, evidence, flows } = oddflow.incident
    printText(
      `${from}${timestamp.slice(0, 19)} ${change} ${level} ${kind} (evidence ${evidence}, ${flows} flows): ${oddflow.summary}`,
    )
  }
}

// ---- the lab

/** A model of these captures, as `oddflow train` makes it. */
async function train(path: string, captures: readonly string[]): Promise<string> {
  const model = await trainOn(captures.map(wholeCapture), variantNamed(DEFAULT_VARIANT), 1)
  writeFileSync(path, encodeModelFile(model))
  return path
}

function trainLab(folder: string): Promise<string> {
  const captures = labNormal().map(({ path }) => path)
  return train(join(folder, 'lab.oddflow'), captures.slice(0, 3))
}

const readLab = (file: string): Packet[] => readPackets(join(LAB, file))
/** The lab's traffic is short, so the agent learns and judges a device soon. */
const SOON = { approve: 'auto', learnHours: 0.005, judgeHours: 0.01, learnFlows: 5, stableShare: 1 }

interface Seen {
  readonly event: AgentEvent
  /** Since the situation began. */
  readonly seconds: number
}

const nowMicros = (): number => Date.now() * 1000

/** Plays packets in their own time, after a recording of normal traffic. */
async function play(
  agent: string,
  at: string,
  packets: readonly Packet[],
  situationMicros: number,
  normal: readonly Packet[],
): Promise<Seen[]> {
  replay(agent, at, moved(normal, nowMicros() + 3_000_000 - normal.at(-1)!.micros))
  const before = eventsIn(at).length
  const shift = nowMicros() + 1_000_000 - packets[0]!.micros
  const args = [agent, ...runArguments(join(at, 'agent.yaml'), '-')]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'ignore'] })
  const exited = new Promise((done) => child.on('exit', done))
  child.stdin.on('error', () => undefined)
  child.stdin.write(captureOf([]))
  const seen: Seen[] = []
  const look = (): void => {
    const seconds = (nowMicros() - situationMicros - shift) / 1e6
    for (const event of eventsIn(at).slice(before + seen.length)) seen.push({ event, seconds })
  }
  const timer = setInterval(look, 20)
  for (let i = 0; i < packets.length; ) {
    const due = packets[i]!.micros + shift - nowMicros()
    if (due > 0) await new Promise((done) => setTimeout(done, Math.min(due / 1000, 50)))
    const from = i
    while (i < packets.length && packets[i]!.micros + shift <= nowMicros()) i++
    const records = moved(packets.slice(from, i), shift).map((packet) => encodePcapRecord(frameOf(packet)))
    child.stdin.write(Buffer.concat(records))
  }
  child.stdin.end()
  await exited
  look()
  clearInterval(timer)
  return seen
}

/** Packets of each situation, and when it begins. */
function situationsOf(normal: readonly Packet[]): Record<string, readonly [readonly Packet[], number]> {
  const begin = normal[0]!.micros
  const captured = (attack: keyof typeof ATTACKS, address: readonly number[]) => {
    const packets = readLab(ATTACKS[attack])
    // a minute of the devices' own traffic behind it
    const after = moved(normal, packets.at(-1)!.micros + 200_000 - begin)
    return [
      [...packets, ...after],
      packets.find(({ frame }) => frame.includes(Buffer.from(address)))!.micros,
    ] as const
  }
  const later = moved(normal, normal.at(-1)!.micros - begin + 1_000_000)
  const began = later[0]!.micros + 20_000_000
  const beside = (others: readonly Packet[], own: readonly Packet[] = later) =>
    [inOrder([...own, ...others]), others[0]!.micros] as const
  const afterwards = later.filter(({ micros }) => micros >= began)
  const camera = labMac('camera')
  const isCamera = ({ frame }: Packet): boolean =>
    [0, 6].some((at) => camera.equals(frame.subarray(at, at + 6)))
  return {
    nothing: [later, later[0]!.micros],
    scan: captured('scan', [192, 168, 50, 66]),
    'password guessing': captured('password guessing', [192, 168, 50, 66]),
    download: captured('download', [203, 0, 113, 20]),
    upload: captured('upload', [203, 0, 113, 30]),
    'DNS tunnel': captured('DNS tunnel', [203, 0, 113, 53]),
    'new device': beside(asOther(afterwards, '020000000077', 77)),
    'taken address': beside(
      asOther(afterwards, '020000000078', CAMERA_ADDRESS[3]!),
      later.filter((packet) => packet.micros < began || !isCamera(packet)),
    ),
    flood: beside(synFlood(began, 20_000, 4000)),
  }
}

/** The names, or the one that was asked for. */
function asked(names: readonly string[], name: string | undefined): readonly string[] {
  if (name === undefined) return names
  if (names.includes(name)) return [name]
  throw new UsageError(`expected one of ${names.join(', ')}; found ${name}`)
}

async function playLab({ agent, folder, only }: Room): Promise<void> {
  const normal = readLab('normal-4.pcap.gz')
  const situations = situationsOf(normal)
  const names = asked(Object.keys(situations), only)
  const model = await trainLab(folder)
  for (const name of names) {
    const [packets, situationMicros] = situations[name]!
    const devices = { ...SOON, inventoryMinutes: 1 }
    const at = configure(folder, name, { model, localNetworks: LOCAL, devices })
    const seen = await play(agent, at, packets, situationMicros, normal)
    const alerts = seen.map(({ event }) => event).filter(({ event_type }) => event_type === 'alert')
    const byRule = Object.entries(countByRule(alerts)).map(([rule, count]) => `${count} ${rule}`)
    const changes = seen.filter(({ event }) => event.oddflow.incident?.change !== undefined)
    const ids = new Set(changes.map(({ event }) => event.oddflow.incident!.id))
    printText(`\n## ${name}: ${ids.size} incidents, alerts: ${byRule.join(', ')}`)
    for (const { event, seconds } of changes) {
      showIncidents([event], `${event.oddflow.incident!.id.slice(0, 4)} ${seconds.toFixed(2)} s `)
    }
  }
}

const listed = z.object({ id: z.string(), kind: z.string(), device: z.object({ mac: z.string() }) })

/** Reads attacks one after another into agents of one state folder, and answers what the first of them opens. */
async function answerLab({ agent, folder, only }: Room): Promise<void> {
  const attacks = Object.keys(ATTACKS) as (keyof typeof ATTACKS)[]
  const names = asked(attacks, only)
  const model = await trainLab(folder)
  const normal = readLab('normal-4.pcap.gz')
  for (const answered of attacks.filter((name) => names.includes(name))) {
    const at = configure(folder, `answer ${answered}`, { model, localNetworks: LOCAL, devices: SOON })
    let latest = normal.at(-1)!.micros
    /** Packets that begin `seconds` after the last ones, followed by the devices' own traffic. */
    const later = (attack: readonly Packet[], seconds: number): Packet[] => {
      const begin = latest + 1e6 * seconds
      const packets = attack.length === 0 ? [] : moved(attack, begin - attack[0]!.micros)
      packets.push(...moved(normal, (packets.at(-1)?.micros ?? begin) + 200_000 - normal[0]!.micros))
      latest = packets.at(-1)!.micros
      return packets
    }
    replay(agent, at, normal)
    // flows without an end are judged with the end of a recording; the answer is taken by an agent that runs
    replay(agent, at, later(readLab(ATTACKS[answered]), 5))
    printText(`\n## ${answered}`)
    await answerAll(agent, at, later([], 5))
    for (const name of [answered, ...attacks.filter((each) => each !== answered)]) {
      const { events } = replay(agent, at, later(readLab(ATTACKS[name]), 4000))
      printText(name === answered ? 'the same again:' : `${name}:`)
      showIncidents(
        events.filter(({ oddflow }) => oddflow.incident?.change !== 'over'),
        '  ',
      )
    }
  }
}

/** Gives one answer to each open incident, at an agent that has read `packets` and waits. */
async function answerAll(
  agent: string,
  at: string,
  packets: readonly Packet[],
  answer: 'normal' | 'attack' = 'normal',
): Promise<void> {
  const input = join(at, 'in.pcap')
  writeFileSync(input, captureOf(packets))
  const args = runArguments(join(at, 'agent.yaml'), input).filter((each) => each !== '--once')
  const child = spawn(process.execPath, [agent, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = new Promise((done) => child.on('exit', done))
  for await (const piece of child.stderr) if (String(piece).includes('waiting for a signal')) break
  const ask = (...words: string[]) =>
    spawnSync(process.execPath, [agent, 'incidents', ...words, '--state', join(at, 'state')], {
      encoding: 'utf8',
    })
  for (const line of ask('list', '--format', 'json').stdout.split('\n').filter(Boolean)) {
    const { id, kind, device } = listed.parse(JSON.parse(line))
    const { stdout, stderr } = ask('answer', id, answer)
    printText(`${kind} of ${device.mac}: ${stdout}${stderr}`)
  }
  child.kill()
  await exited
}

// ---- a device that learns

const MINUTE_MICROS = 60_000_000
const SCANNED = [
  ['hub', '192.168.50.10'],
  ['gw', '192.168.50.1'],
  ['gw', '203.0.113.11'],
] as const
const SCAN_SECONDS = 2

/** The camera connects to ports of the hub, the gateway and an outside host in turn; all refuse. */
function cameraScan(atMicros: number, connections: number): Packet[] {
  const camera = { mac: labMac('camera'), address: CAMERA_ADDRESS.join('.') }
  return spread(connections, atMicros, 1e6 * SCAN_SECONDS, (micros, i) => {
    const [name, address] = SCANNED[Math.floor((i * SCANNED.length) / connections)]!
    const target = { mac: labMac(name), address, port: 1 + (i % (connections / SCANNED.length)) }
    return refused(micros, { ...camera, port: 40_000 + i }, target)
  })
}

const record = z.object({ sha256: z.string(), rows: z.number(), trainedAtMicros: z.number() })
const kept = z.object({ answers: z.array(z.object({ rows: z.array(z.object({ row: z.base64() })) })) })

/** The camera's first model in a state folder, and what it finds of the flows that the answers keep; null without a model. */
function firstModelIn(state: string, answeredMicros: number): string | null {
  const read = <T>(shape: z.ZodType<T>, file: string): T =>
    shape.parse(JSON.parse(readFileSync(join(state, file), 'utf8')))
  const owner = `models/device-${labMac('camera')
    .toString('hex')
    .replace(/..(?=.)/g, '$&-')}`
  if (!existsSync(join(state, `${owner}.json`))) return null
  const { sha256, rows, trainedAtMicros } = read(record, `${owner}.json`)
  const model = decodeModelFile(readFileSync(join(state, `${owner}-${sha256.slice(0, 16)}.oddflow`)))
  const flows = read(kept, 'answers.json').answers.flatMap((answer) =>
    answer.rows.map(({ row }) => Buffer.from(row, 'base64')),
  )
  const numbers = new Float64Array(new Uint8Array(Buffer.concat(flows)).buffer)
  const share = novelShare(model, matrixOf(flows.length, numbers.length / flows.length, numbers))
  const minutes = (trainedAtMicros - answeredMicros) / MINUTE_MICROS
  return `first model ${minutes.toFixed(1)} min after the answers, of ${rows} flows: ${Math.round(share * flows.length)} of ${flows.length} flows that the answers keep are novel to it`
}

/** Usual traffic, the scan, usual traffic; the incidents are answered "attack"; then usual traffic until the first model. */
async function attackLearner({ agent, folder, only }: Room): Promise<void> {
  const usual = labNormal().map(({ path }) => readPackets(path))
  let latest = usual[0]![0]!.micros
  const later = (packets: readonly Packet[]): Packet[] => {
    const shifted = moved(packets, latest + 100_000 - packets[0]!.micros)
    latest = shifted.at(-1)!.micros
    return shifted
  }
  for (const connections of asked(['240', '900'], only)) {
    const at = configure(folder, `${connections} connections`, {
      models: {},
      localNetworks: LOCAL,
      devices: { approve: 'auto', learnHours: 0.05, learnFlows: 250 },
      budget: { falseAlertsPerDay: 500 },
    })
    printText(`\n## ${connections} connections`)
    const before = later(usual[0]!)
    const scan = later(cameraScan(latest, Number(connections)))
    showIncidents(replay(agent, at, [...before, ...scan, ...later(usual[1]!)]).events)
    await answerAll(agent, at, later(usual[0]!.slice(0, 20)), 'attack')
    const answeredMicros = latest
    let found: string | null = null
    for (let i = 0; i < 8 && found === null; i++) {
      replay(agent, at, [...usual, ...usual].flatMap(later))
      found = firstModelIn(join(at, 'state'), answeredMicros)
    }
    printText(
      found ?? `no model ${((latest - answeredMicros) / MINUTE_MICROS).toFixed(0)} min after the answers`,
    )
  }
}

// ---- names in DNS queries

/** How many names are asked for over UDP, and how long the longest is. */
function measureNames({ data, only }: Room): void {
  const captures = (folder: string) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
      /\.pcap(ng)?(\.gz)?$/.test(file),
    )
  for (const name of asked(['week', 'watch', 'DNS tunnel'], only)) {
    const folder = name === 'DNS tunnel' ? LAB : join(data, name)
    const files = name === 'DNS tunnel' ? [ATTACKS[name]] : inFile(folder, () => captures(folder))
    const lengths = files.flatMap((file) =>
      readPackets(join(folder, file)).flatMap(({ frame }) => nameLength(frame) ?? []),
    )
    const longest = lengths.reduce((most, length) => Math.max(most, length), 0)
    printText(`${name}: ${lengths.length} DNS queries; the longest name has ${longest} characters`)
  }
}

/** Of the name that a DNS query in IPv4 asks for; null for other frames. */
function nameLength(frame: Buffer): number | null {
  const ip = ipv4At(frame)
  if (ip === null || frame[ip + 9] !== 17) return null
  const udp = ip + 4 * (frame[ip]! & 15)
  const message = udp + 8
  if (frame.length < message + 12) return null
  if (frame.readUInt16BE(udp + 2) !== 53 || (frame[message + 2]! & 0x80) !== 0) return null
  const name = readDomainName(frame, message + 12, message, frame.length)
  return name === null ? null : name.labels.reduce((sum, label) => sum + label.length + 1, -1)
}

// ---- replays

const BY_DEFAULT = { models: {}, devices: { approve: 'auto' } }

function replayWeek({ agent, folder, data, only }: Room): void {
  const weeks = readWeeks(join(data, 'week'))
  for (const device of asked([...weeks.keys()], only)) {
    const packets = weeks.get(device)!
    const { events } = replay(agent, configure(folder, device, BY_DEFAULT), packets)
    printText(`\n## ${device}`)
    showIncidents(events)
  }
}

function replayHours({ agent, folder, data, only }: Room): void {
  const weeks = readWeeks(join(data, 'week'))
  for (const device of asked([...weeks.keys()], only)) {
    const week = weeks.get(device)!
    const first = Math.floor(week[0]!.micros / DAY_MICROS) * DAY_MICROS
    const five = [0, 0, 1, 3, 5].flatMap((shift, i) =>
      week.map(({ micros, frame }) => {
        const day = Math.floor((micros - first) / DAY_MICROS)
        return { micros: micros + (7 * i + ((day + shift) % 7) - day) * DAY_MICROS, frame }
      }),
    )
    const { events } = replay(agent, configure(folder, device, BY_DEFAULT), five)
    const facts = events.filter(({ oddflow }) => oddflow.rule === 'unusual-hour')
    printText(`\n## ${device}: ${facts.length} facts in 3 weeks, ${openedIn(events)} incidents in 5`)
    for (const { timestamp, oddflow } of facts) printText(`${timestamp.slice(0, 19)} ${oddflow.summary}`)
    showIncidents(events)
  }
}

async function replayWatch({ agent, folder, data, only }: Room): Promise<void> {
  const watch = join(data, 'watch')
  const devices = readDevices(watch)
  let micros = 0
  let opened = 0
  const names = Object.keys(devices).filter((name) => devices[name]!.watched)
  for (const name of asked(names, only)) {
    const { starts, mac } = devices[name]!
    const { train: earlier, normal: later } = splitOf(devices, name, ORDER_OF_TIME)
    const read = (captures: readonly string[]): Packet[][] =>
      captures.map((capture) => {
        const packets = readPackets(join(watch, capture))
        return moved(packets, Math.round(1e6 * starts[capture.slice(name.length + 1)]!) - packets[0]!.micros)
      })
    const at = configure(folder, name, {
      model: await train(
        join(folder, `${name}.oddflow`),
        earlier.map((capture) => join(watch, capture)),
      ),
      devices: { approve: 'auto', learnHours: 0, judgeHours: 0, learnFlows: 1, stableShare: 1 },
    })
    replay(agent, at, read(earlier).flat())
    const recordings = read(later)
    const { events } = replay(agent, at, recordings.flat())
    for (const packets of recordings) micros += packets.at(-1)!.micros - packets[0]!.micros
    const own = events.filter(({ oddflow }) => oddflow.device?.mac === mac)
    opened += openedIn(events)
    printText(
      `\n## ${name}: ${later.length} captures, ${own.length} alerts of the device, ${openedIn(events)} incidents`,
    )
    showIncidents(events)
  }
  printText(`\n${opened} incidents in ${(micros / 3.6e9).toFixed(1)} hours`)
}

const SCENES = {
  lab: playLab,
  answers: answerLab,
  learning: attackLearner,
  dns: measureNames,
  week: replayWeek,
  hours: replayHours,
  watch: replayWatch,
}

export const incidents: Study = {
  name: 'incidents',
  command: () =>
    withAgent(withEvidence(new Command('incidents')))
      .description('print how many incidents an attack opens, and how many open without an attack')
      .addArgument(new Argument('<scene>', 'what the agent reads').choices(Object.keys(SCENES)))
      .argument(
        '[name]',
        'run only this row of the table that the scene prints, such as scan (lab) or the name of a device (week)',
      )
      .addHelpText(
        'after',
        `
Scenes:
  lab       in real time: each attack of the traffic lab, a new device, a device that takes another one's address, and normal traffic
  answers   each attack of the lab again, after its incidents were answered "normal"
  learning  a device scans (240 or 900 connections) while the agent still learns it, and the answer is "attack": does its first model flag the scan?
  dns       how many names devices ask DNS for, and how long they are: in normal traffic (data/week, data/watch) and in the lab's DNS tunnel
  week      a week of each device (data/week)
  hours     false incidents about unusual hours
  watch     the later half of each device's captures; a model of the earlier half judges them (data/watch)

Examples:
  oddflow-bench incidents week
  oddflow-bench incidents lab scan`,
      )
      .action((scene: keyof typeof SCENES, only: string | undefined, options: StudyOptions & AgentOptions) =>
        inTemporaryFolder((folder) =>
          SCENES[scene]({ agent: agentProgram(options), folder, data: options.data, only }),
        ),
      ),
  draw: () => Promise.resolve(new Map()),
}

/**
 * Incidents of the agent: docs/results/incidents.md is written from what this prints.
 *
 *     node tools/reproduce/incidents.mjs lab|answers|week|hours|watch     (after npm run build; evidence in ../shared or ODDFLOW_SHARED)
 *
 * lab: the captures of test/fixtures/lab, each played in real time into an agent with a model of normal-1 to 3 that watches the
 * devices of normal-4. Three situations are made from them: a new device, an address that is taken, a flood.
 * answers: each attack of the lab is read, its incidents answered "normal" at the running agent, and it is read again, then the others.
 * week: the seven days of data/week, each device alone, in the default configuration with `devices: { approve: auto }`.
 * hours: the same week five times, of which the last three begin on another weekday: facts about unusual hours.
 * watch: of each watched device of data/watch the earlier half of the captures trains, the later half is replayed.
 */
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  agent,
  captureOf,
  data,
  eventsIn,
  inOrder,
  moved,
  readPackets,
  readWeek,
  recordOf,
  root,
  runArguments,
} from './agent-runs.mjs'

const lab = join(root, 'test/fixtures/lab')
const trainer = join(root, 'apps/trainer/dist/main.js')
const folder = mkdtempSync(join(tmpdir(), 'oddflow-incidents-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const tell = (text) => process.stdout.write(`${text}\n`)

// ---- captures

const CAMERA = { ip: [192, 168, 50, 23] }

/** The camera's IPv4 frames as another device's. */
function asOther(packets, mac, lastByte) {
  return packets.flatMap(({ micros, frame }) => {
    const isFrom = frame.toString('hex', 6, 12) === cameraMac()
    const isTo = frame.toString('hex', 0, 6) === cameraMac()
    if ((!isFrom && !isTo) || frame.readUInt16BE(12) !== 0x0800) return []
    const changed = Buffer.from(frame)
    changed.set(Buffer.from(mac, 'hex'), isFrom ? 6 : 0)
    changed[(isFrom ? 26 : 30) + 3] = lastByte
    return [{ micros, frame: withChecksum(changed) }]
  })
}

function cameraMac() {
  return labels.devices.find(({ name }) => name === 'camera').mac.replaceAll(':', '')
}

function isCamera({ frame }) {
  return [0, 6].some((at) => frame.toString('hex', at, at + 6) === cameraMac())
}

function withChecksum(frame) {
  frame.writeUInt16BE(0, 24)
  let sum = 0
  for (let at = 14; at < 34; at += 2) sum += frame.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  frame.writeUInt16BE(~sum & 0xffff, 24)
  return frame
}

/** TCP SYNs to one port of the camera, from made-up addresses outside, through the gateway. */
function synFlood(atMicros, count, perSecond) {
  const gateway = labels.devices.find(({ name }) => name === 'gw').mac.replaceAll(':', '')
  return Array.from({ length: count }, (_, i) => {
    const frame = Buffer.alloc(60)
    frame.set(Buffer.from(`${cameraMac()}${gateway}08004500002c0000400040060000`, 'hex'))
    frame.set([198, 51, 100, i & 255, ...CAMERA.ip], 26)
    frame.writeUInt16BE(1024 + ((i * 7919) % 60_000), 34)
    frame.writeUInt16BE(80, 36)
    frame.writeUInt32BE((i * 2_654_435 + 1) >>> 0, 38)
    frame.set([0x60, 0x02, 0xff, 0xff], 46)
    return { micros: atMicros + Math.floor((i * 1e6) / perSecond), frame: withChecksum(frame) }
  })
}

// ---- runs

function run(program, args, options = {}) {
  const { status, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8', ...options })
  if (status !== 0) throw new Error(`${args.join(' ')}: ${stderr}`)
}

function configure(at, config) {
  mkdirSync(at, { recursive: true })
  const path = join(at, 'agent.json')
  writeFileSync(path, JSON.stringify({ state: 'state', eve: 'eve.json', ...config }))
  return path
}

function showIncidents(events, from = '') {
  for (const { timestamp, oddflow } of events) {
    if (oddflow.incident?.change === undefined) continue
    const { change, kind, level, evidence, flows } = oddflow.incident
    tell(
      `${from}${timestamp.slice(0, 19)} ${change} ${level} ${kind} (evidence ${evidence}, ${flows} flows): ${oddflow.summary}`,
    )
  }
}

// ---- the lab

const labels = JSON.parse(readFileSync(join(lab, 'labels.json'), 'utf8'))
const LOCAL = ['192.168.50.0/24', 'fd50::/64', 'fe80::/10']

function prepareLab() {
  const model = join(folder, 'lab.oddflow')
  run(trainer, [
    'train',
    ...['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz'].map((name) => join(lab, name)),
    '-o',
    model,
  ])
  return model
}

/** Plays packets in their own time; resolves to the events with the seconds from the first packet of the situation. */
async function play(name, packets, situationMicros, normal, model) {
  const at = join(folder, name)
  const config = configure(at, {
    model,
    localNetworks: LOCAL,
    devices: {
      approve: 'auto',
      learnHours: 0.005,
      judgeHours: 0.01,
      learnFlows: 5,
      stableShare: 1,
      inventoryMinutes: 1,
    },
  })
  const nowMicros = Date.now() * 1000 + 5_000_000
  const calm = join(at, 'normal.pcap')
  writeFileSync(calm, captureOf(moved(normal, nowMicros - 2_000_000 - normal.at(-1).micros)))
  run(agent, runArguments(config, calm))
  const before = eventsIn(join(at, 'eve.json')).length
  const shift = Date.now() * 1000 + 1_000_000 - packets[0].micros
  const child = spawn(process.execPath, [agent, ...runArguments(config, '-')], {
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const exited = new Promise((done) => child.on('exit', done))
  child.stdin.on('error', () => undefined)
  child.stdin.write(captureOf([]))
  const seen = []
  const look = () => {
    const events = eventsIn(join(at, 'eve.json')).slice(before)
    for (const event of events.slice(seen.length)) {
      seen.push({ event, seconds: (Date.now() * 1000 - situationMicros - shift) / 1e6 })
    }
  }
  const timer = setInterval(look, 20)
  for (let i = 0; i < packets.length; ) {
    const due = packets[i].micros + shift - Date.now() * 1000
    if (due > 0) await new Promise((done) => setTimeout(done, Math.min(due / 1000, 50)))
    const until = Date.now() * 1000 - shift
    const records = []
    for (; i < packets.length && packets[i].micros <= until; i++)
      records.push(recordOf({ ...packets[i], micros: packets[i].micros + shift }))
    if (records.length > 0) child.stdin.write(Buffer.concat(records))
  }
  child.stdin.end()
  await exited
  look()
  clearInterval(timer)
  return seen
}

async function playLab() {
  const model = prepareLab()
  const normal = readPackets(join(lab, 'normal-4.pcap.gz'))
  const span = normal.at(-1).micros - normal[0].micros
  /** A situation and a minute of the devices' own traffic behind it. */
  const withNormal = (packets) => {
    const end = packets.at(-1).micros
    return [...packets, ...moved(normal, end + 200_000 - normal[0].micros)]
  }
  const isOf = ({ frame }, text) => frame.includes(Buffer.from(text))
  const captured = (file, address) => {
    const packets = readPackets(join(lab, file))
    return [withNormal(packets), packets.find((packet) => isOf(packet, address)).micros]
  }
  const later = moved(normal, span + 1_000_000)
  const began = later[0].micros + 20_000_000
  const beside = (packets) => [inOrder([...later, ...packets]), packets[0].micros]
  const afterwards = later.filter(({ micros }) => micros >= began)
  const taken = asOther(afterwards, '020000000078', CAMERA.ip[3])
  const situations = {
    nothing: [later, later[0].micros],
    scan: captured('novel-scan.pcap', [192, 168, 50, 66]),
    'password guessing': captured('novel-bruteforce.pcap.gz', [192, 168, 50, 66]),
    download: captured('novel-firmware.pcap', [203, 0, 113, 20]),
    upload: captured('novel-publishing.pcap.gz', [203, 0, 113, 30]),
    'DNS tunnel': captured('novel-dnstunnel.pcap.gz', [203, 0, 113, 53]),
    'new device': beside(asOther(afterwards, '020000000077', 77)),
    'taken address': [
      inOrder([...later.filter((packet) => !afterwards.includes(packet) || !isCamera(packet)), ...taken]),
      taken[0].micros,
    ],
    flood: beside(synFlood(began, 20_000, 4000)),
  }
  const asked = process.argv[3]
  for (const [name, [packets, situationMicros]] of Object.entries(situations)) {
    if (asked !== undefined && asked !== name) continue
    const seen = await play(name.replaceAll(' ', '-'), packets, situationMicros, normal, model)
    const incidents = seen.filter(({ event }) => event.oddflow.incident?.change !== undefined)
    const rules = seen
      .filter(({ event }) => event.event_type === 'alert')
      .map(({ event }) => event.oddflow.rule)
    const byRule = [...new Set(rules)].map(
      (rule) => `${rules.filter((each) => each === rule).length} ${rule}`,
    )
    const ids = new Set(incidents.map(({ event }) => event.oddflow.incident.id))
    tell(`\n## ${name}: ${ids.size} incidents, alerts: ${byRule.join(', ')}`)
    for (const { event, seconds } of incidents)
      showIncidents([event], `${event.oddflow.incident.id.slice(0, 4)} ${seconds.toFixed(2)} s `)
  }
}

/** Reads attacks one after another into agents of one state folder, and answers what the first of them opens. */
async function answerLab() {
  const model = prepareLab()
  const normal = readPackets(join(lab, 'normal-4.pcap.gz'))
  const attacks = {
    scan: 'novel-scan.pcap',
    'password guessing': 'novel-bruteforce.pcap.gz',
    download: 'novel-firmware.pcap',
    upload: 'novel-publishing.pcap.gz',
    'DNS tunnel': 'novel-dnstunnel.pcap.gz',
  }
  const asked = process.argv[3]
  for (const answered of Object.keys(attacks)) {
    if (asked !== undefined && asked !== answered) continue
    const at = join(folder, `answer-${answered.replaceAll(' ', '-')}`)
    const config = configure(at, {
      model,
      localNetworks: LOCAL,
      devices: { approve: 'auto', learnHours: 0.005, judgeHours: 0.01, learnFlows: 5, stableShare: 1 },
    })
    let latest = normal.at(-1).micros
    /** An attack or nothing, so many seconds after what was read before, and the devices' own traffic behind it. */
    const capture = (name, seconds) => {
      const attack = name === null ? [] : readPackets(join(lab, attacks[name]))
      const begin = latest + 1e6 * seconds
      const packets = attack.length === 0 ? [] : moved(attack, begin - attack[0].micros)
      packets.push(...moved(normal, (packets.at(-1)?.micros ?? begin) + 200_000 - normal[0].micros))
      latest = packets.at(-1).micros
      const path = join(at, 'attack.pcap')
      writeFileSync(path, captureOf(packets))
      return path
    }
    const calm = join(at, 'normal.pcap')
    writeFileSync(calm, captureOf(normal))
    run(agent, runArguments(config, calm))
    // flows without an end are judged with the end of a recording; the answer is taken by an agent that runs
    run(agent, runArguments(config, capture(answered, 5)))
    const args = runArguments(config, capture(null, 5)).filter((each) => each !== '--once')
    const child = spawn(process.execPath, [agent, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
    const exited = new Promise((done) => child.on('exit', done))
    for await (const piece of child.stderr) if (String(piece).includes('waiting for a signal')) break
    const ask = (...words) =>
      spawnSync(process.execPath, [agent, 'incidents', ...words, '--state', join(at, 'state')], {
        encoding: 'utf8',
      })
    tell(`\n## ${answered}`)
    for (const line of ask('list', '--format', 'json').stdout.split('\n').filter(Boolean)) {
      const { id, kind, device } = JSON.parse(line)
      const { stdout, stderr } = ask('answer', id, 'normal')
      tell(`${kind} of ${device.mac}: ${stdout}${stderr}`.trimEnd())
    }
    child.kill()
    await exited
    for (const name of [answered, ...Object.keys(attacks).filter((each) => each !== answered)]) {
      const before = eventsIn(join(at, 'eve.json')).length
      run(agent, runArguments(config, capture(name, 4000)))
      tell(name === answered ? 'the same again:' : `${name}:`)
      const events = eventsIn(join(at, 'eve.json')).slice(before)
      showIncidents(
        events.filter(({ oddflow }) => oddflow.incident?.change !== 'over'),
        '  ',
      )
    }
  }
}

// ---- replays

function replayWeek() {
  for (const device of readdirSync(join(data, 'week'))) {
    const packets = readWeek(join(data, 'week', device))
    const at = join(folder, device)
    const config = configure(at, { models: {}, devices: { approve: 'auto' } })
    const capture = join(at, 'week.pcap')
    writeFileSync(capture, captureOf(packets))
    run(agent, runArguments(config, capture))
    tell(`\n## ${device}`)
    showIncidents(eventsIn(join(at, 'eve.json')))
  }
}

function replayHours() {
  const dayMicros = 86_400_000_000
  for (const device of readdirSync(join(data, 'week'))) {
    const days = readdirSync(join(data, 'week', device)).filter((name) => /^day\d+\.pcap$/.test(name))
    const week = inOrder(days.flatMap((name) => readPackets(join(data, 'week', device, name))))
    const first = Math.floor(week[0].micros / dayMicros) * dayMicros
    const weeks = [0, 0, 1, 3, 5].flatMap((shift, i) =>
      week.map(({ micros, frame }) => {
        const day = Math.floor((micros - first) / dayMicros)
        return { micros: micros + (7 * i + ((day + shift) % 7) - day) * dayMicros, frame }
      }),
    )
    const at = join(folder, `hours-${device}`)
    const config = configure(at, { models: {}, devices: { approve: 'auto' } })
    const capture = join(at, 'weeks.pcap')
    writeFileSync(capture, captureOf(inOrder(weeks)))
    run(agent, runArguments(config, capture))
    const events = eventsIn(join(at, 'eve.json'))
    const facts = events.filter(({ oddflow }) => oddflow.rule === 'unusual-hour')
    const incidents = events.filter(({ oddflow }) => oddflow.incident?.change === 'opened')
    tell(`\n## ${device}: ${facts.length} facts in 3 weeks, ${incidents.length} incidents in 5`)
    for (const { timestamp, oddflow } of facts) tell(`${timestamp.slice(0, 19)} ${oddflow.summary}`)
    showIncidents(events)
  }
}

/** Of each watched device the earlier half trains a model and shows its contacts, the later is watched. */
function replayWatch() {
  const devices = JSON.parse(readFileSync(join(data, 'watch/devices.json'), 'utf8'))
  let hours = 0
  let opened = 0
  for (const [name, { starts, watched, mac }] of Object.entries(devices)) {
    if (!watched) continue
    const captures = Object.entries(starts).sort(([, a], [, b]) => a - b)
    const half = Math.floor(captures.length / 2)
    const packetsOf = (some) =>
      inOrder(
        some.flatMap(([file, start]) => {
          const packets = readPackets(join(data, 'watch', name, file))
          return moved(packets, Math.round(1e6 * start) - packets[0].micros)
        }),
      )
    const at = join(folder, name)
    mkdirSync(at)
    const model = join(at, 'device.oddflow')
    run(trainer, [
      'train',
      ...captures.slice(0, half).map(([file]) => join(data, 'watch', name, file)),
      '-o',
      model,
    ])
    const config = configure(at, {
      model,
      devices: { approve: 'auto', learnHours: 0, judgeHours: 0, learnFlows: 1, stableShare: 1 },
    })
    const parts = [captures.slice(0, half), captures.slice(half)].map(packetsOf)
    const files = parts.map((packets, i) => {
      const path = join(at, `${i}.pcap`)
      writeFileSync(path, captureOf(packets))
      return path
    })
    run(agent, runArguments(config, files[0]))
    const before = eventsIn(join(at, 'eve.json')).length
    run(agent, runArguments(config, files[1]))
    const events = eventsIn(join(at, 'eve.json')).slice(before)
    const spans = captures.slice(half).map(([file]) => {
      const packets = readPackets(join(data, 'watch', name, file))
      return packets.at(-1).micros - packets[0].micros
    })
    hours += spans.reduce((sum, span) => sum + span, 0) / 3.6e9
    const own = events.filter(({ oddflow }) => oddflow.device?.mac === mac)
    const news = events.filter(({ oddflow }) => oddflow.incident?.change === 'opened')
    opened += news.length
    tell(
      `\n## ${name}: ${spans.length} captures, ${own.length} alerts of the device, ${news.length} incidents`,
    )
    showIncidents(events)
  }
  tell(`\n${opened} incidents in ${hours.toFixed(1)} hours`)
}

const studies = { lab: playLab, answers: answerLab, week: replayWeek, hours: replayHours, watch: replayWatch }
const study = studies[process.argv[2]]
if (study === undefined) {
  process.stderr.write('expected lab, answers, week, hours or watch\n')
  process.exitCode = 2
} else await study()

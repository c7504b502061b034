/**
 * Slow poisoning of what the agent learns: docs/results/poisoning.md and .json.
 *
 *     node tools/reproduce/poisoning.mjs [FOLDER]     (after npm run build; FOLDER: ../shared/data/week; 30 to 60 minutes)
 *     node tools/reproduce/poisoning.mjs docs/results/poisoning.json     (draws the page again)
 *
 * FOLDER has a folder for each device, with a capture for each day (dayN.pcap, little-endian pcap in microseconds). Each
 * device's recording is replayed again and again, each time some days later by its timestamps, in one state folder: weeks
 * pass in seconds. From the second week on somebody adds traffic of the device that grows slowly towards an attack. At the
 * end of each week the agent meets the attack at full strength, with a copy of its state folder.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { agent, data, eventsIn, readWeek, root, runArguments, writeCapture } from './agent-runs.mjs'

const week = resolve(process.argv[2] ?? join(data, 'week'))
const SECOND = 1_000_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Weeks in which somebody poisons, after one in which nobody does. */
const WEEKS = 6

const BASE = 'devices: { approve: auto }\nfold: false\nstate: state\neve: eve.json\n'
const CONFIGURATIONS = {
  default: `models: {}\n${BASE}`,
  'learning: online': `models: {}\nlearning: { online: true }\n${BASE}`,
}

// ---- captures

const isLocal = (address) => /^(10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(address)

/** The device with the most packets, and the TCP server outside with the most flows, as the recording has them. */
function endsOf(packets) {
  const devices = new Map()
  const flows = new Map()
  for (const { frame } of packets) {
    const ip = frame.readUInt16BE(12) === 0x8100 ? 18 : 14
    if (frame.length < ip + 40 || frame.readUInt16BE(ip - 2) !== 0x0800) continue
    const [source, destination] = [12, 16].map((at) => frame.subarray(ip + at, ip + at + 4).join('.'))
    if (!isLocal(source) || isLocal(destination) || frame[ip + 16] >= 224) continue
    const mac = frame.toString('hex', 6, 12)
    const of = devices.get(mac) ?? { address: source, gateway: frame.subarray(0, 6), count: 0 }
    of.count++
    devices.set(mac, of)
    if (frame[ip + 9] !== 6) continue
    const transport = ip + 4 * (frame[ip] & 15)
    const key = `${mac} ${destination} ${frame.readUInt16BE(transport + 2)}`
    const up = flows.get(key) ?? new Map()
    const port = frame.readUInt16BE(transport)
    up.set(port, (up.get(port) ?? 0) + frame.readUInt16BE(ip + 2))
    flows.set(key, up)
  }
  const [mac, { address, gateway }] = [...devices].sort((a, b) => b[1].count - a[1].count)[0]
  const [key, up] = [...flows]
    .filter(([each]) => each.startsWith(mac))
    .sort((a, b) => b[1].size - a[1].size)[0]
  const [, server, port] = key.split(' ')
  const sizes = [...up.values()].sort((a, b) => a - b)
  return {
    device: { mac: Buffer.from(mac, 'hex'), address },
    gateway: Buffer.from(gateway),
    server,
    port: Number(port),
    /** Of a flow to that server: the median. */
    upBytes: sizes[sizes.length >> 1],
  }
}

// ---- made traffic

const bytesOf = (address) => Buffer.from(address.split('.').map(Number))

function checksum(bytes) {
  let sum = 0
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16)
  return ~sum & 0xffff
}

function tcpPacket(micros, from, to, flags, payloadBytes) {
  const frame = Buffer.alloc(14 + 40 + payloadBytes)
  to.mac.copy(frame, 0)
  from.mac.copy(frame, 6)
  frame.writeUInt16BE(0x0800, 12)
  frame[14] = 0x45
  frame.writeUInt16BE(40 + payloadBytes, 16)
  frame.writeUInt16BE(0x4000, 20)
  frame[22] = 64
  frame[23] = 6
  bytesOf(from.address).copy(frame, 26)
  bytesOf(to.address).copy(frame, 30)
  frame.writeUInt16BE(checksum(frame.subarray(14, 34)), 24)
  frame.writeUInt16BE(from.port, 34)
  frame.writeUInt16BE(to.port, 36)
  frame[46] = 0x50
  frame[47] = flags
  frame.writeUInt16BE(0xffff, 48)
  return { micros: Math.round(micros), frame }
}

/** A connection that carries `turns`: bytes of the client (positive) and of the server (negative), 20 ms apart. */
function connection(micros, client, server, turns) {
  const packets = []
  let at = micros
  const say = (isClient, flags, payload = 0) => {
    packets.push(tcpPacket(at, isClient ? client : server, isClient ? server : client, flags, payload))
    at += payload > 0 ? 1000 : 20_000
  }
  say(true, 2)
  say(false, 18)
  say(true, 16)
  for (const turn of turns) {
    for (let left = Math.abs(turn); left > 0; left -= 1400) say(turn > 0, 24, Math.min(1400, left))
    at += 20_000
    say(turn < 0, 16)
  }
  say(true, 17)
  say(false, 17)
  say(true, 16)
  return packets
}

/** A port that is closed. */
const refused = (micros, client, server) => [
  tcpPacket(micros, client, server, 2, 0),
  tcpPacket(micros + 2000, server, client, 20, 0),
]

/** `count` times within `spanMicros`, evenly. */
const spread = (count, fromMicros, spanMicros, make) =>
  Array.from({ length: count }, (_, i) => make(fromMicros + ((i + 0.5) * spanMicros) / count, i)).flat()

/**
 * What somebody does: `step`, of a day from 0 on; `attack`, the same at full strength, within an hour.
 * Each has a peer of its own by which its alerts are known.
 */
function kindsOf(ends) {
  const own = (port) => ({ ...ends.device, port })
  const outside = (address, port) => ({ mac: ends.gateway, address, port })
  const client = (i) => 50_000 + (i % 10_000)
  // a server of the usual one's network, so that its contact is none
  const server = ends.server.replace(/\d+$/, (last) => String((Number(last) + 101) % 256))
  const upload = (micros, i, upBytes) =>
    connection(micros, own(client(i)), outside(server, ends.port), [upBytes, -1500])
  const beacon = (micros, i) =>
    connection(micros, own(client(i)), outside('203.0.113.7', 443), [320, -900, 180, -240])
  const target = {
    mac: Buffer.from('00163e0000fa', 'hex'),
    address: ends.device.address.replace(/\d+$/, '250'),
  }
  const probe = (micros, i) => refused(micros, own(client(i)), { ...target, port: 1 + (i % 30_000) })
  const guess = (micros, i) =>
    connection(micros, outside('203.0.113.99', client(i)), own(22), [
      ...[21, -21, 1400, -1080, 48, -452, 16, 44, -44, 68, -52, 148, -52, 84, -52],
    ])
  const doubled = (day, most) => Math.min(most, 2 ** Math.floor(day))
  return {
    'upload grows 5 % a day': {
      peer: server,
      full: '24 uploads of 1 MB',
      step: (day, at) =>
        spread(24, at, DAY, (t, i) => upload(t, 24 * day + i, Math.round(ends.upBytes * 1.05 ** day))),
      attack: (at) => spread(24, at, HOUR, (t, i) => upload(t, 9000 + i, 1_000_000)),
    },
    'upload grows 20 % a day': {
      peer: server,
      full: '24 uploads of 1 MB',
      step: (day, at) =>
        spread(24, at, DAY, (t, i) =>
          upload(t, 24 * day + i, Math.min(1_000_000, Math.round(ends.upBytes * 1.2 ** day))),
        ),
      attack: (at) => spread(24, at, HOUR, (t, i) => upload(t, 9000 + i, 1_000_000)),
    },
    'scan of 1, 2, 4, … ports a day': {
      peer: target.address,
      full: '200 ports in 20 s',
      step: (day, at) => spread(doubled(day, 256), at, DAY, (t, i) => probe(t, 256 * day + i)),
      attack: (at) => spread(200, at, 20 * SECOND, (t, i) => probe(t, 29_000 + i)),
    },
    'beacon to a new peer, 1, 2, 4, … a day': {
      peer: '203.0.113.7',
      full: 'one a minute for an hour',
      step: (day, at) => spread(doubled(day / 2, 144), at, DAY, (t, i) => beacon(t, 144 * day + i)),
      attack: (at) => spread(60, at, HOUR, (t, i) => beacon(t, 9000 + i)),
    },
    'passwords guessed, 1, 2, 4, … a day': {
      peer: '203.0.113.99',
      full: '60 guesses in 10 min',
      step: (day, at) => spread(doubled(day / 2, 128), at, DAY, (t, i) => guess(t, 128 * day + i)),
      attack: (at) => spread(60, at, 10 * MINUTE, (t, i) => guess(t, 9000 + i)),
    },
  }
}

// ---- replays

const folder = mkdtempSync(join(tmpdir(), 'oddflow-poisoning-'))
const tell = (text) => process.stderr.write(`${text}\n`)

/** Runs the agent in a folder that has its configuration and state. Alerts of flows, and the counters. */
function run(at, packets) {
  const before = `${at}-before`
  rmSync(before, { recursive: true, force: true })
  cpSync(at, before, { recursive: true })
  writeCapture(join(at, 'in.pcap'), packets)
  rmSync(join(at, 'eve.json'), { force: true })
  const args = [agent, ...runArguments(join(at, 'agent.yaml'), join(at, 'in.pcap'))]
  const ran = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 26 })
  if (ran.signal === 'SIGABRT') {
    // Node 20.20 aborts now and then where a thread of a training ends while memory is collected
    tell('a replay ended with SIGABRT; once more')
    rmSync(at, { recursive: true })
    cpSync(before, at, { recursive: true })
    return run(at, packets)
  }
  if (ran.status !== 0) throw new Error(`the agent ended with ${ran.signal ?? ran.status}: ${ran.stderr}`)
  const events = eventsIn(join(at, 'eve.json')).filter(
    ({ oddflow }) => oddflow.device !== undefined && oddflow.rule !== 'device-ready',
  )
  return { events, counters: JSON.parse(ran.stdout) }
}

const byRule = (events) => {
  const counts = {}
  for (const { oddflow } of events) counts[oddflow.rule] = (counts[oddflow.rule] ?? 0) + 1
  return counts
}

/** One attacker, week by week. `kind` null: nobody, and all attacks are met at the end of each week. */
function poison(name, packets, configuration, kind, kinds) {
  const at = mkdtempSync(join(folder, 'run-'))
  writeFileSync(join(at, 'agent.yaml'), CONFIGURATIONS[configuration])
  const first = packets[0].micros
  const period = DAY * Math.ceil((packets.at(-1).micros - first) / DAY + 0.01)
  const days = period / DAY
  const weeks = []
  for (let week = 0; week <= WEEKS; week++) {
    const shift = week * period
    const base = packets.map((packet) => ({ ...packet, micros: packet.micros + shift }))
    const steps =
      week === 0 || kind === null
        ? []
        : Array.from({ length: days }, (_, day) => {
            const since = (week - 1) * days + day
            return kinds[kind].step(since, first + shift + day * DAY)
          }).flat()
    const { events, counters } = run(at, [...base, ...steps])
    const isOf = (peer) => (event) => [event.src_ip, event.dest_ip].includes(peer)
    const peer = kind === null ? null : kinds[kind].peer
    const found = {}
    for (const [each, { attack, peer: whose }] of Object.entries(kinds)) {
      if (kind !== null && each !== kind) continue
      const copy = `${at}-attack`
      rmSync(copy, { recursive: true, force: true })
      mkdirSync(copy)
      cpSync(join(at, 'state'), join(copy, 'state'), { recursive: true })
      cpSync(join(at, 'agent.yaml'), join(copy, 'agent.yaml'))
      const met = run(copy, attack(first + shift + period))
      found[each] = byRule(met.events.filter(isOf(whose)))
    }
    weeks.push({
      week,
      falseAlerts: byRule(events.filter((event) => peer === null || !isOf(peer)(event))),
      alerts: peer === null ? {} : byRule(events.filter(isOf(peer))),
      found,
      rounds: counters.models.learning?.rounds ?? null,
    })
  }
  tell(
    `${name}, ${configuration}, ${kind ?? 'nobody'}: ${JSON.stringify(weeks.map(({ alerts, found }) => ({ alerts, found })))}`,
  )
  return { device: name, configuration, kind, days, weeks }
}

const isDrawnAgain = week.endsWith('.json')
const results = isDrawnAgain ? JSON.parse(readFileSync(week, 'utf8')) : []
for (const name of isDrawnAgain ? [] : readdirSync(week).sort()) {
  const packets = readWeek(join(week, name))
  const ends = endsOf(packets)
  const kinds = kindsOf(ends)
  for (const configuration of Object.keys(CONFIGURATIONS)) {
    for (const kind of [null, ...Object.keys(kinds)])
      results.push(poison(name, packets, configuration, kind, kinds))
  }
}
rmSync(folder, { recursive: true })

// ---- page

const total = (byRule) => Object.values(byRule ?? {}).reduce((sum, n) => sum + n, 0)
const numbers = (list) => list.join(' ')
const scores = (byRule) => byRule?.score ?? 0
const FACTS = ['port-scan', 'host-scan', 'first-contact']
const factsIn = (weeks) =>
  FACTS.filter((rule) => weeks.some((byRule) => byRule?.[rule] !== undefined)).map((rule) => {
    const count = weeks.filter((byRule) => byRule?.[rule] !== undefined).length
    return `${rule} in ${count} of ${weeks.length}`
  })

function table(configuration) {
  const rows = results
    .filter((each) => each.configuration === configuration && each.kind !== null)
    .map(({ device, kind, weeks }) => {
      const clean = results.find(
        (each) => each.device === device && each.configuration === configuration && each.kind === null,
      )
      const found = weeks.slice(1).map((week) => week.found[kind])
      const alone = clean.weeks.slice(1).map((week) => week.found[kind])
      const alerts = weeks.slice(1).map((week) => total(week.alerts))
      const facts = factsIn(found).join(', ')
      return `| ${device} | ${kind} | ${numbers(alerts)} | ${numbers(alone.map(scores))} | ${numbers(found.map(scores))} | ${facts || 'none'} |`
    })
  return [
    '| device | added traffic | its alerts, week by week | flagged without poisoning | flagged after each week of it | facts about the attack after it |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n')
}

/** Attacks of which at least half is flagged after the last week, or a fact reported. */
function held(configuration) {
  const attacks = results.filter((each) => each.configuration === configuration && each.kind !== null)
  const isFound = ({ kind, weeks }, at) => {
    const before = scores(weeks[0].found[kind])
    return scores(weeks.at(at).found[kind]) * 2 >= before && before > 0
  }
  const hasFact = ({ kind, weeks }) => factsIn([weeks.at(-1).found[kind]]).length > 0
  return {
    all: attacks.length,
    noticed: attacks.filter((each) => total(each.weeks[0].found[each.kind]) > 0).length,
    scored: attacks.filter((each) => scores(each.weeks[0].found[each.kind]) > 0).length,
    stillScored: attacks.filter((each) => isFound(each, -1)).length,
    stillFact: attacks.filter((each) => !isFound(each, -1) && hasFact(each)).length,
    warned: attacks.filter((each) => each.weeks.slice(1).some((week) => total(week.alerts) > 0)).length,
  }
}
const heldText = (configuration) => {
  const { all, noticed, scored, stillScored, stillFact, warned } = held(configuration)
  return `Of ${all} attacks ${noticed} are noticed before the poisoning: ${scored} by their score, the others by a fact alone. After ${WEEKS} weeks ${stillScored} are still noticed by their score (half of the flows or more) and ${stillFact} more by a fact. In ${warned} of ${all} series the poisoning itself raised alerts.`
}
const totals = results
  .map(({ weeks }) => weeks.reduce((sum, { rounds }) => sum + (rounds?.refused ?? 0), 0))
  .reduce((sum, n) => sum + n, 0)
const accepted = results.map(({ weeks }) => weeks.at(-1).rounds?.accepted ?? 0).reduce((sum, n) => sum + n, 0)
const page = `# Slow poisoning

What the agent learns from traffic that grows slowly towards an attack, and whether it then notices the attack at full strength.

**Time is shortened.** Each device's recording of a week (data/week) is replayed ${WEEKS + 1} times in one state folder, each time later by its timestamps, so that
seven weeks pass in minutes. Nothing else is shortened: hours of learning, rows an hour and expiry go by the packets' clock. A week that repeats is easier than a real one, since it has no
drift of its own. The first week has no poisoning; from the second on, the added traffic grows every day. At the end of each week the agent meets the attack at full strength with a copy of its state folder:
24 uploads of 1 MB to a server of a known network, 200 ports in 20 seconds, 60 beacons to a new peer in an hour, 60 password guesses in ten minutes.

The lists of numbers are the ${WEEKS} weeks of poisoning. *Flagged* counts flows of the attack that the model finds novel; *without poisoning* is the same attack against an agent without poisoning.

## By default

\`models: {}\`, \`devices: { approve: auto }\`. ${heldText('default')}

${table('default')}

## With learning: online

${heldText('learning: online')} Rounds of learning in the last runs: ${accepted} accepted, ${totals} refused.

${table('learning: online')}

## What gets in, and what stops it

- **By default a model that keeps its promise is final.** Nothing gets in: the poisoned traffic is an alert each time, for all weeks (schlage-lock-01, sifely-hub-01).
- **A device with few flows is the weak one.** Its model is made again as flows come, until there are as many as the threshold takes. One novel flow a day and one for 50 rows is learned, and flows like it are normal
  for the next model. blink-cam-01 has 14 flows a day: a single burst at the end of its first week changes the model while the burst lasts (14 of 60 beacons are flagged, where the model of a week later flags 60). After one
  week of poisoning the attack at full strength is not flagged. The alerts of that week are the only warning by score.
- **With \`learning: online\` no round was refused.** Each step is small, and the guard refuses large ones.
- **Models of a flow's first packets notice less to begin with** (\`learning: online\` uses them): 24 uploads of 1 MB on schlage-lock-01 are not flagged without any poisoning.
- **Facts do not learn from scores.** \`port-scan\` is reported after every week. A first contact is one alert; after it the peer is known.

What to do about it: look at each alert of a device with few flows; use \`learning: online\` only where you trust everybody in the network; where a device may be compromised already, bring its model from elsewhere.

Tried and not taken: learning novel flows a day late, and of a burst of 5 or more in a day only on the third such day of a week. False alerts rose from 1.67 to 2.09 a day and device on [a week through the agent](agent-week.md).

- Command: \`node tools/reproduce/poisoning.mjs\`; figures: [poisoning.json](poisoning.json)
`
const folderOfPages = join(root, 'docs/results')
if (!isDrawnAgain) {
  const lines = results.map((each) => JSON.stringify(each)).join(',\n')
  writeFileSync(join(folderOfPages, 'poisoning.json'), `[\n${lines}\n]\n`)
}
writeFileSync(join(folderOfPages, 'poisoning.md'), page)

/**
 * A week through the agent: docs/results/agent-week.md and .json.
 *
 *     node tools/reproduce/agent-week.mjs [FOLDER]     (after npm run build; FOLDER: ../shared/data/week)
 *
 * FOLDER has a folder for each device, with a capture for each day (dayN.pcap, little-endian pcap in microseconds). They are
 * replayed as one recording, each device alone and all together, by the bundled agent in its default configuration with
 * `devices: { approve: auto }`. Then each device's week is replayed TRIES times more with one of its own later flows added, as it
 * was but with a peer that the device never had.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { agent, data, eventsIn, readWeek, root, runArguments, writeCapture } from './agent-runs.mjs'

const given = process.argv[2]
const week = resolve(given ?? join(data, 'week'))
const DAY = 86_400_000_000
const TRIES = 10
/** A peer is unknown from this day on: each device is watched by then. */
const TRIES_FROM = 3
const UNKNOWN = [203, 0, 113, 7]

// ---- captures

/** TCP and UDP over IPv4 in Ethernet, with one VLAN tag or none; null for anything else. */
function endsOf({ frame }) {
  const isTagged = frame.length >= 20 && frame.readUInt16BE(12) === 0x8100
  const ip = isTagged ? 18 : 14
  if (frame.length < ip + 24 || frame.readUInt16BE(ip - 2) !== 0x0800) return null
  const protocol = frame[ip + 9]
  if (protocol !== 6 && protocol !== 17) return null
  const transport = ip + 4 * (frame[ip] & 15)
  const end = (address, port) => ({
    at: address,
    address: frame.subarray(address, address + 4).join('.'),
    port: frame.readUInt16BE(port),
  })
  return { protocol, source: end(ip + 12, transport), destination: end(ip + 16, transport + 2) }
}

const isLocal = (address) => /^(10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.)/.test(address)
const isOutside = (address) =>
  !isLocal(address) && Number(address.split('.')[0]) < 224 && !address.startsWith('0.')

/** TRIES flows with peers outside, spread over the days from TRIES_FROM on, each as it would be a minute later with UNKNOWN. */
function unknownFlows(packets) {
  const start = packets[0].micros + TRIES_FROM * DAY
  const flows = new Map()
  for (const packet of packets) {
    if (packet.micros < start) continue
    const ends = endsOf(packet)
    if (ends === null) continue
    const outside = [ends.source, ends.destination].filter(({ address }) => isOutside(address))
    if (outside.length !== 1) continue
    const key = [
      ends.protocol,
      ...[ends.source, ends.destination].map(({ address, port }) => `${address}:${port}`).sort(),
    ].join(' ')
    if (!flows.has(key)) flows.set(key, [])
    flows.get(key).push({ packet, peer: outside[0].at })
  }
  const whole = [...flows.values()].filter((flow) => flow.length >= 4)
  const tries = Array.from(
    { length: Math.min(TRIES, whole.length) },
    (_, i) => whole[Math.floor((i * whole.length) / TRIES)],
  )
  return tries.map((flow) =>
    flow.map(({ packet, peer }) => {
      const frame = Buffer.from(packet.frame)
      frame.set(UNKNOWN, peer)
      return { ...packet, micros: packet.micros + 60_000_000, frame }
    }),
  )
}

// ---- replays

const folder = mkdtempSync(join(tmpdir(), 'oddflow-agent-week-'))
let runs = 0
const tell = (text) => process.stderr.write(`${text}\n`)

function replay(packets) {
  const at = join(folder, String(runs++))
  mkdirSync(at)
  const capture = join(at, 'week.pcap')
  writeCapture(capture, packets)
  const last = packets.reduce((latest, { micros }) => Math.max(latest, micros), 0)
  writeFileSync(
    join(at, 'agent.yaml'),
    'models: {}\ndevices: { approve: auto }\nstate: state\neve: eve.json\n',
  )
  const args = [agent, ...runArguments(join(at, 'agent.yaml'), capture)]
  const { status, signal } = spawnSync(process.execPath, args, { stdio: 'ignore' })
  if (status !== 0) {
    // Node 20.20 aborts now and then where a thread of a training ends while memory is collected
    tell(`a replay ended with ${signal ?? status}; once more`)
    return replay(packets)
  }
  // what is told of the agent itself has no device
  const events = eventsIn(join(at, 'eve.json')).filter(({ oddflow }) => oddflow.device !== undefined)
  const known = JSON.parse(readFileSync(join(at, 'state/devices.json'), 'utf8')).devices
  return {
    last,
    events,
    devices: known.map((device) => describe(device, events, last)),
  }
}

const fixed = (value, digits) => (value === null ? '–' : value.toFixed(digits))
const microsOf = ({ timestamp }) => Date.parse(`${timestamp.slice(0, 19)}Z`) * 1000

function describe(
  { key, firstSeenMicros, lastSeenMicros, flows, state, watchedFlows, watchedNovel },
  events,
  last,
) {
  const own = events.filter(({ oddflow }) => oddflow.device.mac === key)
  const ready = own.find(({ oddflow }) => oddflow.rule === 'device-ready')
  const readyMicros = ready === undefined ? null : microsOf(ready)
  const after =
    readyMicros === null ? [] : own.filter((event) => event !== ready && microsOf(event) >= readyMicros)
  const byRule = {}
  for (const { oddflow } of after) byRule[oddflow.rule] = (byRule[oddflow.rule] ?? 0) + 1
  const days = readyMicros === null ? null : (last - readyMicros) / DAY
  return {
    key,
    state,
    flows,
    seenDays: (lastSeenMicros - firstSeenMicros) / DAY,
    readyHours: readyMicros === null ? null : Math.max(0, readyMicros - firstSeenMicros) / 3_600_000_000,
    promise: ready === undefined ? null : (/: (.*)$/.exec(ready.oddflow.summary.slice(20))?.[1] ?? null),
    daysAfter: days,
    alerts: after.length,
    alertsPerDay: days === null ? null : after.length / days,
    byRule,
    watchedFlows,
    watchedNovel,
  }
}

const names = readdirSync(week).sort()
const weeks = new Map(names.map((name) => [name, readWeek(join(week, name))]))
const alone = []
for (const [name, packets] of weeks) {
  const { devices } = replay(packets)
  const tries = unknownFlows(packets)
  const rules = tries.map((flow) => {
    const { events } = replay([...packets, ...flow])
    const its = events.filter(({ src_ip, dest_ip }) => [src_ip, dest_ip].includes(UNKNOWN.join('.')))
    return its.map(({ oddflow }) => oddflow.rule)
  })
  const byContact = rules.filter((each) => each.includes('first-contact')).length
  const byOther = rules.filter((each) => each.length > 0 && !each.includes('first-contact')).length
  alone.push({ name, devices, tries: tries.length, byContact, byOther })
  const texts = devices.map(
    ({ key, readyHours, alertsPerDay }) =>
      `${key} watched after ${fixed(readyHours, 1)} h, ${fixed(alertsPerDay, 2)} alerts a day`,
  )
  tell(`${name}: ${texts.join('; ')}; unknown peers ${byContact} + ${byOther} of ${tries.length}`)
}
const together = replay([...weeks.values()].flat()).devices
rmSync(folder, { recursive: true })

// ---- page

const rulesText = (byRule) =>
  Object.entries(byRule)
    .map(([rule, count]) => `${count} ${rule}`)
    .join(', ')
function table(devices) {
  return [
    '| replay | device | flows | watched after | promise then | alerts a day | alerts since |',
    '| --- | --- | ---: | ---: | --- | ---: | --- |',
    ...devices.map(
      ([replayed, d]) =>
        `| ${replayed} | ${d.key} | ${d.flows} | ${d.readyHours === null ? 'never' : `${fixed(d.readyHours, 1)} h`} | ${d.promise ?? ''} | ${fixed(d.alertsPerDay, 2)} | ${d.readyHours === null ? '' : `${d.alerts} in ${fixed(d.daysAfter, 1)} days${d.alerts === 0 ? '' : `: ${rulesText(d.byRule)}`}`} |`,
    ),
  ].join('\n')
}
const rows = [
  ...alone.flatMap(({ name, devices }) => devices.map((device) => [name, device])),
  ...together.map((device) => ['all together', device]),
]
const meanOf = (devices) => {
  const counted = devices.filter(({ alertsPerDay }) => alertsPerDay !== null)
  return counted.reduce((sum, { alertsPerDay }) => sum + alertsPerDay, 0) / Math.max(1, counted.length)
}
const page = `# A week through the agent

Seven days of real devices (data/week: a capture a day and device), replayed through the bundled agent in its default
configuration (\`models: {}\`) with \`devices: { approve: auto }\`: each device's week alone, and all in one recording. All traffic counts as normal, so each alert after a device is
watched counts as false, although real incidents in these networks are possible.

${table(rows)}

Alerts a day and device since it is watched: ${meanOf(alone.flatMap(({ devices }) => devices)).toFixed(2)} on average alone, ${meanOf(together).toFixed(2)} together. A device is watched after 48 hours of the recording at the latest; where its next
packet comes later, as it does of a device alone, that packet is judged by the model of what came before.

**Unknown peers:** flows of the device's own from the ${TRIES_FROM + 1}th day on, added once more a minute later with a peer outside that it never had.

| device | tries | found by first contact | found otherwise |
| --- | ---: | ---: | ---: |
${alone.map(({ name, tries, byContact, byOther }) => `| ${name} | ${tries} | ${byContact} | ${byOther} |`).join('\n')}

- Command: \`node tools/reproduce/agent-week.mjs\`; figures: [agent-week.json](agent-week.json)
`
if (given === undefined) {
  const results = join(root, 'docs/results')
  writeFileSync(join(results, 'agent-week.md'), page)
  writeFileSync(join(results, 'agent-week.json'), `${JSON.stringify({ alone, together }, null, 1)}\n`)
} else process.stdout.write(page)

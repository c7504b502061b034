/**
 * A week through the agent: data/week, each device alone and all together, in the default configuration with `approve:
 * auto`. Then each device's week again, with one of its later flows added under an unknown peer.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { count, list, text } from '../files.js'
import { note } from '../output.js'
import { fixed } from '../tables/table.js'
import {
  type AgentEvent,
  type AgentOptions,
  addressAt,
  agentProgram,
  configure,
  countByRule,
  DAY_MICROS,
  HOUR_MICROS,
  inTemporaryFolder,
  ipv4At,
  isLocal,
  moved,
  type Packet,
  readWeeks,
  replay,
  withAgent,
} from './agent-runs.js'
import { defineStudy } from './study.js'

const TRIES = 10
/** A peer is unknown from this day on: each device is watched by then. */
const TRIES_FROM = 3
const UNKNOWN = [203, 0, 113, 7]

const device = z.strictObject({
  key: text,
  state: text,
  flows: count,
  seenDays: z.number(),
  /** null of a device that is not watched by the end; so are the fields of what came after. */
  readyHours: z.number().nullable(),
  promise: text.nullable(),
  daysAfter: z.number().nullable(),
  alerts: count,
  alertsPerDay: z.number().nullable(),
  byRule: z.record(text, count),
  watchedFlows: count,
  watchedNovel: count,
})
const figures = z.strictObject({
  alone: list({
    name: text,
    devices: z.array(device).max(100_000),
    tries: count,
    byContact: count,
    byOther: count,
  }),
  together: z.array(device).max(100_000),
})
type AgentWeekFigures = z.infer<typeof figures>
type Device = z.infer<typeof device>

// ---- recordings

const isOutside = (address: string): boolean =>
  !isLocal(address) && Number(address.split('.')[0]) < 224 && !address.startsWith('0.')

/** Of TCP and UDP over IPv4: the ends, and where the frame has their addresses. */
function endsOf(frame: Buffer) {
  const ip = ipv4At(frame)
  const protocol = ip === null ? 0 : frame[ip + 9]!
  if (ip === null || (protocol !== 6 && protocol !== 17)) return null
  const transport = ip + 4 * (frame[ip]! & 15)
  return [0, 1].map((side) => ({
    at: ip + 12 + 4 * side,
    address: addressAt(frame, ip + 12 + 4 * side),
    end: `${protocol} ${addressAt(frame, ip + 12 + 4 * side)}:${frame.readUInt16BE(transport + 2 * side)}`,
  }))
}

/** Flows with peers outside, spread over the days from TRIES_FROM on, each as it would be a minute later with UNKNOWN. */
function unknownFlows(packets: readonly Packet[]): Packet[][] {
  const start = packets[0]!.micros + TRIES_FROM * DAY_MICROS
  const flows = new Map<string, Packet[]>()
  for (const packet of packets) {
    if (packet.micros < start) continue
    const ends = endsOf(packet.frame) ?? []
    const [peer, ...others] = ends.filter(({ address }) => isOutside(address))
    if (peer === undefined || others.length > 0) continue
    const key = ends
      .map(({ end }) => end)
      .sort()
      .join(' ')
    const frame = Buffer.from(packet.frame)
    frame.set(UNKNOWN, peer.at)
    const flow = flows.get(key) ?? []
    flow.push({ ...packet, frame })
    flows.set(key, flow)
  }
  const whole = [...flows.values()].filter((flow) => flow.length >= 4)
  return Array.from({ length: Math.min(TRIES, whole.length) }, (_, i) =>
    moved(whole[Math.floor((i * whole.length) / TRIES)]!, 60_000_000),
  )
}

// ---- replays

const { key, state, flows, watchedFlows, watchedNovel } = device.shape
const known = z.object({
  devices: z.array(
    z.object({
      ...{ key, state, flows, watchedFlows, watchedNovel },
      firstSeenMicros: z.number(),
      lastSeenMicros: z.number(),
    }),
  ),
})

function replayWeek(agent: string, packets: readonly Packet[]) {
  return inTemporaryFolder((folder) => {
    const at = configure(folder, 'week', { models: {}, devices: { approve: 'auto' } })
    const events = replay(agent, at, packets).events.filter(({ oddflow }) => oddflow.device !== undefined)
    const { devices } = known.parse(JSON.parse(readFileSync(join(at, 'state/devices.json'), 'utf8')))
    const last = packets.reduce((latest, { micros }) => Math.max(latest, micros), 0)
    return { events, devices: devices.map((one) => describe(one, events, last)) }
  })
}

const microsOf = ({ timestamp }: AgentEvent): number => Date.parse(`${timestamp.slice(0, 19)}Z`) * 1000

function describe(
  {
    key,
    firstSeenMicros,
    lastSeenMicros,
    flows,
    state,
    watchedFlows,
    watchedNovel,
  }: z.infer<typeof known>['devices'][number],
  events: readonly AgentEvent[],
  lastMicros: number,
): Device {
  const own = events.filter(({ oddflow }) => oddflow.device?.mac === key)
  const ready = own.find(({ oddflow }) => oddflow.rule === 'device-ready')
  const seen = { key, state, flows, seenDays: (lastSeenMicros - firstSeenMicros) / DAY_MICROS }
  const watched = { watchedFlows, watchedNovel }
  if (ready === undefined) {
    const never = { readyHours: null, promise: null, daysAfter: null, alerts: 0, alertsPerDay: null }
    return { ...seen, ...never, byRule: {}, ...watched }
  }
  const readyMicros = microsOf(ready)
  const after = own.filter((event) => event !== ready && microsOf(event) >= readyMicros)
  const daysAfter = (lastMicros - readyMicros) / DAY_MICROS
  return {
    ...seen,
    readyHours: Math.max(0, readyMicros - firstSeenMicros) / HOUR_MICROS,
    promise: /: (.*?)(?:\. |$)/.exec(ready.oddflow.summary.slice(20))?.[1] ?? null,
    daysAfter,
    alerts: after.length,
    alertsPerDay: daysAfter > 0 ? after.length / daysAfter : null,
    byRule: countByRule(after),
    ...watched,
  }
}

// ---- page

const table = (replays: readonly (readonly [string, Device])[]): string =>
  [
    '| replay | device | flows | watched after | promise then | alerts a day | alerts since |',
    '| --- | --- | ---: | ---: | --- | ---: | --- |',
    ...replays.map(([replayed, d]) => {
      const rules = Object.entries(d.byRule).map(([rule, alerts]) => `${alerts} ${rule}`)
      const hours = d.readyHours === null ? 'never' : `${fixed(d.readyHours, 1)} h`
      const since =
        d.daysAfter === null
          ? ''
          : `${d.alerts} in ${fixed(d.daysAfter, 1)} days${d.alerts === 0 ? '' : `: ${rules.join(', ')}`}`
      const daily = d.alertsPerDay === null ? '–' : fixed(d.alertsPerDay, 2)
      return `| ${replayed} | ${d.key} | ${d.flows} | ${hours} | ${d.promise ?? ''} | ${daily} | ${since} |`
    }),
  ].join('\n')

function meanOf(devices: readonly Device[]): string {
  const daily = devices.flatMap(({ alertsPerDay }) => alertsPerDay ?? [])
  return fixed(daily.reduce((sum, alerts) => sum + alerts, 0) / Math.max(1, daily.length), 2)
}

function page({ alone, together }: AgentWeekFigures): string {
  const replays = [
    ...alone.flatMap(({ name, devices }) => devices.map((one) => [name, one] as const)),
    ...together.map((one) => ['all together', one] as const),
  ]
  return `Seven days of real devices (data/week: a capture a day and device), replayed through the bundled agent in its default
configuration (\`models: {}\`) with \`devices: { approve: auto }\`: each device's week alone, and all in one recording. All traffic counts as normal, so each alert after a device is
watched counts as false, although real incidents in these networks are possible.

${table(replays)}

Alerts a day and device since it is watched: ${meanOf(alone.flatMap(({ devices }) => devices))} on average alone, ${meanOf(together)} together. A device is watched after 48 hours of the recording at the latest; where its next
packet comes later, as it does of a device alone, that packet is judged by the model of what came before.

**Unknown peers:** flows of the device's own from the ${TRIES_FROM + 1}th day on, added once more a minute later with a peer outside that it never had.

| device | tries | found by first contact | found otherwise |
| --- | ---: | ---: | ---: |
${alone.map(({ name, tries, byContact, byOther }) => `| ${name} | ${tries} | ${byContact} | ${byOther} |`).join('\n')}`
}

export const agentWeek = defineStudy<AgentOptions, AgentWeekFigures>({
  name: 'agent-week',
  title: 'A week through the agent',
  description:
    'how soon the agent watches a device, its alerts a day, and the unknown peers that it reports (data/week)',
  configure: withAgent,
  figures,
  async run({ data, ...options }) {
    const agent = agentProgram(options)
    const weeks = readWeeks(join(data, 'week'))
    const alone: AgentWeekFigures['alone'] = []
    for (const [name, packets] of weeks) {
      const { devices } = await replayWeek(agent, packets)
      const tries = unknownFlows(packets)
      const found = { byContact: 0, byOther: 0 }
      for (const flow of tries) {
        const { events } = await replayWeek(agent, [...packets, ...flow])
        const rules = events
          .filter(({ src_ip, dest_ip }) => [src_ip, dest_ip].includes(UNKNOWN.join('.')))
          .map(({ oddflow }) => oddflow.rule)
        if (rules.includes('first-contact')) found.byContact++
        else if (rules.length > 0) found.byOther++
      }
      alone.push({ name, devices, tries: tries.length, ...found })
      note(`${name}: unknown peers ${found.byContact} + ${found.byOther} of ${tries.length}`)
    }
    return { alone, together: (await replayWeek(agent, [...weeks.values()].flat())).devices }
  },
  page,
})

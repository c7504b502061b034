/**
 * Slow poisoning of the agent's models. Each week of data/week is replayed again and again, later each time, in one
 * state folder; from the second week on with traffic that grows towards an attack. A copy of the state then meets the
 * attack.
 */

import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { count, list, text } from '../files.js'
import { note } from '../output.js'
import { markdownTable } from '../tables/table.js'
import {
  type AgentEvent,
  type AgentOptions,
  addressAt,
  agentProgram,
  configure,
  connection,
  countByRule,
  DAY_MICROS,
  type End,
  HOUR_MICROS,
  inTemporaryFolder,
  ipv4At,
  isLocal,
  moved,
  type Packet,
  readWeeks,
  refused,
  replay,
  SECOND_MICROS,
  spread,
  withAgent,
} from './agent-runs.js'
import { defineStudy, median } from './study.js'

/** Weeks of poisoning, after one without. */
const WEEKS = 6

const BASE = { models: {}, devices: { approve: 'auto' }, fold: false }
const CONFIGURATIONS = { default: BASE, 'learning: online': { ...BASE, learning: { online: true } } }
type Configuration = keyof typeof CONFIGURATIONS

const name = text
const byRule = z.record(text, count)
const figures = z.strictObject({
  series: list({
    device: name,
    configuration: z.enum(Object.keys(CONFIGURATIONS) as [Configuration, ...Configuration[]]),
    /** Of the added traffic; null: nothing is added, and all attacks are met at the end of each week. */
    kind: name.nullable(),
    days: count,
    weeks: list({
      week: count,
      falseAlerts: byRule,
      alerts: byRule,
      /** Alerts about each attack that was met. */
      found: z.record(name, byRule),
      rounds: z.strictObject({ accepted: count, refused: count, failed: count }).nullable(),
    }).min(1),
  }),
})
type PoisoningFigures = z.infer<typeof figures>
type Series = PoisoningFigures['series'][number]
type ByRule = z.infer<typeof byRule>

// ---- recordings

/** The device with the most packets, and the TCP server outside with the most flows, as the recording has them. */
export function endsOf(packets: readonly Packet[]) {
  const devices = new Map<string, { address: string; gateway: Buffer; count: number }>()
  const flows = new Map<string, Map<number, number>>()
  for (const { frame } of packets) {
    const ip = ipv4At(frame)
    if (ip === null || frame.length < ip + 40) continue
    const [source, destination] = [addressAt(frame, ip + 12), addressAt(frame, ip + 16)]
    if (!isLocal(source) || isLocal(destination) || frame[ip + 16]! >= 224) continue
    const mac = frame.toString('hex', 6, 12)
    const of = devices.get(mac) ?? { address: source, gateway: frame.subarray(0, 6), count: 0 }
    of.count++
    devices.set(mac, of)
    if (frame[ip + 9] !== 6) continue
    const transport = ip + 4 * (frame[ip]! & 15)
    const key = `${mac} ${destination} ${frame.readUInt16BE(transport + 2)}`
    const up = flows.get(key) ?? new Map<number, number>()
    const port = frame.readUInt16BE(transport)
    up.set(port, (up.get(port) ?? 0) + frame.readUInt16BE(ip + 2))
    flows.set(key, up)
  }
  const [mac, { address, gateway }] = [...devices].sort((a, b) => b[1].count - a[1].count)[0]!
  const [key, up] = [...flows]
    .filter(([each]) => each.startsWith(mac))
    .sort((a, b) => b[1].size - a[1].size)[0]!
  const [, server, port] = key.split(' ') as [string, string, string]
  return {
    device: { mac: Buffer.from(mac, 'hex'), address },
    gateway: Buffer.from(gateway),
    server,
    port: Number(port),
    /** Of a flow to that server: the median. */
    upBytes: median([...up.values()]),
  }
}
type Ends = ReturnType<typeof endsOf>

// ---- made traffic

interface Kind {
  /** By which its alerts are known. */
  readonly peer: string
  /** What a day of poisoning adds; `day` counts from 0. */
  step(day: number, atMicros: number): Packet[]
  /** The same at full strength, within an hour. */
  attack(atMicros: number): Packet[]
}
type Kinds = Readonly<Record<string, Kind>>

export function kindsOf(ends: Ends): Kinds {
  const own = (port: number): End => ({ ...ends.device, port })
  const outside = (address: string, port: number): End => ({ mac: ends.gateway, address, port })
  const client = (i: number): number => 50_000 + (i % 10_000)
  // in the network of the usual server, so that it is no first contact
  const server = ends.server.replace(/\d+$/, (last) => String((Number(last) + 101) % 256))
  const upload = (micros: number, i: number, upBytes: number): Packet[] =>
    connection(micros, own(client(i)), outside(server, ends.port), [upBytes, -1500])
  const beacon = (micros: number, i: number): Packet[] =>
    connection(micros, own(client(i)), outside('203.0.113.7', 443), [320, -900, 180, -240])
  const target = {
    mac: Buffer.from('00163e0000fa', 'hex'),
    address: ends.device.address.replace(/\d+$/, '250'),
  }
  const probe = (micros: number, i: number): Packet[] =>
    refused(micros, own(client(i)), { ...target, port: 1 + (i % 30_000) })
  const guess = (micros: number, i: number): Packet[] =>
    connection(micros, outside('203.0.113.99', client(i)), own(22), [
      ...[21, -21, 1400, -1080, 48, -452, 16, 44, -44, 68, -52, 148, -52, 84, -52],
    ])
  const doubled = (day: number, most: number): number => Math.min(most, 2 ** Math.floor(day))
  return {
    'upload grows 5 % a day': {
      peer: server,
      step: (day, at) =>
        spread(24, at, DAY_MICROS, (t, i) => upload(t, 24 * day + i, Math.round(ends.upBytes * 1.05 ** day))),
      attack: (at) => spread(24, at, HOUR_MICROS, (t, i) => upload(t, 9000 + i, 1_000_000)),
    },
    'upload grows 20 % a day': {
      peer: server,
      step: (day, at) =>
        spread(24, at, DAY_MICROS, (t, i) =>
          upload(t, 24 * day + i, Math.min(1_000_000, Math.round(ends.upBytes * 1.2 ** day))),
        ),
      attack: (at) => spread(24, at, HOUR_MICROS, (t, i) => upload(t, 9000 + i, 1_000_000)),
    },
    'scan of 1, 2, 4, … ports a day': {
      peer: target.address,
      step: (day, at) => spread(doubled(day, 256), at, DAY_MICROS, (t, i) => probe(t, 256 * day + i)),
      attack: (at) => spread(200, at, 20 * SECOND_MICROS, (t, i) => probe(t, 29_000 + i)),
    },
    'beacon to a new peer, 1, 2, 4, … a day': {
      peer: '203.0.113.7',
      step: (day, at) => spread(doubled(day / 2, 144), at, DAY_MICROS, (t, i) => beacon(t, 144 * day + i)),
      attack: (at) => spread(60, at, HOUR_MICROS, (t, i) => beacon(t, 9000 + i)),
    },
    'passwords guessed, 1, 2, 4, … a day': {
      peer: '203.0.113.99',
      step: (day, at) => spread(doubled(day / 2, 128), at, DAY_MICROS, (t, i) => guess(t, 128 * day + i)),
      attack: (at) => spread(60, at, 600 * SECOND_MICROS, (t, i) => guess(t, 9000 + i)),
    },
  }
}

// ---- replays

const counted = z.object({
  models: z.object({
    learning: z.object({ rounds: z.object({ accepted: count, refused: count, failed: count }) }).nullish(),
  }),
})

/** Events of devices, without those of devices that are ready. */
function run(agent: string, at: string, packets: readonly Packet[]) {
  const { events, counters } = replay(agent, at, packets)
  const rounds = counted.parse(counters).models.learning?.rounds ?? null
  const isOfDevice = ({ oddflow }: AgentEvent): boolean =>
    oddflow.device !== undefined && oddflow.rule !== 'device-ready'
  return { events: events.filter(isOfDevice), rounds }
}

/** One series of weeks in a configured folder. `kind` null: nothing is added, and all attacks are met at the end of each week. */
function poison(
  agent: string,
  at: string,
  packets: readonly Packet[],
  kind: string | null,
  kinds: Kinds,
): Pick<Series, 'days' | 'weeks'> {
  const first = packets[0]!.micros
  const days = Math.ceil((packets.at(-1)!.micros - first) / DAY_MICROS + 0.01)
  const weeks = Array.from({ length: WEEKS + 1 }, (_, week) => {
    const shift = week * days * DAY_MICROS
    const steps = Array.from({ length: week === 0 || kind === null ? 0 : days }, (_, day) =>
      kinds[kind!]!.step((week - 1) * days + day, first + shift + day * DAY_MICROS),
    )
    const { events, rounds } = run(agent, at, [...moved(packets, shift), ...steps.flat()])
    const found: Record<string, ByRule> = {}
    for (const [each, { attack, peer }] of Object.entries(kinds)) {
      if (kind !== null && each !== kind) continue
      const copy = `${at}-attack`
      mkdirSync(copy)
      cpSync(join(at, 'state'), join(copy, 'state'), { recursive: true })
      cpSync(join(at, 'agent.yaml'), join(copy, 'agent.yaml'))
      const met = run(agent, copy, attack(first + shift + days * DAY_MICROS))
      rmSync(copy, { recursive: true })
      found[each] = countByRule(met.events.filter((event) => isWith(event, peer)))
    }
    const added = kind === null ? [] : events.filter((event) => isWith(event, kinds[kind]!.peer))
    return {
      week,
      falseAlerts: countByRule(events.filter((event) => !added.includes(event))),
      alerts: countByRule(added),
      found,
      rounds,
    }
  })
  return { days, weeks }
}

const isWith = ({ src_ip, dest_ip }: AgentEvent, peer: string): boolean => [src_ip, dest_ip].includes(peer)

// ---- page

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0)
const total = (byRule: ByRule): number => sum(Object.values(byRule))
const scores = (byRule: ByRule): number => byRule.score ?? 0
const FACTS = ['port-scan', 'host-scan', 'first-contact']
const factsIn = (weeks: readonly ByRule[]): string[] =>
  FACTS.flatMap((rule) => {
    const among = weeks.filter((byRule) => byRule[rule] !== undefined).length
    return among === 0 ? [] : [`${rule} in ${among} of ${weeks.length}`]
  })

type Poisoned = Series & { readonly kind: string }

function poisonedOf(series: readonly Series[], configuration: Configuration): Poisoned[] {
  return series.filter((each): each is Poisoned => each.configuration === configuration && each.kind !== null)
}

/** What was found of the attack in each week of poisoning. */
const foundIn = ({ weeks }: Series, kind: string): ByRule[] => weeks.slice(1).map((week) => week.found[kind]!)

function table(series: readonly Series[], configuration: Configuration): string {
  const rows = poisonedOf(series, configuration).map((one) => {
    const { device, kind, weeks } = one
    const clean = series.find(
      (each) => each.device === device && each.configuration === configuration && each.kind === null,
    )!
    return [
      device,
      kind,
      ...[
        weeks.slice(1).map(({ alerts }) => total(alerts)),
        foundIn(clean, kind).map(scores),
        foundIn(one, kind).map(scores),
      ].map((numbers) => numbers.join(' ')),
      factsIn(foundIn(one, kind)).join(', ') || 'none',
    ]
  })
  return markdownTable(
    [
      ...['device', 'added traffic', 'its alerts, week by week', 'flagged without poisoning'],
      ...['flagged after each week of it', 'facts about the attack after it'],
    ],
    rows,
    6,
  )
}

/** Attacks of which at least half is flagged after the last week, or a fact reported. */
function held(series: readonly Series[], configuration: Configuration): string {
  const attacks = poisonedOf(series, configuration)
  const number = (is: (attack: Poisoned, first: ByRule, last: ByRule) => boolean): number =>
    attacks.filter((attack) => {
      const { kind, weeks } = attack
      return is(attack, weeks[0]!.found[kind]!, weeks.at(-1)!.found[kind]!)
    }).length
  const isFound = (first: ByRule, last: ByRule): boolean =>
    scores(last) * 2 >= scores(first) && scores(first) > 0
  const noticed = number((_, first) => total(first) > 0)
  const scored = number((_, first) => scores(first) > 0)
  const stillScored = number((_, first, last) => isFound(first, last))
  const stillFact = number((_, first, last) => !isFound(first, last) && factsIn([last]).length > 0)
  const warned = number(({ weeks }) => weeks.slice(1).some(({ alerts }) => total(alerts) > 0))
  return `Of ${attacks.length} attacks ${noticed} are noticed before the poisoning: ${scored} by their score, the others by a fact alone. After ${WEEKS} weeks ${stillScored} are still noticed by their score (half of the flows or more) and ${stillFact} more by a fact. In ${warned} of ${attacks.length} series the poisoning itself raised alerts.`
}

function page({ series }: PoisoningFigures): string {
  const refused = sum(series.flatMap(({ weeks }) => weeks.map(({ rounds }) => rounds?.refused ?? 0)))
  const accepted = sum(series.map(({ weeks }) => weeks.at(-1)!.rounds?.accepted ?? 0))
  return `What the agent learns from traffic that grows slowly towards an attack, and whether it then notices the attack at full strength.

**Time is shortened.** Each device's recording of a week (data/week) is replayed ${WEEKS + 1} times in one state folder, each time later by its timestamps, so that
seven weeks pass in minutes. Nothing else is shortened: hours of learning, rows an hour and expiry go by the packets' clock. A week that repeats is easier than a real one, since it has no
drift of its own. The first week has no poisoning; from the second on, the added traffic grows every day. At the end of each week the agent meets the attack at full strength with a copy of its state folder:
24 uploads of 1 MB to a server of a known network, 200 ports in 20 seconds, 60 beacons to a new peer in an hour, 60 password guesses in ten minutes.

The lists of numbers are the ${WEEKS} weeks of poisoning. *Flagged* counts flows of the attack that the model finds novel; *without poisoning* is the same attack against an agent without poisoning.

## By default

\`models: {}\`, \`devices: { approve: auto }\`. ${held(series, 'default')}

${table(series, 'default')}

## With learning: online

${held(series, 'learning: online')} Rounds of learning in the last runs: ${accepted} accepted, ${refused} refused.

${table(series, 'learning: online')}

## What gets in, and what stops it

- **By default a model that keeps its promise is final.** Nothing gets in: the poisoned traffic is an alert each time, for all weeks (schlage-lock-01, sifely-hub-01).
- **A device with few flows is the weak one.** Its model is made again as flows come, until there are as many as the threshold takes. One novel flow a day and one for 50 rows is learned, and flows like it are normal
  for the next model. blink-cam-01 has 14 flows a day: a single burst at the end of its first week changes the model while the burst lasts (14 of 60 beacons are flagged, where the model of a week later flags 60). After one
  week of poisoning the attack at full strength is not flagged. The alerts of that week are the only warning by score.
- **With \`learning: online\` no round was refused.** Each step is small, and the guard refuses large ones.
- **Models of a flow's first packets notice less to begin with** (\`learning: online\` uses them): 24 uploads of 1 MB on schlage-lock-01 are not flagged without any poisoning.
- **Facts do not learn from scores.** \`port-scan\` is reported after every week. A first contact is one alert; after it the peer is known.

What to do about it: look at each alert of a device with few flows; use \`learning: online\` only where you trust everybody in the network; where a device may be compromised already, bring its model from elsewhere.

Tried and not taken: learning novel flows a day late, and of a burst of 5 or more in a day only on the third such day of a week. False alerts rose from 1.67 to 2.09 a day and device on [a week through the agent](agent-week.md).`
}

export const poisoning = defineStudy<AgentOptions, PoisoningFigures>({
  name: 'poisoning',
  title: 'Slow poisoning',
  description:
    'what the agent learns from traffic that grows slowly towards an attack (data/week; takes about an hour)',
  configure: withAgent,
  figures,
  run: ({ data, ...options }) =>
    inTemporaryFolder((folder) => {
      const agent = agentProgram(options)
      const series: Series[] = []
      for (const [device, packets] of readWeeks(join(data, 'week'))) {
        const kinds = kindsOf(endsOf(packets))
        for (const configuration of Object.keys(CONFIGURATIONS) as Configuration[]) {
          for (const kind of [null, ...Object.keys(kinds)]) {
            const at = configure(folder, `${series.length}`, CONFIGURATIONS[configuration])
            const { days, weeks } = poison(agent, at, packets, kind, kinds)
            series.push({ device, configuration, kind, days, weeks })
            note(`${device}, ${configuration}, ${kind ?? 'nothing added'}: ${JSON.stringify(weeks.at(-1))}`)
          }
        }
      }
      return Promise.resolve({ series })
    }),
  page,
})

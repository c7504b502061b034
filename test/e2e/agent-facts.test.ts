/** Guessed passwords and floods, and honest traffic that looks like them, through the agent while its devices learn and while it watches them. */
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  configure,
  connection,
  type End,
  inOrder,
  moved,
  type Packet,
  readPackets,
  refused,
  replay,
  withChecksum,
} from '../../apps/bench/src/studies/agent-runs.js'
import { agentMain } from './support/agent.js'
import { lab, temporaryFolder, trainLabModel } from './support/oddflow.js'

const SECOND = 1_000_000
const START = 1_700_000_000 * SECOND
/** What a client and a server say of a login that fails. */
const LOGIN = [1100, -1400, 60, -60]

const localEnd = (n: number, port: number): End => ({
  mac: Buffer.from([2, 0x50, 0, 0, 7, n]),
  address: `192.168.50.${n}`,
  port,
})
/** Behind the gateway. */
const outsideEnd = (n: number, port = 40_000): End => ({
  mac: Buffer.from([2, 0x50, 0, 0, 7, 1]),
  address: `203.${n >> 8}.${n & 255}.9`,
  port,
})

function udpPacket(micros: number, from: End, to: End, bytes = 60): Packet {
  const frame = Buffer.alloc(42 + bytes)
  frame.set([...to.mac, ...from.mac, 8, 0, 0x45, 0, 0, 28 + bytes, 0, 0, 0x40, 0, 64, 17])
  frame.set([...from.address.split('.'), ...to.address.split('.')].map(Number), 26)
  for (const [at, value] of [from.port, to.port, 8 + bytes].entries()) frame.writeUInt16BE(value, 34 + 2 * at)
  return { micros: Math.round(micros), frame: withChecksum(frame) }
}

const times = (count: number, make: (i: number) => Packet[]): Packet[] =>
  Array.from({ length: count }, (_, i) => make(i)).flat()

it('are facts of devices that learn, one for each attack, and none of honest traffic', () => {
  const at = (seconds: number): number => START + seconds * SECOND
  const login = (from: End, to: number, seconds: number) =>
    connection(at(seconds), from, localEnd(to, 22), LOGIN)
  const syn = (micros: number, from: End, to: End): Packet[] => refused(micros, from, to).slice(0, 1)
  const own = times(40, (i) =>
    connection(START + i * 1000, localEnd(10 + i, 50_000), outsideEnd(7, 443), [300, -900]),
  )
  const attacks = [
    // a look at the service, and guesses 1,000 s later
    ...connection(at(200), localEnd(66, 39_999), localEnd(20, 22), [-40]),
    ...times(200, (i) => login(localEnd(66, 40_000 + i), 20, 1200 + i)),
    ...times(600, (i) => login(outsideEnd(i), 21, 1200 + i / 2)),
    ...times(40, (i) => login(outsideEnd(i % 10, 40_000 + i), 22, 1200 + 5 * i)),
    ...times(60, (i) => login({ ...outsideEnd(7), address: `203.0.7.${i}` }, 23, 1200 + i)),
    // to a closed port, and by UDP to the gateway
    ...times(6000, (i) => refused(at(1200) + 1000 * i, localEnd(66, 2000 + i), localEnd(24, 81))),
    ...times(6000, (i) => [udpPacket(at(1300) + 1000 * i, localEnd(66, 2000 + i), localEnd(1, 123))]),
  ]
  const honest = [
    // a client that is refused, log messages by UDP, clients of a broker that is silent
    ...times(280, (i) => refused(at(200 + (120 * i) / 280), localEnd(67, 2000 + i), localEnd(30, 8883))),
    ...times(700, (i) => refused(at(400) + 200 * i, localEnd(67, 3000 + i), localEnd(30, 9))),
    ...times(900, (i) => [udpPacket(at(500) + 5000 * i, localEnd(67, 2000 + i), localEnd(30, 514))]),
    ...times(720, (i) => syn(at(600 + i / 12), outsideEnd(i % 240, 2000 + i), localEnd(30, 1883))),
    // a browser, a probe each minute, DNS, a video, a backup that reconnects
    ...times(30, (i) =>
      connection(at(700) + 50_000 * i, localEnd(67, 4000 + i), localEnd(30, 80), [400, -9000]),
    ),
    ...times(20, (i) => connection(at(200 + 60 * i), localEnd(68, 5000 + i), localEnd(30, 22), [-40])),
    ...times(900, (i) => {
      const [client, server] = [localEnd(67, 6000 + i), localEnd(1, 53)]
      return [
        udpPacket(at(800) + 1000 * i, client, server),
        udpPacket(at(800) + 1000 * i + 400, server, client),
      ]
    }),
    ...times(5000, (i) => [udpPacket(at(900) + 400 * i, localEnd(69, 7000), localEnd(30, 5004), 1200)]),
    ...times(10, (i) =>
      connection(at(1000 + 5 * i), localEnd(70, 8000 + i), localEnd(30, 445), [60_000, -2000]),
    ),
  ]
  const folder = configure(temporaryFolder(), 'learning', {
    models: {},
    localNetworks: ['192.168.50.0/24'],
    devices: { inventoryMinutes: 1 },
  })
  const { events } = replay(agentMain, folder, inOrder([...own, ...attacks, ...honest]))
  const told = events.flatMap(({ event_type, oddflow: { rule, summary } }) =>
    event_type === 'alert' && ['password-guessing', 'request-flood'].includes(rule) ? [summary] : [],
  )
  const firsts = new Map(told.reverse().map((text) => [text.split(' ')[0], text] as const))
  expect([...firsts.values()].sort()).toEqual(
    [
      /^192\.168\.50\.1 received 4\d+ requests \(udp port 123\) from 192\.168\.50\.66 in \d s that did not become connections$/,
      /^192\.168\.50\.20 had 5 connections .* from 192\.168\.50\.66, which first used this service 17 min ago: /,
      /^192\.168\.50\.21 had 24 connections .* from several peers, the last of them 203\./,
      /^192\.168\.50\.22 had 24 connections .* from several peers, the last of them 203\./,
      /^192\.168\.50\.23 had 5 connections .* from 203\.0\.7\.0\/24, which had never used this service: /,
      /^192\.168\.50\.24 received 4\d+ requests \(tcp port 81\) from 192\.168\.50\.66 in \d s that did not become connections$/,
    ].map((text) => expect.stringMatching(text)),
  )
}, 120_000)

it('do not raise the level of an incident of a watched device where they are harmless', async () => {
  const folder = temporaryFolder()
  const normal = readPackets(lab('normal-4.pcap.gz').path)
  const at = configure(folder, 'watching', {
    model: await trainLabModel(join(folder, 'lab.oddflow')),
    localNetworks: ['192.168.50.0/24', 'fd50::/64', 'fe80::/10'],
    devices: { approve: 'auto', learnHours: 0.005, judgeHours: 0.01, learnFlows: 5, stableShare: 1 },
  })
  replay(agentMain, at, normal)
  const after = (normal.at(-1) as Packet).micros + 10 * SECOND
  const camera = { mac: Buffer.from('025000000017', 'hex'), address: '192.168.50.23' }
  const hub = { mac: Buffer.from('025000000010', 'hex'), address: '192.168.50.10' }
  const scenes = [
    times(280, (i) =>
      refused(after + (i * 120 * SECOND) / 280, { ...camera, port: 2000 + i }, { ...hub, port: 9 }),
    ),
    times(900, (i) => [
      udpPacket(after + 5000 * i, { ...camera, port: 2000 + i }, { ...hub, port: 514 }, 20),
    ]),
  ]
  for (const packets of scenes) {
    const { events } = replay(agentMain, at, inOrder([...packets, ...moved(normal, 4000 * SECOND)]))
    const incidents = events.flatMap(({ oddflow: { incident } }) =>
      incident?.change !== undefined && incident.change !== 'over' ? [[incident.kind, incident.level]] : [],
    )
    expect(incidents).toEqual([['unusual-flows', 'low']])
  }
}, 120_000)

/** Facts of packets: each kind, what is none, and how the packets come in batches. */
import { createFrameBatch, createPacketBatch, type PacketBatch } from '@oddflow/capture'
import { parseNetwork } from '@oddflow/program'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_DEVICES } from '../../src/config/settings.js'
import { DeviceWatch } from '../../src/devices/device-watch.js'
import { DnsTunnels, RequestFloods } from '../../src/devices/packet-facts.js'

const START = 1_700_000_000_000_000
const SECOND = 1_000_000
const [SYN, SYN_ACK, ACK, PSH_ACK, FIN_ACK, RST] = [2, 18, 16, 24, 17, 4]
const CAMERA = 0xc0a80017
const CLIENT = 0xc6336400

interface Sent {
  readonly from: readonly [address: number, port: number]
  readonly to: readonly [address: number, port: number]
  readonly at: number
  /** Of TCP; UDP without. */
  readonly flags?: number
  readonly payload?: number
}

function batchOf(packets: readonly Sent[]): PacketBatch {
  const batch = createPacketBatch(packets.length)
  batch.count = packets.length
  for (const [i, { from, to, at, flags, payload = 0 }] of packets.entries()) {
    batch.ipVersion[i] = 4
    batch.protocol[i] = flags === undefined ? 17 : 6
    batch.tcpFlags[i] = flags ?? 0
    batch.payloadBytes[i] = payload
    batch.timestampMicros[i] = START + at
    batch.sourceAddress[4 * i + 3] = from[0]
    batch.sourcePort[i] = from[1]
    batch.destinationAddress[4 * i + 3] = to[0]
    batch.destinationPort[i] = to[1]
  }
  return batch
}

/** What is reported of packets in one batch, as soon as the last has come. */
function toldOfOpen(packets: readonly Sent[]): string[] {
  const told: string[] = []
  const floods = new RequestFloods(
    () => true,
    (_, fact) => told.push(fact),
  )
  floods.packets(batchOf(packets))
  return told
}

/** What is reported of packets that come in batches of so many, up to two seconds after the last. */
function toldOf(packets: readonly Sent[], together = 1000): string[] {
  const told: string[] = []
  const floods = new RequestFloods(
    (of, i) => of.destinationAddress[4 * i + 3] >>> 16 === 0xc0a8,
    (_, fact) => told.push(fact),
  )
  for (let i = 0; i < packets.length; i += together) floods.packets(batchOf(packets.slice(i, i + together)))
  floods.advance(START + (packets.at(-1)?.at ?? 0) + 2 * SECOND)
  return told
}

const each = (count: number, make: (i: number) => readonly Sent[]): Sent[] =>
  Array.from({ length: count }, (_, i) => make(i)).flat()
/** A client outside, and one of its requests. */
const client = (i: number) => [CLIENT + i, 1024 + (i % 60_000)] as const
const request = (i: number, flags?: number, at = 250 * i): Sent => ({
  from: client(i),
  to: [CAMERA, 80],
  at,
  ...(flags === undefined ? { payload: 40 } : { flags }),
})
const back = (of: Sent, changes: Partial<Sent>): Sent => ({ ...of, from: of.to, to: of.from, ...changes })

describe('a flood of requests', () => {
  it('is reported when 512 are still open a second later, whatever the transport, and at four times as many', () => {
    for (const [flags, name] of [
      [SYN, 'tcp'],
      [undefined, 'udp'],
    ] as const) {
      expect(toldOf(each(20_000, (i) => [request(i, flags)]))).toEqual([
        `192.168.0.23 received 512 requests (${name} port 80) in 1 s that did not become connections`,
        `192.168.0.23 received 4512 requests (${name} port 80) in 1 s that did not become connections`,
        `192.168.0.23 received 8192 requests (${name} port 80) in 2 s that did not become connections`,
      ])
    }
  })

  it('names its sender where nearly all requests have one', () => {
    const by = (others: number): string[] =>
      toldOf(
        each(600, (i) => [{ ...request(i, SYN), from: [i < others ? CLIENT + i : CAMERA + 1, 1024 + i] }]),
      )
    for (const others of [0, 20])
      expect(by(others)).toEqual([
        '192.168.0.23 received 512 requests (tcp port 80) from 192.168.0.24 in 1 s that did not become connections',
      ])
    expect(by(100)).toEqual([
      '192.168.0.23 received 512 requests (tcp port 80) in 1 s that did not become connections',
    ])
  })

  it('is one where the device answers the handshake, and sends its answer again', () => {
    const answered = each(600, (i) => {
      const syn = request(i, SYN)
      const answer = back(syn, { flags: SYN_ACK })
      return [syn, answer, answer, answer, { ...syn, flags: RST }]
    })
    expect(toldOf(answered)).toHaveLength(1)
  })

  it('is reported a second after its 512th request, by the next packet or by time alone', () => {
    const burst = each(600, (i) => [request(i, SYN, i)])
    const later = (micros: number) => toldOfOpen([...burst, { ...request(0, SYN), at: micros }])
    expect(later(SECOND + 510)).toEqual([])
    expect(later(SECOND + 511)).toHaveLength(1)
    expect(toldOf(burst)).toEqual([
      '192.168.0.23 received 512 requests (tcp port 80) in 1 s that did not become connections',
    ])
  })

  it('is not reported of many connections at once, as after an outage, or of a busy service', () => {
    const opened = (count: number, everyMicros: number, answerMicros: number) =>
      each(count, (i) => {
        const syn = request(i, SYN, everyMicros * i)
        return [syn, back({ ...syn, at: syn.at + answerMicros }, { flags: PSH_ACK, payload: 100 })]
      }).sort((a, b) => a.at - b.at)
    expect(toldOf(opened(700, 50, 40_000))).toEqual([])
    expect(toldOf(opened(8000, 1000, 900_000))).toEqual([])
    expect(toldOf(opened(700, 50, 2 * SECOND))).toHaveLength(1)
  })

  it('is not reported of a program that logs by UDP from new ports, or of clients that a restarting server refuses', () => {
    expect(toldOf(each(900, (i) => [{ ...request(i), from: [CLIENT, 1024 + i], at: 60_000 * i }]))).toEqual(
      [],
    )
    const refused = (clients: number) =>
      each(20 * clients, (i) => {
        const syn: Sent = { ...request(i, SYN, 2000 * i), from: [CLIENT + (i % clients), 1024 + i] }
        return [syn, back(syn, { flags: RST | ACK })]
      })
    expect(toldOf(refused(250))).toEqual([])
    // made-up addresses
    expect(toldOf(refused(600))).not.toEqual([])
  })

  /** Requests of one address, each from another port. */
  const ofOne = (count: number, everyMicros: number, flags?: number) =>
    each(count, (i) => [{ ...request(i, flags, everyMicros * i), from: [CLIENT, 1024 + i] as const }])
  const refusing = (packets: readonly Sent[]) =>
    packets.flatMap((syn) => [syn, back(syn, { flags: RST | ACK })])

  it('is reported of one address, which is named: half-open, refused, or by UDP', () => {
    expect(toldOf(ofOne(600, 1000, SYN))).toEqual([
      '192.168.0.23 received 512 requests (tcp port 80) from 198.51.100.0 in 1 s that did not become connections',
    ])
    for (const [name, packets] of [
      ['tcp', refusing(ofOne(6000, 1000, SYN))],
      ['udp', ofOne(6000, 1000)],
    ] as const)
      expect(toldOf(packets)).toEqual([
        expect.stringMatching(
          `^192.168.0.23 received 4\\d{3} requests \\(${name} port 80\\) from 198.51.100.0 in [45] s `,
        ),
      ])
    // the one that reaches the number is answered, so who it was is not who the others were
    const other: Sent = { ...request(0, SYN, 512_000), from: [CLIENT + 1, 9] }
    const answered = [...ofOne(511, 1000, SYN), other, ...ofOne(520, 1000, SYN).slice(511)]
    const told = toldOf([...answered, back({ ...other, at: 600_000 }, { flags: PSH_ACK, payload: 9 })])
    expect(told).toEqual([expect.not.stringContaining(' from ')])
  })

  it('is reported where several addresses share it, each with fewer requests than one alone may have', () => {
    for (const addresses of [2, 3, 50, 511]) {
      const shared = (flags?: number) =>
        each(20_000, (i) => [{ ...request(i, flags, 200 * i), from: [CLIENT + (i % addresses), 1024 + i] }])
      for (const packets of [shared(), refusing(shared(SYN))])
        expect(toldOf(packets), String(addresses)).toContainEqual(
          expect.stringMatching(/^192.168.0.23 received 8\d{3} requests .* that did not become connections$/),
        )
    }
  })

  it('is not reported of a client that is refused often, or of a burst of log messages by UDP', () => {
    expect(toldOf(refusing(ofOne(280, 430_000, SYN)))).toEqual([])
    expect(toldOf(refusing(ofOne(700, 200, SYN)))).toEqual([])
    expect(toldOf(refusing(ofOne(4000, 15_000, SYN)))).toEqual([])
    expect(toldOf(ofOne(900, 5000))).toEqual([])
    expect(toldOf(ofOne(4000, 2500))).toEqual([])
  })

  it('is not reported of 240 clients that try again while their server is silent or hangs', () => {
    const tries = (perClient: number) =>
      each(240 * perClient, (i) => [
        {
          ...request(i, SYN, i * Math.floor((59 * SECOND) / (240 * perClient))),
          from: [CLIENT + (i % 240), 1024 + i],
        },
      ])
    expect(toldOf(tries(3))).toEqual([])
    expect(toldOf(tries(15))).toEqual([])
    const hangs = tries(10).flatMap((syn) => [
      syn,
      back(syn, { flags: SYN_ACK }),
      { ...syn, flags: PSH_ACK, payload: 30 },
      back(syn, { flags: ACK }),
    ])
    expect(toldOf(hangs)).toEqual([])
    // a flood from as many addresses sends more
    expect(toldOf(tries(34))).not.toEqual([])
  })

  it('is the same in batches of every size', () => {
    const packets = each(700, (i) => {
      const syn = request(i, SYN)
      return i % 7 === 0 ? [syn, back(syn, { flags: PSH_ACK, payload: 9 })] : [syn]
    })
    const whole = toldOf(packets, packets.length)
    expect(whole).toHaveLength(1)
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 900 }), (n) => {
        expect(toldOf(packets, n)).toEqual(whole)
      }),
      {
        numRuns: 10,
      },
    )
  })

  it('is not reported of answered requests: TCP with data or FIN, UDP, or requests of the device', () => {
    const tcp = (flags: number, payload: number) =>
      each(3000, (i) => {
        const syn = request(i, SYN)
        return [syn, back(syn, { flags: SYN_ACK }), { ...syn, flags: ACK }, back(syn, { flags, payload })]
      })
    expect(toldOf(tcp(PSH_ACK, 100))).toEqual([])
    expect(toldOf(tcp(FIN_ACK, 0))).toEqual([])
    expect(toldOf(each(3000, (i) => [request(i), back(request(i), {}), request(i)]))).toEqual([])
    // a device that asks many peers from one port, and what they answer
    const asked = each(3000, (i) => [back(request(i), {}), request(i), request(i)])
    expect(toldOf(asked)).toEqual([])
    // data and a FIN of the client may be forged as its SYN is
    for (const flags of [PSH_ACK, FIN_ACK]) {
      const forged = each(3000, (i) => [request(i, SYN), { ...request(i, flags), payload: 9 }])
      expect(toldOf(forged)).not.toEqual([])
    }
    // a handshake alone is no connection
    expect(toldOf(tcp(ACK, 0))).not.toEqual([])
  })

  it('is not reported of repeated or slow requests, over many ports or to other hosts', () => {
    expect(toldOf(each(5000, (i) => [{ ...request(i % 100, SYN), at: 10 * i }]))).toEqual([])
    expect(toldOf(each(5000, (i) => [{ ...request(i % 100), at: 10 * i }]))).toEqual([])
    expect(toldOf(each(2000, (i) => [request(i, SYN, i * SECOND)]))).toEqual([])
    expect(toldOf(each(5000, (i) => [{ ...request(i, SYN), to: [CAMERA, 1000 + i] }]))).toEqual([])
    expect(toldOf(each(5000, (i) => [{ ...request(i, SYN), to: [0x08080808, 80] }]))).toEqual([])
  })

  it('is found beside a scan of all services of the network', () => {
    const packets = each(20_000, (i) => {
      const probe: Sent = { ...request(i, SYN), to: [0xc0a80000 + (i % 250), i] }
      return i % 10 === 0 ? [probe, request(i, SYN)] : [probe]
    })
    expect(toldOf(packets)).not.toEqual([])
  })

  it('of 60 services at a time is reported for each, although not all requests are stored', () => {
    const packets = each(60, (service) =>
      each(600, (i) => [
        { ...request(i, SYN), to: [CAMERA, 1000 + service] as const, at: 600 * service + i },
      ]),
    )
    expect(toldOf(packets)).toHaveLength(60)
  })

  const flood = (port: number, at: number): Sent[] =>
    each(600, (i) => [{ ...request(i, SYN), to: [CAMERA, port] as const, at: at + i }])
  const toldAfter = (before: readonly Sent[], at: number): string[] =>
    toldOf([...before, ...flood(9, at)]).filter((text) => text.includes('port 9)'))

  it('is found after and during a scan of every port, however often each was tried', () => {
    const scan = each(36_000, (i) => [{ ...request(0, SYN), to: [CAMERA, 1000 + i] as const, at: 900 * i }])
    expect(toldAfter(scan, 33 * SECOND)).toHaveLength(1)
    expect(toldAfter(scan, 16 * SECOND)).toHaveLength(1)
    for (const tries of [2, 20]) {
      const tried = each(600 * tries, (i) => [
        { ...request(i, SYN), to: [CAMERA, 1000 + (i % 600)] as const },
      ])
      expect(toldAfter(tried, SECOND)).toHaveLength(1)
      expect(toldAfter(tried, 3600 * SECOND)).toHaveLength(1)
    }
  })

  it('is found beside floods that fill the table, which are reported no more often', () => {
    const large = each(50_000, (i) => [
      { ...request(i, SYN), from: [CLIENT, i] as const, to: [CAMERA, 1000 + (i % 5)] as const, at: i },
    ])
    const both = each(600, (i) => [
      { ...request(i, SYN, 100_000), to: [CAMERA, 7] as const },
      { ...request(i, SYN, 100_000), to: [CAMERA, 8] as const },
      { ...request(i, SYN, 100_000), from: [CLIENT, 50_000 + i] as const, to: [CAMERA, 1000] as const },
    ])
    const told = toldOf([...large, ...both])
    expect(told.filter((text) => /port [78]\)/.test(text))).toHaveLength(2)
    expect(told.filter((text) => text.includes('port 1000)'))).toHaveLength(1)
  })
})

describe('a tunnel through DNS', () => {
  const SERVER = 0xcb007135
  const nameOf = (i: number, length: number): number[] => {
    const label = [60, ...new TextEncoder().encode(String(i).padStart(60, 'x'))]
    return [...label, length - 65, ...new Array<number>(length - 65).fill(97), 2, 98, 98]
  }
  /** Queries of a device, each for another name. */
  function toldOf(
    count: number,
    length: number,
    { everyMicros = 100_000, header = 0x01, distinct = count, deviceOf = (_: number): number => 0 } = {},
  ): string[] {
    const told: string[] = []
    const tunnels = new DnsTunnels(
      (of, i) => String(of.sourceAddress[4 * i + 3]),
      (record, fact) => told.push(`${record.responderPort} ${fact}`),
    )
    for (let i = 0; i < count; i++) {
      const bytes = [0, 7, header, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...nameOf(i % distinct, length), 0, 0, 16, 0, 1]
      const from = [CAMERA + deviceOf(i), 40_000 + (i % 20_000)] as const
      const packets = batchOf([{ from, to: [SERVER, 53], at: everyMicros * i, payload: bytes.length }])
      packets.transportOffset[0] = 34
      const frames = createFrameBatch(1)
      frames.data = Uint8Array.from([...new Array<number>(42).fill(0), ...bytes])
      frames.capturedBytes[0] = frames.data.length
      tunnels.packets(frames, packets)
    }
    return told
  }

  it('is reported at 32 different long names of a device within a minute, and at four times that number', () => {
    expect(toldOf(200, 100)).toEqual([
      '53 192.168.0.23 asked 203.0.113.53 for 32 different DNS names of 100 or more characters in 3 s: data may leave inside DNS queries (DNS tunnel)',
      '53 192.168.0.23 asked 203.0.113.53 for 128 different DNS names of 100 or more characters in 13 s: data may leave inside DNS queries (DNS tunnel)',
    ])
    expect(toldOf(200, 100, { deviceOf: (i) => i % 3 }).map((text) => text.slice(3, 15))).toEqual(
      ['192.168.0.24', '192.168.0.23', '192.168.0.25'].sort(),
    )
  })

  it('is not reported of shorter, repeated or slow names, or of answers', () => {
    expect(toldOf(500, 99)).toEqual([])
    expect(toldOf(500, 120, { distinct: 31 })).toEqual([])
    expect(toldOf(500, 120, { everyMicros: 2 * SECOND })).toEqual([])
    expect(toldOf(500, 120, { header: 0x81 })).toEqual([])
  })

  it('is found beside many devices that ask for a long name', () => {
    const deviceOf = (i: number): number => (i % 10 === 0 ? 0 : 1 + (i % 499))
    expect(toldOf(1000, 120, { deviceOf, everyMicros: 10 })).toHaveLength(1)
  })

  it('is found after many devices asked for some long names', () => {
    const deviceOf = (i: number): number => (i < 400 ? 1 + (i % 100) : 0)
    expect(toldOf(500, 120, { deviceOf, everyMicros: SECOND / 2 })).toHaveLength(1)
  })
})

it('a flood of any host of the network has the fact, while all devices are new as well', () => {
  const told: string[] = []
  const watch = new DeviceWatch({
    settings: DEFAULT_DEVICES,
    localNetworks: [parseNetwork('192.168.0.0/16')],
    known: { devices: [], from: 'file' },
    onNew: () => undefined,
    onReady: () => undefined,
    onFact: (record, rule, fact, isOfResponder) =>
      void told.push(`${rule} ${isOfResponder} ${record.responderPort}: ${fact}`),
    write: null,
  })
  for (const flags of [SYN, undefined]) {
    told.length = 0
    watch.packets(createFrameBatch(0), batchOf(each(600, (i) => [request(i, flags)])))
    expect(told).toEqual([])
    if (flags === SYN) watch.inputEnded()
    else watch.advance(START + 2 * SECOND)
    expect(told).toEqual([
      `request-flood true 80: 192.168.0.23 received 512 requests (${flags === SYN ? 'tcp' : 'udp'} port 80) in 1 s that did not become connections`,
    ])
    watch.clockSet(0)
  }
})

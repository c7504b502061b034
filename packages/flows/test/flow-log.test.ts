/**
 * Flow records for people: SHA-1 against RFC 3174, Community IDs against the baseline of the specification,
 * connection states against Zeek's definitions.
 */
import { createHash } from 'node:crypto'
import { parseIpv4, parseIpv6 } from '@oddflow/capture'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sha1 } from '../src/flow-log.js'
import {
  communityId,
  connectionState,
  createFlowLogFormat,
  END_REASONS,
  type FlowLogOptions,
  type FlowRecord,
  flowLogFields,
} from '../src/index.js'
import { batchesOf, contractOf, extract } from './support/packets.js'

describe('sha1', () => {
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
  it('is that of RFC 3174', () => {
    const text = (s: string) => hex(sha1(new TextEncoder().encode(s)))
    expect(text('abc')).toBe('a9993e364706816aba3e25717850c26c9cd0d89d')
    expect(text('abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq')).toBe(
      '84983e441c3bd26ebaae4aa1f95129e5e54670f1',
    )
    expect(text('0123456701234567012345670123456701234567012345670123456701234567'.repeat(10))).toBe(
      'dea356a2cddd90c7a7ecedc5ebb563934f460452',
    )
  })
  it('is that of the platform, for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(hex(sha1(bytes))).toBe(createHash('sha1').update(bytes).digest('hex'))
      }),
    )
  })
})

function wordsOf(address: string): Uint32Array {
  return parseIpv6(address) ?? new Uint32Array([0, 0, 0, parseIpv4(address)!])
}

/** Protocol, addresses, ports, and the identifiers under seeds 0 and 1 (community-id-spec, baseline/*.json). */
const BASELINE: [number, string, string, number, number, string, string][] = [
  [
    58,
    'fe80::200:86ff:fe05:80da',
    'fe80::260:97ff:fe07:69ea',
    135,
    136,
    '1:dGHyGvjMfljg6Bppwm3bg0LO8TY=',
    '1:kHa1FhMYIT6Ym2Vm2AOtoOARDzY=',
  ],
  [
    58,
    'fe80::260:97ff:fe07:69ea',
    'fe80::200:86ff:fe05:80da',
    136,
    135,
    '1:dGHyGvjMfljg6Bppwm3bg0LO8TY=',
    '1:kHa1FhMYIT6Ym2Vm2AOtoOARDzY=',
  ],
  [
    58,
    'fe80::260:97ff:fe07:69ea',
    'fe80::200:86ff:fe05:80da',
    135,
    136,
    '1:zavyT/cezQr1fmImYCwYnMXbgck=',
    '1:2hSqmsDZ2kdcY9kbiUzOEBic0iM=',
  ],
  [
    58,
    'fe80::200:86ff:fe05:80da',
    'fe80::260:97ff:fe07:69ea',
    136,
    135,
    '1:zavyT/cezQr1fmImYCwYnMXbgck=',
    '1:2hSqmsDZ2kdcY9kbiUzOEBic0iM=',
  ],
  [
    58,
    '3ffe:501:1800:2345::2',
    '3ffe:507:0:1:200:86ff:fe05:80da',
    3,
    0,
    '1:2ObVBgIn28oZvibYZhZMBgh7WdQ=',
    '1:lVEtCZpYu84Xqaa++3lXFyuu2n4=',
  ],
  [
    58,
    '3ffe:501:410:0:2c0:dfff:fe47:33e',
    '3ffe:507:0:1:200:86ff:fe05:80da',
    1,
    4,
    '1:hLZd0XGWojozrvxqE0dWB1iM6R0=',
    '1:W8MHwXpWzpoSTD+cGcaJr4u0ys8=',
  ],
  [
    58,
    '3ffe:507:0:1:200:86ff:fe05:80da',
    '3ffe:501:0:1001::2',
    128,
    129,
    '1:+TW+HtLHvV1xnGhV1lv7XoJrqQg=',
    '1:GfZxjAkDk2MkegpBYHV6tadtFXQ=',
  ],
  [
    58,
    '3ffe:501:0:1001::2',
    '3ffe:507:0:1:200:86ff:fe05:80da',
    129,
    128,
    '1:+TW+HtLHvV1xnGhV1lv7XoJrqQg=',
    '1:GfZxjAkDk2MkegpBYHV6tadtFXQ=',
  ],
  [
    58,
    'fe80::200:86ff:fe05:80da',
    'ff02::2',
    133,
    134,
    '1:hO+sN4H+MG5MY/8hIrXPqc4ZQz0=',
    '1:L7Ka0ZMYu+J3bL4ulW2PrqyXNo8=',
  ],
  [
    58,
    'fe80::260:97ff:fe07:69ea',
    'ff02::1',
    134,
    133,
    '1:pkvHqCL88/tg1k4cPigmZXUtL00=',
    '1:K/ee5UCqAMAQXDorP5nSa2CGLjc=',
  ],
  [
    1,
    '192.168.0.89',
    '192.168.0.1',
    8,
    0,
    '1:X0snYXpgwiv9TZtqg64sgzUn6Dk=',
    '1:03g6IloqVBdcZlPyX8r0hgoE7kA=',
  ],
  [
    1,
    '192.168.0.1',
    '192.168.0.89',
    0,
    8,
    '1:X0snYXpgwiv9TZtqg64sgzUn6Dk=',
    '1:03g6IloqVBdcZlPyX8r0hgoE7kA=',
  ],
  [1, '10.0.0.1', '10.0.0.2', 11, 0, '1:YHxtAirCG//0OzkcVAukqKQN9xM=', '1:XjUibYHaafLQ3pxQeiMI8g25q20='],
  [
    6,
    '2001:470:e5bf:dead:4957:2174:e82c:4887',
    '2607:f8b0:400c:c03::1a',
    63943,
    25,
    '1:/qFaeAR+gFe1KYjMzVDsMv+wgU4=',
    '1:eJYTW6AOzFLlSUoESovMjnu7rMw=',
  ],
  [
    6,
    '2607:f8b0:400c:c03::1a',
    '2001:470:e5bf:dead:4957:2174:e82c:4887',
    25,
    63943,
    '1:/qFaeAR+gFe1KYjMzVDsMv+wgU4=',
    '1:eJYTW6AOzFLlSUoESovMjnu7rMw=',
  ],
  [
    132,
    '192.168.170.8',
    '192.168.170.56',
    7,
    7,
    '1:MP2EtRCAUIZvTw6MxJHLV7N7JDs=',
    '1:5w3ZRjeKBzqT3zsaEECDGjUbYeg=',
  ],
  [
    132,
    '192.168.170.56',
    '192.168.170.8',
    7,
    7,
    '1:MP2EtRCAUIZvTw6MxJHLV7N7JDs=',
    '1:5w3ZRjeKBzqT3zsaEECDGjUbYeg=',
  ],
  [
    6,
    '128.232.110.120',
    '66.35.250.204',
    34855,
    80,
    '1:LQU9qZlK+B5F3KDmev6m5PMibrg=',
    '1:3V71V58M3Ksw/yuFALMcW0LAHvc=',
  ],
  [
    6,
    '66.35.250.204',
    '128.232.110.120',
    80,
    34855,
    '1:LQU9qZlK+B5F3KDmev6m5PMibrg=',
    '1:3V71V58M3Ksw/yuFALMcW0LAHvc=',
  ],
  [
    17,
    '192.168.1.52',
    '8.8.8.8',
    54585,
    53,
    '1:d/FP5EW3wiY1vCndhwleRRKHowQ=',
    '1:Q9We8WO3piVF8yEQBNJF4uiSVrI=',
  ],
  [
    17,
    '8.8.8.8',
    '192.168.1.52',
    53,
    54585,
    '1:d/FP5EW3wiY1vCndhwleRRKHowQ=',
    '1:Q9We8WO3piVF8yEQBNJF4uiSVrI=',
  ],
  [46, '10.1.12.1', '10.1.12.2', 0, 0, '1:KHlLkgoJW7ifUTyTSgyVfkFHzKw=', '1:rYir8gphR31noO9iDRQmF/BteEI='],
  [46, '10.1.12.2', '10.1.12.1', 0, 0, '1:KHlLkgoJW7ifUTyTSgyVfkFHzKw=', '1:rYir8gphR31noO9iDRQmF/BteEI='],
]

it.each(BASELINE)('Community ID of %d %s %s %d %d', (protocol, from, to, sport, dport, seed0, seed1) => {
  const flow = {
    ipVersion: from.includes(':') ? 6 : 4,
    protocol,
    sourceAddress: wordsOf(from),
    destinationAddress: wordsOf(to),
    sourcePort: sport,
    destinationPort: dport,
  }
  expect(communityId(flow)).toBe(seed0)
  expect(communityId(flow, 1)).toBe(seed1)
})

describe('connection state', () => {
  const FIN = 1
  const SYN = 2
  const RST = 4
  const PSH = 8
  const ACK = 16
  const cases: [string, number, number, number][] = [
    ['S0', SYN, 0, 0],
    ['S1', SYN | ACK, SYN | ACK, 2],
    ['SF', SYN | ACK | FIN, SYN | ACK | FIN, 3],
    ['REJ', SYN, RST | ACK, 1],
    ['S2', SYN | ACK | FIN, SYN | ACK, 2],
    ['S3', SYN | ACK, SYN | ACK | FIN, 2],
    ['RSTO', SYN | ACK | RST, SYN | ACK, 2],
    ['RSTR', SYN | ACK, SYN | ACK | RST, 2],
    ['RSTOS0', SYN | RST, 0, 0],
    ['RSTRH', ACK, SYN | ACK | RST, 2],
    ['SH', SYN | FIN, 0, 0],
    ['SHR', ACK, SYN | ACK | FIN, 2],
    ['OTH', ACK, ACK, 2],
    // the SYN-ACK is missing
    ['SF', SYN | ACK | PSH | FIN, ACK | PSH | FIN, 3],
    ['RSTR', SYN | ACK | PSH, ACK | PSH | RST, 3],
    ['RSTO', SYN | ACK | RST, ACK, 1],
    ['S1', SYN | ACK, ACK, 1],
    // the SYN is missing
    ['SF', ACK | FIN, SYN | ACK | FIN, 2],
    ['OTH', ACK, SYN | ACK, 1],
    ['RSTO', ACK | RST, SYN | ACK, 1],
    ['S2', ACK | FIN, SYN | ACK, 1],
    // one direction alone: what the initiator acknowledges, somebody sent
    ['OTH', SYN | ACK | PSH, 0, 0],
    ['SH', SYN | ACK | FIN, 0, 0],
    // backscatter, and the answer of a host that asked for nothing
    ['OTH', 0, SYN | ACK, 1],
    ['OTH', RST, SYN | ACK, 1],
    // refused before any data, and after some
    ['REJ', SYN | RST, RST | ACK, 1],
    ['RSTR', SYN, PSH | ACK | RST, 2],
  ]
  it.each(cases)('%s of flags %d and %d', (state, initiatorTcpFlags, responderTcpFlags, responderPackets) => {
    const record = { protocol: 6, responderPackets, initiatorTcpFlags, responderTcpFlags }
    expect(connectionState(record)).toBe(state)
  })
  it('of UDP', () => {
    const icmp = { protocol: 1, responderPackets: 1, initiatorTcpFlags: 0, responderTcpFlags: 0 }
    expect(connectionState(icmp)).toBe('OTH')
    const udp = { protocol: 17, initiatorTcpFlags: 0, responderTcpFlags: 0 }
    expect(connectionState({ ...udp, responderPackets: 0 })).toBe('S0')
    expect(connectionState({ ...udp, responderPackets: 1 })).toBe('SF')
  })
})

const CSV = createFlowLogFormat('csv')
/** The object of a record's JSON line. */
const entryOf = (record: FlowRecord, options: FlowLogOptions = {}): Record<string, string | number> =>
  JSON.parse(createFlowLogFormat('json', options).line(record))

it('flow log entries, as JSON and CSV', () => {
  const [record] = extract(
    batchesOf([
      { t: 1.5, from: [1, 4000], to: [2, 443], bytes: 74, flags: 2 },
      { t: 1.75, from: [2, 443], to: [1, 4000], bytes: 60, flags: 18 },
      { t: 2, from: [1, 4000], to: [2, 443], bytes: 66, flags: 16 },
    ]),
    contractOf(),
  ).records
  const entry = entryOf(record)
  expect(entry).toMatchObject({
    ts: 1.5,
    'id.orig_h': '10.0.0.1',
    'id.orig_p': 4000,
    'id.resp_h': '10.0.0.2',
    'id.resp_p': 443,
    proto: 'tcp',
    ip_proto: 6,
    duration: 0.5,
    conn_state: 'S1',
    orig_pkts: 2,
    orig_ip_bytes: 74 + 66 - 28,
    orig_frame_bytes: 140,
    resp_pkts: 1,
    resp_ip_bytes: 46,
    resp_frame_bytes: 60,
    orig_l2_addr: '00:00:00:00:00:01',
    end_reason: 'end-of-capture',
    piece: 0,
  })
  expect(entry.uid).toMatch(/^C[0-9A-Za-z]{17}$/)
  const names = CSV.header.trimEnd().split(',')
  const values = CSV.line(record).trimEnd().split(',')
  expect(names).toEqual(Object.keys(entry))
  const text = (name: string, value: string | number) =>
    name === 'ts' || name === 'duration' ? (value as number).toFixed(6) : String(value)
  expect(values).toEqual(Object.entries(entry).map(([name, value]) => text(name, value)))
  expect(Object.keys(entryOf(record, { sizeMeasure: 'ip' }))).not.toContain('orig_frame_bytes')
})

describe('the fields of a flow log', () => {
  // docs.zeek.org, Conn::Info of base/protocols/conn/main.zeek and its MAC and Community ID add-ons
  const ZEEK =
    'ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto service duration orig_bytes resp_bytes conn_state local_orig local_resp missed_bytes history orig_pkts orig_ip_bytes resp_pkts resp_ip_bytes tunnel_parents ip_proto orig_l2_addr resp_l2_addr community_id'.split(
      ' ',
    )
  const OURS = ['orig_frame_bytes', 'resp_frame_bytes', 'end_reason', 'piece']

  it("have the names of Zeek's conn.log, or are ours by name", () => {
    for (const { name } of flowLogFields()) expect([...ZEEK, ...OURS]).toContain(name)
    expect(flowLogFields({ sizeMeasure: 'captured' }).map(({ name }) => name)).toContain(
      'orig_captured_bytes',
    )
  })

  it('hold any record: texts within their length, whole numbers of 0 or more', () => {
    const address = fc.uint32Array({ minLength: 4, maxLength: 4 })
    const whole = fc.nat(2 ** 31 - 1)
    const record = fc.record({
      ipVersion: fc.constantFrom(4, 6),
      protocol: fc.constantFrom(1, 6, 17, 58, 132),
      initiatorAddress: address,
      responderAddress: address,
      startMicros: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
      durationMicros: whole,
      responderPackets: whole,
      endReason: fc.constantFrom(...END_REASONS),
      initiatorTcpFlags: fc.nat(255),
      responderTcpFlags: fc.nat(255),
    })
    const [some] = extract(batchesOf([{ t: 1, from: [1, 1], to: [2, 2] }]), contractOf()).records
    fc.assert(
      fc.property(record, (changes) => {
        for (const { kind, maximumLength, read } of flowLogFields()) {
          const value = read({ ...some, ...changes })
          if (kind !== 'text') expect(Number.isSafeInteger(value) && (value as number) >= 0).toBe(true)
          else {
            expect(value).toMatch(/^[\x21-\x7e]+$/)
            expect(value).not.toMatch(/[",]/)
            expect((value as string).length).toBeLessThanOrEqual(maximumLength)
          }
        }
      }),
    )
  })
})

it('seconds have six decimals in text, whatever they are', () => {
  const [record] = extract(batchesOf([{ t: 3, from: [1, 4000], to: [2, 443] }]), contractOf()).records
  const times = (startMicros: number, durationMicros: number) => {
    const of = { ...record, startMicros, durationMicros }
    const [ts] = CSV.line(of).split(',')
    const json = /"ts":(.*?),.*"duration":(.*?),/.exec(createFlowLogFormat('json').line(of))
    expect(json?.[1]).toBe(ts)
    return [ts, json?.[2]]
  }
  expect(times(3_000_000, 0)).toEqual(['3.000000', '0.000000'])
  expect(times(1_764_280_000_000_001, 2_900_001)).toEqual(['1764280000.000001', '2.900001'])
  expect(times(-1, 1)).toEqual(['-0.000001', '0.000001'])
  expect(times(-2_500_000, 60_000_000)).toEqual(['-2.500000', '60.000000'])
})

it('has no MAC address where the link layer has none', () => {
  const [record] = extract(batchesOf([{ t: 3, from: [1, 4000], to: [2, 443] }]), contractOf()).records
  const raw = { ...record, responderMac: new Uint8Array(6) }
  expect(entryOf(raw)).toMatchObject({ orig_l2_addr: '00:00:00:00:00:01' })
  expect(entryOf(raw)).not.toHaveProperty('resp_l2_addr')
  const at = CSV.header.trimEnd().split(',').indexOf('resp_l2_addr')
  expect(CSV.line(raw).split(',')[at]).toBe('')
})

import { describe, expect, it } from 'vitest'
import { judgeOnePacket, learnOnePacketRule, MAXIMUM_SERVICES } from '../src/index.js'
import { batchesOf, collect, type Packet } from './support/packets.js'

function rule(packets: readonly Packet[]) {
  return learnOnePacketRule(collect(batchesOf(packets)))
}

describe('one-packet rule', () => {
  it('knows the services of whole flows of one packet, by protocol and lower port', () => {
    const learned = rule([
      { t: 0, from: [1, 50000], to: [2, 1900], protocol: 17 },
      { t: 0, from: [1, 123], to: [2, 50001], protocol: 17 },
      { t: 0, from: [1, 50000], to: [2, 443] },
      { t: 1, from: [2, 443], to: [1, 50000] },
      // Two packets too far apart are two flows of one packet.
      { t: 0, from: [1, 50002], to: [2, 8080] },
      { t: 601, from: [1, 50002], to: [2, 8080] },
    ])
    expect(learned).toEqual({ flows: 4, services: ['tcp/8080', 'udp/123', 'udp/1900'] })
    const judge = (protocol: number, initiatorPort: number, responderPort: number) =>
      judgeOnePacket(learned, { protocol, initiatorPort, responderPort })
    expect(judge(17, 40000, 1900)).toBe(false)
    expect(judge(17, 1900, 40000)).toBe(false)
    expect(judge(6, 40000, 1900)).toBe(true)
    expect(judge(6, 50000, 443)).toBe(true)
  })
  it('finds everything novel where training had no such flow', () => {
    const learned = rule([])
    expect(learned).toEqual({ flows: 0, services: [] })
    expect(judgeOnePacket(learned, { protocol: 17, initiatorPort: 1, responderPort: 2 })).toBe(true)
  })
  it('keeps the most frequent services when there are too many, and counts all flows', () => {
    const packets: Packet[] = []
    for (let port = 1; port <= 1100; port++) packets.push({ t: 0, from: [1, 60000], to: [2, port] })
    for (let port = 1000; port <= 1100; port++) packets.push({ t: 0, from: [3, 60000], to: [2, port] })
    const learned = rule(packets)
    expect(learned.flows).toBe(packets.length)
    expect(learned.services).toHaveLength(MAXIMUM_SERVICES)
    for (let port = 1000; port <= 1100; port++) expect(learned.services).toContain(`tcp/${port}`)
    expect([...learned.services].sort()).toEqual(learned.services)
  })
})

/**
 * Every link type that is read beside the common ones: a header by hand before a UDP packet, which tshark reads as well.
 * What tshark refuses or reads only with more context stands apart, by tcpdump.org's description alone.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createFrameBatch, createPacketBatch, decodePackets, PACKET_STATUS_NAMES } from '../src/index.js'
import { enhancedPacket, interfaceBlock, section, u32 } from './support/pcapng.js'
import { hasProgram } from './support/shared.js'
import { ipv4, ipv6, MACS, UDP } from './support/wire.js'

type Version = 4 | 6
const zeros = (count: number): number[] => new Array<number>(count).fill(0)
const ETHERNET = [...MACS, 8, 0]
const SNAP = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0]
const SNAP_6 = [0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd]
const MGC = [0x4d, 0x47, 0x43]
const ROUTED = [...MACS.slice(0, 6), 0x82, ...MACS.slice(7), 6, 0x30, 0, 0x12, 0, 0x30]

const LIKE_TSHARK: readonly (readonly [string, number, readonly number[], Version])[] = [
  ['Token Ring', 6, [0x10, 0x40, ...MACS, ...SNAP], 4],
  ['Token Ring, IPv6', 6, [0x10, 0x40, ...MACS, ...SNAP_6], 6],
  ['Token Ring with source routing', 6, [0x10, 0x40, ...ROUTED, ...SNAP], 4],
  ['ARCNET, RFC 1201', 7, [1, 2, 0xd4, 0, 0, 1], 4],
  ['ARCNET, RFC 1051', 7, [1, 2, 0xf0], 4],
  ['ARCNET of Linux', 129, [1, 2, 0, 0, 0xd4, 0, 0, 1], 4],
  ['FDDI', 10, [0x50, ...MACS, ...SNAP], 4],
  ['RFC 1483 over ATM', 100, SNAP, 4],
  ['RFC 1483 over ATM, IPv6', 100, SNAP_6, 6],
  ['Classical IP over ATM', 106, [], 4],
  ['Frame Relay', 107, [0x18, 0x41, 3, 0xcc], 4],
  ['Frame Relay, IPv6', 107, [0x18, 0x41, 3, 0x8e], 6],
  ['Frame Relay with SNAP', 107, [0x18, 0x41, 3, 0, 0x80, 0, 0, 0, 8, 0], 4],
  ['Frame Relay of Cisco', 107, [0x18, 0x41, 8, 0], 4],
  ['Ethernet over Frame Relay', 107, [0x18, 0x41, 3, 0, 0x80, 0, 0x80, 0xc2, 0, 7, ...ETHERNET], 4],
  ['ENC', 109, [2, 0, 0, 0, ...zeros(8)], 4],
  ['ENC in the other byte order', 109, [0, 0, 0, 2, ...zeros(8)], 4],
  ['ENC, IPv6', 109, [24, 0, 0, 0, ...zeros(8)], 6],
  ['NetBSD HDLC', 112, [0x0f, 0, 8, 0], 4],
  ['PFLOG', 117, [61, 2, ...zeros(62)], 4],
  ['PFLOG, IPv6', 117, [61, 24, ...zeros(62)], 6],
  ['PFLOG with a longer header', 117, [100, 2, ...zeros(98)], 4],
  ['IP over Fibre Channel', 122, [0, 0, ...MACS.slice(0, 6), 0, 0, ...MACS.slice(6), ...SNAP], 4],
  ['SunATM', 123, [2, 0, 0, 5, ...SNAP], 4],
  ['TZSP', 128, [1, 0, 0, 1, 10, 1, 99, 0, 1, ...ETHERNET], 4],
  ['IP over IEEE 1394', 138, [...zeros(16), 8, 0], 4],
  ['Juniper PPPoE', 167, [...MGC, 0, ...ETHERNET], 4],
  ['Juniper Ethernet', 178, [...MGC, 1, ...ETHERNET], 4],
  ['Juniper Ethernet with an extension', 178, [...MGC, 0x80, 0, 3, 9, 9, 9, ...ETHERNET], 4],
  ['Juniper PPP', 179, [...MGC, 0, 0xff, 3, 0, 0x21], 4],
  ['Juniper Frame Relay', 180, [...MGC, 0, 0x18, 0x41, 3, 0xcc], 4],
  ['Juniper Cisco HDLC', 181, [...MGC, 0, 0x0f, 0, 8, 0], 4],
  ['ERF of Ethernet', 197, [...zeros(8), 2, 4, 0, 62, 0, 0, 0, 44, 0, 0, ...ETHERNET], 4],
  ['IPNET', 226, [1, 2, 0, 0, 0, 0, 0, 28, ...zeros(16)], 4],
  ['IPNET, IPv6', 226, [1, 26, 0, 0, 0, 0, 0, 48, ...zeros(16)], 6],
  ['IP over InfiniBand', 242, [...zeros(40), 8, 0, 0, 0], 4],
  ['IP over InfiniBand, IPv6', 242, [...zeros(40), 0x86, 0xdd, 0, 0], 6],
  ['PKTAP of Ethernet', 258, [...u32(108), ...u32(1), ...u32(1), ...zeros(96), ...ETHERNET], 4],
  ['PKTAP of raw IP', 258, [...u32(108), ...u32(1), ...u32(12), ...zeros(96)], 4],
  ['EPON', 259, [0x55, 0x55, 0xd5, 0x55, 0x55, 0, 1, 0, ...ETHERNET], 4],
]

const BY_DESCRIPTION: readonly (readonly [string, number, readonly number[], Version])[] = [
  ['ENC of FreeBSD, IPv6', 109, [28, 0, 0, 0, ...zeros(8)], 6],
  ['ERF with an extension', 197, [...zeros(8), 0x82, 4, 0, 70, 0, 0, 0, 44, ...zeros(10), ...ETHERNET], 4],
  ['ERF of IPv6', 197, [...zeros(8), 23, 4, 0, 64, 0, 0, 0, 48], 6],
]

const frameOf = (header: readonly number[], version: Version): number[] => [
  ...header,
  ...(version === 4 ? ipv4(17, UDP) : ipv6(17, UDP)),
]

function decode(linkType: number, bytes: readonly number[]) {
  const frames = createFrameBatch(1)
  frames.count = 1
  frames.data = Uint8Array.from(bytes)
  frames.capturedBytes[0] = bytes.length
  frames.wireBytes[0] = bytes.length
  frames.linkType[0] = linkType
  const packets = createPacketBatch(1)
  decodePackets(frames, packets)
  const status = PACKET_STATUS_NAMES[packets.status[0]!]!
  return {
    status,
    version: packets.ipVersion[0]!,
    port: packets.destinationPort[0]!,
    ipBytes: packets.ipBytes[0]!,
  }
}

const all = [...LIKE_TSHARK, ...BY_DESCRIPTION]

describe('link types', () => {
  it.each(all)('%s (%i)', (_, linkType, header, version) => {
    expect(decode(linkType, frameOf(header, version))).toMatchObject({ status: 'ok', version, port: 5353 })
  })

  it('an IPv4 length of 0 reaches to the end of the frame, whatever header comes before', () => {
    for (const [name, linkType, header, version] of all) {
      if (version !== 4) continue
      const bytes = [...header, ...ipv4(17, UDP, 0)]
      expect(decode(linkType, bytes), name).toMatchObject({ status: 'ok', ipBytes: 28 })
    }
  })

  it('are read by tshark alike', (context) => {
    if (!hasProgram('tshark', 'link types are not compared with it')) return context.skip('no tshark')
    const interfaces = LIKE_TSHARK.map(([, linkType]) => interfaceBlock([], true, linkType))
    const packets = LIKE_TSHARK.map(([, , header, version], k) =>
      enhancedPacket(k, BigInt(1e15), frameOf(header, version)),
    )
    const folder = mkdtempSync(join(tmpdir(), 'oddflow-links-'))
    try {
      const file = join(folder, 'links.pcapng')
      writeFileSync(file, Uint8Array.from([section(), ...interfaces, ...packets].flat()))
      const args = ['-n', '-r', file, '-T', 'fields', '-e', 'ip.version', '-e', 'udp.dstport']
      const lines = execFileSync('tshark', args, { stdio: ['ignore', 'pipe', 'ignore'] })
        .toString()
        .trimEnd()
      const found = lines.split('\n').map((line, k) => `${LIKE_TSHARK[k]?.[0]}: ${line.replace('\t', '')}`)
      expect(found).toEqual(LIKE_TSHARK.map(([name, , , version]) => `${name}: ${version}5353`))
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('give a cut frame a reason, wherever it is cut', () => {
    for (const [name, linkType, header, version] of all) {
      const bytes = frameOf(header, version)
      const toPorts = bytes.length - UDP.length + 4
      for (let length = 0; length < toPorts; length++) {
        expect(decode(linkType, bytes.slice(0, length)).status, `${name} cut to ${length}`).not.toBe('ok')
      }
    }
  })

  it('never throw, whatever follows whatever header', () => {
    const known = fc.constantFrom(...all)
    const noise = fc.uint8Array({ maxLength: 80 })
    fc.assert(
      fc.property(known, noise, fc.nat(), ([, linkType, header], tail, keep) => {
        const bytes = [...header.slice(0, keep % (header.length + 1)), ...tail]
        expect(PACKET_STATUS_NAMES).toContain(decode(linkType, bytes).status)
      }),
      { numRuns: sampleCount(2000) },
    )
  })

  it('that name another cannot be stacked without end', () => {
    const pktap = [...u32(12), ...u32(1), ...u32(192)]
    const ppi = [0, 0, 8, 0, ...u32(258)]
    const stack = Array.from({ length: 20_000 }, (_, k) => (k % 2 === 0 ? pktap : ppi)).flat()
    expect(decode(258, stack).status).toBe('link-type-unsupported')
    expect(decode(192, [...ppi, ...stack]).status).toBe('link-type-unsupported')
  })
})

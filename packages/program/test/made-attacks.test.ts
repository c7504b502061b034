/** Made packets against the decoder of captures, RFC 1071, and tshark, which checks every checksum and every name. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCaptureReader, createPacketBatch, decodePackets, encodePcap } from '@oddflow/capture'
import { createRng } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createPacketMaker,
  DEFAULT_SITE,
  MADE_ATTACKS,
  type MadeAttack,
  type MadeFrame,
  type MadeHost,
  type MadeSite,
} from '../src/index.js'

const START = 1_767_225_600_000_000
const ipv6 = (end: number): MadeHost => ({
  address: Uint8Array.from([0xfd, 0x50, ...new Array(13).fill(0), end]),
  mac: Uint8Array.of(2, 0, 0, 0, 0, end),
  hopLimit: 64,
})
const SITES: Readonly<Record<string, MadeSite>> = {
  ethernet: DEFAULT_SITE,
  'IPv6 over Ethernet': {
    ...DEFAULT_SITE,
    device: ipv6(0x50),
    neighbour: ipv6(0x66),
    resolver: ipv6(1),
  },
  'raw IP': {
    ...DEFAULT_SITE,
    device: { ...DEFAULT_SITE.device, mac: null },
    neighbour: { ...DEFAULT_SITE.neighbour, mac: null },
    resolver: { ...DEFAULT_SITE.resolver, mac: null },
    routerMac: null,
  },
}

function framesOf(attack: MadeAttack, size: number, site: MadeSite, seed = 1): MadeFrame[] {
  const maker = createPacketMaker({ micros: START })
  return Array.from(attack.frames(size, site, createRng(seed), maker), ({ timestampMicros, bytes }) => ({
    timestampMicros,
    bytes: bytes.slice(),
  }))
}

const linkTypeOf = ({ routerMac }: MadeSite): number => (routerMac === null ? 101 : 1)
const small = ({ lowest, highest }: MadeAttack): number => Math.min(highest, 40 * lowest)

function decoded(frames: readonly MadeFrame[], site: MadeSite) {
  const reader = createCaptureReader({ batchFrames: 65_536 })
  reader.push(encodePcap(frames, { linkType: linkTypeOf(site) }))
  const batch = reader.read()!
  const packets = createPacketBatch(batch.count)
  decodePackets(batch, packets)
  return packets
}

/** RFC 1071 over a whole packet with its checksum in place gives 0xffff. */
function ones(bytes: Uint8Array, from = 0): number {
  let sum = from
  for (let i = 0; i < bytes.length; i++) sum += bytes[i]! << (i % 2 === 0 ? 8 : 0)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return sum
}

describe.each(MADE_ATTACKS)('$name', (attack) => {
  it.each(Object.entries(SITES))('is whole packets with right checksums: %s', (_, site) => {
    const frames = framesOf(attack, small(attack), site)
    const packets = decoded(frames, site)
    expect(packets.count).toBe(frames.length)
    expect([...packets.status.subarray(0, frames.length)].every((status) => status === 0)).toBe(true)
    const linkBytes = site.routerMac === null ? 0 : 14
    for (const { bytes } of frames) {
      const ip = bytes.subarray(linkBytes)
      const isIpv4 = ip[0]! >> 4 === 4
      const ipHeader = isIpv4 ? 20 : 40
      if (isIpv4) expect(ones(ip.subarray(0, 20))).toBe(0xffff)
      const addresses = isIpv4 ? ip.subarray(12, 20) : ip.subarray(8, 40)
      const protocol = isIpv4 ? ip[9]! : ip[6]!
      const transport = ip.subarray(ipHeader)
      expect(ones(transport, ones(addresses) + protocol + transport.length)).toBe(0xffff)
    }
    expect(packets.ipBytes.subarray(0, frames.length)).toEqual(
      Uint32Array.from(frames, ({ bytes }) => bytes.length - linkBytes),
    )
  })

  it('goes forward in time, and is the same for the same seed alone', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: attack.lowest, max: small(attack) }),
        fc.integer({ min: 0, max: 2 ** 32 }),
        (size, seed) => {
          const frames = framesOf(attack, size, DEFAULT_SITE, seed)
          const times = frames.map(({ timestampMicros }) => timestampMicros)
          expect(times.every((t, i) => Number.isSafeInteger(t) && t >= (times[i - 1] ?? START))).toBe(true)
          expect(framesOf(attack, size, DEFAULT_SITE, seed)).toEqual(frames)
          expect(framesOf(attack, size, DEFAULT_SITE, seed + 1)).not.toEqual(frames)
        },
      ),
      { numRuns: 10 },
    )
  })
})

/** Payload bytes that the device sends and receives. */
function deviceBytes(name: string, size: number): { sent: number; received: number } {
  const attack = MADE_ATTACKS.find((made) => made.name === name)!
  const [device] = [DEFAULT_SITE.device.address]
  const sums = { sent: 0, received: 0 }
  for (const { bytes } of framesOf(attack, size, DEFAULT_SITE)) {
    const payload = bytes.length - 34 - (bytes[23] === 17 ? 8 : (bytes[46]! >> 4) * 4)
    sums[device.every((byte, i) => bytes[26 + i] === byte) ? 'sent' : 'received'] += payload
  }
  return sums
}

describe('the size of an attack', () => {
  it('is what it says', () => {
    const { exchanges } = DEFAULT_SITE.openConnection
    const sum = (of: 'request' | 'answer'): number => exchanges.reduce((bytes, one) => bytes + one[of], 0)
    expect(deviceBytes('upload', 123_456)).toEqual({
      sent: 123_456 + sum('request'),
      received: sum('answer'),
    })
    const [none, all] = [deviceBytes('download', 100), deviceBytes('download', 1_000_100)]
    expect(all).toEqual({ sent: none.sent, received: none.received + 1_000_000 })
    expect(deviceBytes('beacon', 700)).toEqual({ sent: 3500, received: 3500 })
    expect(deviceBytes('flood', 30).sent % (5 * 30)).toBe(0)
    for (const [name, size] of [
      ['port-scan', 30],
      ['host-scan', 30],
    ] as const) {
      const frames = framesOf(MADE_ATTACKS.find((made) => made.name === name)!, size, DEFAULT_SITE)
      expect(frames.filter(({ bytes }) => bytes[47] === 2)).toHaveLength(size)
    }
    const names = framesOf(MADE_ATTACKS.find(({ name }) => name === 'dns-tunnel')!, 200, DEFAULT_SITE)
    expect(names.filter((_, i) => i % 2 === 0).map(({ bytes }) => bytes.length)).toEqual(
      new Array(10).fill(14 + 20 + 8 + 12 + 200 + 2 + 4),
    )
  })
})

describe('tshark', () => {
  it('finds nothing wrong with any made packet', (context) => {
    let version = ''
    try {
      version = execFileSync('tshark', ['--version'], { encoding: 'utf8' })
    } catch {
      context.skip('no tshark')
    }
    expect(version).not.toBe('')
    const folder = mkdtempSync(join(tmpdir(), 'oddflow-made-'))
    try {
      for (const site of Object.values(SITES)) {
        // seeds of their own, so that no two attacks share ports
        let i = 0
        const frames = MADE_ATTACKS.flatMap((attack) => framesOf(attack, small(attack), site, i++))
        const file = join(folder, 'made.pcap')
        writeFileSync(file, encodePcap(frames, { linkType: linkTypeOf(site) }))
        const checks = ['ip', 'tcp', 'udp'].flatMap((layer) => ['-o', `${layer}.check_checksum:TRUE`])
        const fields = ['ip', 'tcp', 'udp'].map((layer) => `${layer}.checksum.status`)
        const lines = execFileSync(
          'tshark',
          ['-n', '-r', file, ...checks, '-T', 'fields', '-e', 'frame.len', '-e', 'dns.qry.name.len']
            .concat(fields.flatMap((field) => ['-e', field]))
            .concat([
              '-e',
              '_ws.malformed',
              '-e',
              'tcp.analysis.lost_segment',
              '-e',
              'tcp.analysis.ack_lost_segment',
            ]),
          { encoding: 'utf8', maxBuffer: 2 ** 28 },
        )
          .trimEnd()
          .split('\n')
          .map((line) => line.split('\t'))
        expect(lines).toHaveLength(frames.length)
        // a status of 1 is a good checksum
        expect(new Set(lines.flatMap((line) => line.slice(2, 5)))).toEqual(new Set(['', '1']))
        expect(new Set(lines.map(([, , , tcp, udp]) => `${tcp}${udp}`))).toEqual(new Set(['1']))
        expect(new Set(lines.flatMap((line) => line.slice(5)))).toEqual(new Set(['']))
        expect(new Set(lines.map(([, nameLength]) => nameLength))).toEqual(new Set(['', '250']))
      }
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

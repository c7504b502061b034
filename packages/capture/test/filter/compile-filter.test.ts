import { ArgumentError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseIpv4, parseIpv6 } from '../../src/addresses.js'
import { compileFilter } from '../../src/filter/compile-filter.js'
import { createPacketBatch, type PacketBatch, packetStatusCode } from '../../src/packet-batch.js'

interface Packet {
  version: 4 | 6 | 0
  protocol: number
  source: string
  destination: string
  sourcePort: number
  destinationPort: number
  status?: 'ok' | 'arp' | 'ip-later-fragment'
  mac?: number[]
}

function batchOf(list: readonly Packet[]): PacketBatch {
  const batch = createPacketBatch(list.length)
  batch.count = list.length
  list.forEach((packet, i) => {
    batch.status[i] = packetStatusCode(packet.status ?? 'ok')
    batch.ipVersion[i] = packet.version
    batch.protocol[i] = packet.protocol
    const put = (words: Uint32Array, text: string): void => {
      const v6 = parseIpv6(text)
      if (v6 !== null) words.set(v6, 4 * i)
      else words[4 * i + 3] = parseIpv4(text)!
    }
    put(batch.sourceAddress, packet.source)
    put(batch.destinationAddress, packet.destination)
    batch.sourcePort[i] = packet.sourcePort
    batch.destinationPort[i] = packet.destinationPort
    batch.sourceMac.set(packet.mac ?? [], 6 * i)
  })
  return batch
}

const web: Packet = {
  version: 4,
  protocol: 6,
  source: '10.0.0.1',
  destination: '10.0.0.2',
  sourcePort: 40_000,
  destinationPort: 80,
  mac: [0, 17, 34, 51, 68, 85],
}
const dns: Packet = { ...web, protocol: 17, source: '10.0.0.3', sourcePort: 53, destinationPort: 5353 }
const web6: Packet = { ...web, version: 6, source: '2001:db8::1', destination: '2001:db8::2' }
const arp: Packet = { ...web, version: 0, protocol: 0, sourcePort: 0, destinationPort: 0, status: 'arp' }
const fragment: Packet = { ...dns, sourcePort: 0, destinationPort: 0, status: 'ip-later-fragment' }
const ALL = [web, dns, web6, arp, fragment]

function kept(text: string): number[] {
  const filter = compileFilter(text)
  const batch = batchOf(ALL)
  return ALL.map((_, i) => i).filter((i) => filter(batch, i))
}

describe('compileFilter', () => {
  // pcap-filter(7): equal precedence, from the left; an identifier inherits the qualifiers before it
  it.each([
    ['tcp', [0, 2]],
    ['udp', [1, 4]],
    ['port 53', [1]],
    ['host 10.0.0.1', [0, 3]],
    ['10.0.0.1', [0, 3]],
    ['ip host 10.0.0.1', [0]],
    ['arp host 10.0.0.1', [3]],
    ['tcp or udp and port 53', [1]],
    ['port 53 or tcp and ip6', [2]],
    ['tcp or (udp and port 53)', [0, 1, 2]],
    ['port 80 or 53', [0, 1, 2]],
    ['tcp port (80 or 53)', [0, 2]],
    ['not port 53 and not 80', [3, 4]],
    ['not (port 53 or 80)', [3, 4]],
    ['! arp && ip', [0, 1, 4]],
    ['src or dst port 80', [0, 2]],
    ['src and dst port 80', []],
    ['src port 53', [1]],
    ['dst portrange 79-81', [0, 2]],
    ['net 10', [0, 1, 3, 4]],
    ['src net 10.0.0.2/31', [1, 4]],
    ['net 10.0.0.0 mask 255.255.255.254', [0, 3]],
    ['net 2001:db8::/126 || icmp', [2]],
    ['ether src 0:11:22:33:44:55', [0, 1, 2, 3, 4]],
    ['ether dst 0:11:22:33:44:55', []],
  ])('%s', (text, expected) => {
    expect(kept(text)).toEqual(expected)
  })

  it.each([
    ['', 1, 'a filter word'],
    ['tcp port', 9, 'a value for port'],
    ['tcp port none', 10, 'a port from 0 to 65535'],
    ['udp port http', 10, 'a port that udp has'],
    ['tcp proto 6', 5, 'ether, ip or ip6 before proto'],
    ['ether proto 0x88cc', 13, 'ip, ip6, arp'],
    ['ip proto 256', 10, 'a protocol number from 0 to 255'],
    ['less tcp', 6, 'a length'],
    ['ip broadcast', 4, 'and'],
    ['port 65536', 6, 'a port from 0 to 65535'],
    ['host example.org', 6, 'names are not looked up'],
    ['tcp host 10.0.0.1', 5, 'ip, ip6, arp or ether before host'],
    ['ip port 80', 4, 'tcp, udp or sctp before port'],
    ['(tcp', 5, 'and, or, or ")"'],
    ['tcp )', 5, 'and, or, or the end'],
    ['tcp udp', 5, 'and, or, or the end'],
    ['tcp and', 8, 'a filter word'],
    ['net 10.0.0.1/24', 5, 'no bits set outside the mask'],
    ['net 10.0.0.0/33', 5, 'a prefix length from 0 to 32'],
    ['portrange 80', 11, 'two ports with a hyphen'],
    ['ether 1', 7, 'host, src or dst after ether'],
    ['ether host 1.2.3.4', 12, 'a MAC address'],
    ['frog', 1, 'a filter word'],
    ['vlan 08', 6, 'a VLAN identifier from 0 to 4095'],
    ['vlan 4096', 6, 'a VLAN identifier from 0 to 4095'],
    ['vlan ten', 6, 'a VLAN identifier from 0 to 4095'],
    ['vlan 1 or vlan 2 or vlan 3', 21, 'at most 2 times vlan'],
    ['tcp and vlan 1 udp', 16, 'and, or, or the end'],
    ['80', 1, 'host, net or port before a number'],
    ['port 80 & tcp', 9, 'and, or, or the end'],
  ])('refuses %j', (text, column, expected) => {
    expect(() => compileFilter(text)).toThrow(ArgumentError)
    try {
      compileFilter(text)
    } catch (error) {
      const message = (error as ArgumentError).message
      expect(message).toContain(`column ${column}:`)
      expect(message).toContain(expected)
      expect(message).toContain('for example "')
      expect(message.split('\n')).toHaveLength(1)
    }
  })

  it('bounds its length and its depth', () => {
    expect(() => compileFilter(`${'('.repeat(65)}tcp${')'.repeat(65)}`)).toThrow(/64 levels/)
    expect(() => compileFilter(`${'not '.repeat(65)}tcp`)).toThrow(/64 levels/)
    expect(kept(`${'('.repeat(64)}tcp${')'.repeat(64)}`)).toEqual([0, 2])
    expect(() => compileFilter(`tcp${' or tcp'.repeat(3000)}`)).toThrow(/16384 characters/)
    expect(kept(`udp${' or tcp'.repeat(2000)}`)).toEqual([0, 1, 2, 4])
  })

  it('throws nothing but ArgumentError, whatever the text', () => {
    const words = [
      'host',
      'net',
      'port',
      'portrange',
      'src',
      'dst',
      'ether',
      'ip',
      'ip6',
      'arp',
      'tcp',
      'udp',
    ]
    const more = ['icmp', 'and', 'or', 'not', '(', ')', '!', '10.0.0.1', '80', '::1', '1-2', 'mask', '10/8']
    const token = fc.oneof(fc.constantFrom(...words, ...more), fc.string({ maxLength: 5 }))
    fc.assert(
      fc.property(fc.array(token, { maxLength: 12 }), (tokens) => {
        try {
          const filter = compileFilter(tokens.join(' '))
          expect(typeof filter(batchOf([web]), 0)).toBe('boolean')
        } catch (error) {
          expect(error).toBeInstanceOf(ArgumentError)
        }
      }),
      { numRuns: sampleCount(2000) },
    )
  })

  it('means what its tree means, however it is written', () => {
    type Tree = { text: string; value: (i: number) => boolean }
    const leaf: fc.Arbitrary<Tree> = fc.constantFrom(
      ...(
        [
          ['tcp', [0, 2]],
          ['udp', [1, 4]],
          ['arp', [3]],
          ['ip6', [2]],
          ['port 53', [1]],
          ['host 10.0.0.1', [0, 3]],
          ['src net 10.0.0.0/31', [0, 3]],
        ] as [string, number[]][]
      ).map(([text, hits]) => ({ text, value: (i: number) => hits.includes(i) })),
    )
    const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
      tree: fc.oneof(
        { depthSize: 'medium' },
        leaf,
        tie('tree').map((a) => ({ text: `not (${a.text})`, value: (i: number) => !a.value(i) })),
        // from the left: the left side needs no parentheses, the right side does
        fc.tuple(tie('tree'), tie('tree'), fc.boolean()).map(([a, b, and]) => ({
          text: `${a.text} ${and ? 'and' : '||'} (${b.text})`,
          value: (i: number) => (and ? a.value(i) && b.value(i) : a.value(i) || b.value(i)),
        })),
      ),
    }))
    fc.assert(
      fc.property(tree, ({ text, value }) => {
        expect(kept(text)).toEqual(ALL.map((_, i) => i).filter(value))
      }),
      { numRuns: sampleCount(500) },
    )
  })
})

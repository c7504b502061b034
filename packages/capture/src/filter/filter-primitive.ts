/**
 * One identifier under its qualifiers (protocol, direction, type), checked and turned into a test.
 *
 * What goes with what is pcap-filter(7)'s: `ether` takes MAC addresses, `ip`, `ip6` and `arp` take hosts and
 * networks, `tcp`, `udp` and `sctp` take ports. Names are not looked up: a filter must mean the same
 * wherever it runs.
 */
import { parseIpv4, parseIpv6, parseMac, parseOctets, wordOf } from '../address-parse.js'
import { PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP } from '../transport.js'
import { type FilterDirection, ipv4NetTest, ipv6NetTest, macTest, portTest } from './filter-tests.js'
import { type FilterToken, filterError } from './filter-tokens.js'
import type { PacketFilter } from './packet-filter.js'

export type FilterType = 'host' | 'net' | 'port' | 'portrange'

export interface FilterQualifiers {
  /** Empty where there is none. */
  readonly protocol: string
  readonly direction: FilterDirection
  readonly type: FilterType
}

const TRANSPORTS: Readonly<Record<string, number>> = {
  '': 0,
  tcp: PROTOCOL_TCP,
  udp: PROTOCOL_UDP,
  sctp: PROTOCOL_SCTP,
}

/** Throws ArgumentError at `at` when the protocol cannot have such an identifier. */
export function checkQualifiers(qualifiers: FilterQualifiers, at: FilterToken): void {
  const { protocol, type } = qualifiers
  if (type === 'port' || type === 'portrange') {
    if (TRANSPORTS[protocol] === undefined) {
      throw filterError(at, `tcp, udp or sctp before ${type}`, `tcp ${type} ${example(type)}`)
    }
  } else if (TRANSPORTS[protocol] !== undefined && protocol !== '') {
    throw filterError(at, `ip, ip6, arp or ether before ${type}`, `${protocol} and ${type} ${example(type)}`)
  } else if (protocol === 'ether' && type === 'net') {
    throw filterError(at, 'host after ether', 'ether host 00:11:22:33:44:55')
  } else if (protocol === 'icmp' || protocol === 'icmp6') {
    throw filterError(at, `"and" after ${protocol}`, `${protocol} and host 192.0.2.1`)
  }
}

/** @param mask the identifier after `mask`, where there is one */
export function primitiveTest(
  qualifiers: FilterQualifiers,
  id: FilterToken,
  mask: FilterToken | null,
): PacketFilter {
  const { protocol, direction, type } = qualifiers
  if (type === 'port') {
    const port = portOf(id.text)
    if (port === null) throw filterError(id, 'a port from 0 to 65535', 'tcp port 443')
    return portTest(direction, port, port, TRANSPORTS[protocol]!)
  }
  if (type === 'portrange') {
    const [low, high, rest] = id.text.split('-').map(portOf)
    if (low === undefined || high === undefined || low === null || high === null || rest !== undefined) {
      throw filterError(id, 'two ports with a hyphen', 'portrange 8000-8080')
    }
    return portTest(direction, Math.min(low, high), Math.max(low, high), TRANSPORTS[protocol]!)
  }
  if (protocol === 'ether') {
    const mac = parseMac(id.text)
    if (mac === null) throw filterError(id, 'a MAC address', 'ether host 00:11:22:33:44:55')
    return macTest(direction, mac)
  }
  const where = protocol === '' ? 'any' : protocol === 'arp' ? 'arp' : 'ip'
  if (type === 'host') {
    const v4 = protocol === 'ip6' ? null : parseIpv4(id.text)
    if (v4 !== null) return ipv4NetTest(direction, v4, 0xffffffff, where)
    const v6 = protocol === '' || protocol === 'ip6' ? parseIpv6(id.text) : null
    if (v6 !== null) return ipv6NetTest(direction, v6, maskWords(128))
    throw filterError(id, hostWords(protocol), `host ${protocol === 'ip6' ? '2001:db8::1' : '192.0.2.1'}`)
  }
  return netTest(qualifiers, id, mask, where)
}

function netTest(
  { protocol, direction }: FilterQualifiers,
  id: FilterToken,
  maskToken: FilterToken | null,
  where: 'ip' | 'arp' | 'any',
): PacketFilter {
  const fail = (): never => {
    throw filterError(id, 'a network', protocol === 'ip6' ? 'net 2001:db8::/32' : 'net 192.0.2.0/24')
  }
  const [base, prefix, rest] = id.text.split('/')
  if (base === undefined || rest !== undefined) return fail()
  const octets = protocol === 'ip6' ? null : parseOctets(base)
  if (octets !== null) {
    let mask = prefixMask(8 * octets.length)
    if (prefix !== undefined) {
      const bits = numberUpTo(prefix, 32)
      if (bits === null) throw filterError(id, 'a prefix length from 0 to 32', 'net 192.0.2.0/24')
      mask = prefixMask(bits)
    }
    if (maskToken !== null) {
      const given = parseIpv4(maskToken.text)
      if (given === null || prefix !== undefined) {
        throw filterError(maskToken, 'a dotted mask', 'net 192.0.2.0 mask 255.255.255.0')
      }
      mask = given
    }
    const net = wordOf(octets)
    if ((net & ~mask) !== 0) throw filterError(id, 'no bits set outside the mask', 'net 192.0.2.0/24')
    return ipv4NetTest(direction, net, mask, where)
  }
  const words = protocol === '' || protocol === 'ip6' ? parseIpv6(base) : null
  if (words === null || maskToken !== null) return fail()
  const bits = prefix === undefined ? 128 : numberUpTo(prefix, 128)
  if (bits === null) throw filterError(id, 'a prefix length from 0 to 128', 'net 2001:db8::/32')
  const masks = maskWords(bits)
  if (words.some((word, k) => (word & ~masks[k]!) !== 0)) {
    throw filterError(id, 'no bits set outside the prefix', 'net 2001:db8::/32')
  }
  return ipv6NetTest(direction, words, masks)
}

function example(type: FilterType): string {
  return { host: '192.0.2.1', net: '192.0.2.0/24', port: '443', portrange: '8000-8080' }[type]
}

function hostWords(protocol: string): string {
  if (protocol === '') return 'an IPv4 or IPv6 address (names are not looked up)'
  return `an ${protocol === 'ip6' ? 'IPv6' : 'IPv4'} address (names are not looked up)`
}

function numberUpTo(text: string, limit: number): number | null {
  return /^\d{1,5}$/.test(text) && Number(text) <= limit ? Number(text) : null
}

function portOf(text: string): number | null {
  return numberUpTo(text, 65_535)
}

function prefixMask(bits: number): number {
  return bits === 0 ? 0 : (-1 << (32 - bits)) >>> 0
}

function maskWords(bits: number): Uint32Array {
  return Uint32Array.from({ length: 4 }, (_, k) => prefixMask(Math.max(0, Math.min(32, bits - 32 * k))))
}

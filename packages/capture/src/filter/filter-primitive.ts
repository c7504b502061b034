/**
 * One identifier under its qualifiers (protocol, direction, type), checked and turned into a test.
 *
 * What goes with what is pcap-filter(7)'s: `ether` takes MAC addresses, `ip`, `ip6` and `arp` take hosts and
 * networks, `tcp`, `udp` and `sctp` take ports. Names are not looked up: a filter must mean the same
 * wherever it runs.
 */
import { parseIpv4, parseIpv6, parseMac, parseOctets, wordOf } from '../address-parse.js'
import { PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP } from '../transport.js'
import {
  arpTest,
  type FilterDirection,
  ipv4NetTest,
  ipv6NetTest,
  macTest,
  portTest,
  protocolTest,
  versionTest,
} from './filter-tests.js'
import { type FilterToken, filterError } from './filter-tokens.js'
import type { PacketFilter } from './packet-filter.js'
import { namedPort } from './port-names.js'

export type FilterType = 'host' | 'net' | 'port' | 'portrange' | 'proto'

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
  if (type === 'proto') {
    if (!['', 'ether', 'ip', 'ip6'].includes(protocol) || qualifiers.direction !== 'either') {
      throw filterError(at, 'nothing, ether, ip or ip6 before proto', 'ip proto 47')
    }
  } else if (type === 'port' || type === 'portrange') {
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
  if (type === 'proto') return protoTest(protocol, id)
  if (type === 'port') {
    const transport = TRANSPORTS[protocol]!
    const named = namedPort(id.text)
    if (named !== null) {
      if (named.protocol !== 0 && transport !== 0 && named.protocol !== transport) {
        throw filterError(id, `a port that ${protocol} has`, 'tcp port https')
      }
      return portTest(direction, named.port, named.port, transport || named.protocol)
    }
    const port = portOf(id.text)
    if (port === null) throw filterError(id, 'a port from 0 to 65535, or the name of one', 'tcp port 443')
    return portTest(direction, port, port, transport)
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

const IP_PROTOCOLS: Readonly<Record<string, number>> = {
  icmp: 1,
  igmp: 2,
  tcp: PROTOCOL_TCP,
  udp: PROTOCOL_UDP,
  gre: 47,
  esp: 50,
  ah: 51,
  icmp6: 58,
  pim: 103,
  vrrp: 112,
  sctp: PROTOCOL_SCTP,
}
const ETHER_TYPES: Readonly<Record<string, PacketFilter>> = {
  ip: versionTest(4),
  ip6: versionTest(6),
  arp: arpTest,
}
const ETHER_NUMBERS: Readonly<Record<number, string>> = { 2048: 'ip', 34525: 'ip6', 2054: 'arp' }

/** tcpdump wants a backslash before names that are words of their own; here they may have one. */
export function protoName(text: string): string {
  return text.startsWith('\\') ? text.slice(1) : text
}

export function isProtoName(text: string): boolean {
  const name = protoName(text)
  return Object.hasOwn(IP_PROTOCOLS, name) || Object.hasOwn(ETHER_TYPES, name)
}

function protoTest(protocol: string, id: FilterToken): PacketFilter {
  const name = protoName(id.text)
  const given = /^(0x[0-9a-f]{1,4}|\d{1,5})$/i.test(name) ? Number(name) : null
  if (protocol === 'ether') {
    const test = ETHER_TYPES[given === null ? name : (ETHER_NUMBERS[given] ?? '')]
    if (test !== undefined) return test
    throw filterError(
      id,
      'ip, ip6, arp or one of their numbers (no other types are looked at)',
      'ether proto 0x0800',
    )
  }
  const number = given ?? (Object.hasOwn(IP_PROTOCOLS, name) ? IP_PROTOCOLS[name]! : -1)
  if (number < 0 || number > 255) {
    throw filterError(id, 'a protocol number from 0 to 255, or a name such as tcp or gre', 'ip proto 47')
  }
  return protocolTest(number, protocol === 'ip' ? 4 : protocol === 'ip6' ? 6 : 0)
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
  return { host: '192.0.2.1', net: '192.0.2.0/24', port: '443', portrange: '8000-8080', proto: '47' }[type]
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

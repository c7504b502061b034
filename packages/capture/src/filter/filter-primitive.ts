/**
 * One identifier under its qualifiers, checked and turned into a test, as in pcap-filter(7). Names are not looked up,
 * so that a filter means the same everywhere.
 */

import { ArgumentError } from '@oddflow/core'
import { parseIpv4, parseIpv6, parseMac, parseOctets, wordOf } from '../addresses.js'
import { PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP } from '../ip.js'
import { ARP, PACKET_OK, type PacketBatch } from '../packet-batch.js'
import type { PacketFilter } from './compile-filter.js'

/** Port names in filters, with their transports: a selection of Debian's /etc/services. */

const TCP =
  'ftp-data:20 ftp:21 ssh:22 telnet:23 smtp:25 whois:43 http:80 pop3:110 netbios-ssn:139 imap2:143 imap:143 microsoft-ds:445 submissions:465 ipp:631 printer:515 submission:587 rsync:873 ftps:990 telnets:992 imaps:993 pop3s:995 mysql:3306 ms-wbt-server:3389 xmpp-client:5222 postgresql:5432 amqps:5671 x11:6000 redis:6379 http-alt:8080 git:9418'
const UDP =
  'bootps:67 bootpc:68 tftp:69 ntp:123 netbios-ns:137 netbios-dgm:138 isakmp:500 ipsec-nat-t:4500 mdns:5353'
const BOTH =
  'domain:53 kerberos:88 sunrpc:111 snmp:161 snmp-trap:162 ldap:389 https:443 syslog:514 rtsp:554 ldaps:636 domain-s:853 openvpn:1194 radius:1812 nfs:2049 sip:5060'

interface NamedPort {
  readonly port: number
  /** Of the only transport that has the name, 0 where several have. */
  readonly protocol: number
}

const PORTS = new Map<string, NamedPort>(
  (
    [
      [TCP, PROTOCOL_TCP],
      [UDP, PROTOCOL_UDP],
      [BOTH, 0],
    ] as const
  ).flatMap(([names, protocol]) =>
    names.split(' ').map((entry): [string, NamedPort] => {
      const [name, port] = entry.split(':')
      return [name!, { port: Number(port), protocol }]
    }),
  ),
)

function namedPort(name: string): NamedPort | null {
  return PORTS.get(name) ?? null
}

/** Longest filter, which bounds everything made from it. */

const MAXIMUM_FILTER_LENGTH = 16_384

export interface FilterToken {
  /** Empty at the end of the text. */
  readonly text: string
  /** From 1. */
  readonly column: number
}

const PATTERN = /\s*(&&|\|\||[()!]|[^\s()!&|]+|[&|])/y

export function readFilterTokens(text: string): FilterToken[] {
  if (text.length > MAXIMUM_FILTER_LENGTH) {
    throw new ArgumentError(
      `filter: expected at most ${MAXIMUM_FILTER_LENGTH} characters, found ${text.length}`,
      'filter',
    )
  }
  const tokens: FilterToken[] = []
  PATTERN.lastIndex = 0
  for (let match = PATTERN.exec(text); match !== null; match = PATTERN.exec(text)) {
    const word = match[1]!
    const spelled = word === '&&' ? 'and' : word === '||' ? 'or' : word === '!' ? 'not' : word
    tokens.push({ text: spelled, column: match.index + match[0].length - word.length + 1 })
  }
  tokens.push({ text: '', column: text.length + 1 })
  return tokens
}

/** @param example - a correct filter */
export function filterError(token: FilterToken, expected: string, example: string): ArgumentError {
  const found = token.text === '' ? 'the end' : JSON.stringify(token.text.slice(0, 60))
  return new ArgumentError(
    `filter: column ${token.column}: expected ${expected}, found ${found}; for example "${example}"`,
    'filter',
  )
}

/**
 * The single tests of filters, as predicates over a packet's columns that allocate nothing. As in tcpdump, an address
 * without a protocol is looked for in IP and ARP headers, and ports are those of TCP, UDP and SCTP (not in later fragments).
 */

export type FilterDirection = 'src' | 'dst' | 'either' | 'both'

/** @param ipVersion 4, 6, or 0 for both */
export function protocolTest(protocol: number, ipVersion: 0 | 4 | 6): PacketFilter {
  return ipVersion === 0
    ? (packets, i) => packets.protocol[i] === protocol && packets.ipVersion[i] !== 0
    : (packets, i) => packets.protocol[i] === protocol && packets.ipVersion[i] === ipVersion
}

export function versionTest(ipVersion: 4 | 6): PacketFilter {
  return (packets, i) => packets.ipVersion[i] === ipVersion
}

export const arpTest: PacketFilter = (packets, i) => packets.status[i] === ARP

/** Packets with a VLAN tag behind `outer` others, of this identifier unless it is null. */
export function vlanTest(outer: number, id: number | null): PacketFilter {
  return id === null
    ? (packets, i) => packets.vlanTags[i]! >>> 24 > outer
    : (packets, i) => {
        const tags = packets.vlanTags[i]!
        return tags >>> 24 > outer && ((tags >>> (12 * outer)) & 0xfff) === id
      }
}

/** `test` on packets with this number of VLAN tags. */
export function behindVlanTags(tags: number, test: PacketFilter): PacketFilter {
  return (packets, i) => packets.vlanTags[i]! >>> 24 === tags && test(packets, i)
}

/** Frames of a length on the wire from `low` to `high`. */
export function lengthTest(low: number, high: number): PacketFilter {
  return (packets, i) => packets.frameBytes[i]! >= low && packets.frameBytes[i]! <= high
}

/** To all stations of the link. */
export const broadcastTest: PacketFilter = ({ destinationMac }, i) => {
  for (let b = 6 * i; b < 6 * i + 6; b++) if (destinationMac[b] !== 0xff) return false
  return true
}

/** To a group of the link's stations, broadcast included, or of IP's hosts. */
export function multicastTest(protocol: string): PacketFilter {
  if (protocol === 'ip') {
    return (packets, i) => packets.ipVersion[i] === 4 && packets.destinationAddress[4 * i + 3]! >>> 24 >= 224
  }
  if (protocol === 'ip6') {
    return (packets, i) => packets.ipVersion[i] === 6 && packets.destinationAddress[4 * i]! >>> 24 === 0xff
  }
  return (packets, i) => (packets.destinationMac[6 * i]! & 1) === 1
}

/** @param where which headers count */
function ipv4NetTest(
  direction: FilterDirection,
  net: number,
  mask: number,
  where: 'ip' | 'arp' | 'any',
): PacketFilter {
  const ip = where !== 'arp'
  const arp = where !== 'ip'
  return combine(
    direction,
    (words: Uint32Array, i: number) => ((words[4 * i + 3]! ^ net) & mask) === 0,
    (packets, i) => (ip && packets.ipVersion[i] === 4) || (arp && packets.status[i] === ARP),
  )
}

/** @param masks four words, ones where the address must agree */
function ipv6NetTest(direction: FilterDirection, net: Uint32Array, masks: Uint32Array): PacketFilter {
  const [n0, n1, n2, n3] = net as unknown as readonly [number, number, number, number]
  const [m0, m1, m2, m3] = masks as unknown as readonly [number, number, number, number]
  return combine(
    direction,
    (words: Uint32Array, i: number) => {
      const at = 4 * i
      return (
        (((words[at]! ^ n0) & m0) |
          ((words[at + 1]! ^ n1) & m1) |
          ((words[at + 2]! ^ n2) & m2) |
          ((words[at + 3]! ^ n3) & m3)) ===
        0
      )
    },
    versionTest(6),
  )
}

/** @param protocol of the transport, 0 for any that has ports */
function portTest(direction: FilterDirection, low: number, high: number, protocol: number): PacketFilter {
  const hasPorts: PacketFilter = (packets, i) => {
    if (packets.status[i] !== PACKET_OK) return false
    const p = packets.protocol[i]!
    return protocol !== 0 ? p === protocol : p === PROTOCOL_TCP || p === PROTOCOL_UDP || p === PROTOCOL_SCTP
  }
  const source: PacketFilter = (packets, i) => packets.sourcePort[i]! >= low && packets.sourcePort[i]! <= high
  const destination: PacketFilter = (packets, i) =>
    packets.destinationPort[i]! >= low && packets.destinationPort[i]! <= high
  return both(hasPorts, join(direction, source, destination))
}

function macTest(direction: FilterDirection, mac: Uint8Array): PacketFilter {
  const equal = (bytes: Uint8Array, i: number): boolean => {
    const at = 6 * i
    for (let k = 0; k < 6; k++) if (bytes[at + k] !== mac[k]) return false
    return true
  }
  return join(
    direction,
    (packets, i) => equal(packets.sourceMac, i),
    (packets, i) => equal(packets.destinationMac, i),
  )
}

function combine(
  direction: FilterDirection,
  matches: (words: Uint32Array, i: number) => boolean,
  applies: PacketFilter,
): PacketFilter {
  const source: PacketFilter = (packets: PacketBatch, i) => matches(packets.sourceAddress, i)
  const destination: PacketFilter = (packets: PacketBatch, i) => matches(packets.destinationAddress, i)
  return both(applies, join(direction, source, destination))
}

function join(direction: FilterDirection, source: PacketFilter, destination: PacketFilter): PacketFilter {
  switch (direction) {
    case 'src':
      return source
    case 'dst':
      return destination
    case 'both':
      return both(source, destination)
    default:
      return (packets, i) => source(packets, i) || destination(packets, i)
  }
}

function both(a: PacketFilter, b: PacketFilter): PacketFilter {
  return (packets, i) => a(packets, i) && b(packets, i)
}

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
    const port = numberUpTo(id.text, 65_535)
    if (port === null) throw filterError(id, 'a port from 0 to 65535, or the name of one', 'tcp port 443')
    return portTest(direction, port, port, transport)
  }
  if (type === 'portrange') {
    const [low, high, rest] = id.text.split('-').map(decimalPort)
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
function protoName(text: string): string {
  return text.startsWith('\\') ? text.slice(1) : text
}

export function isProtoName(text: string): boolean {
  const name = protoName(text)
  return Object.hasOwn(IP_PROTOCOLS, name) || Object.hasOwn(ETHER_TYPES, name)
}

function protoTest(protocol: string, id: FilterToken): PacketFilter {
  const name = protoName(id.text)
  const given = numberUpTo(name, 65_535)
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

/** As tcpdump reads a number: 0x10 is hexadecimal, 010 octal; null for 08, for others, and above the limit. */
export function numberUpTo(text: string, limit: number): number | null {
  if (!/^(0x[0-9a-f]{1,8}|0[0-7]{0,10}|[1-9]\d{0,9})$/i.test(text)) return null
  const value = /^0\d/.test(text) ? Number.parseInt(text, 8) : Number(text)
  return value <= limit ? value : null
}

/** tcpdump reads the ports of a range as decimal numbers, 010 too. */
function decimalPort(text: string): number | null {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : null
}

function prefixMask(bits: number): number {
  return bits === 0 ? 0 : (-1 << (32 - bits)) >>> 0
}

function maskWords(bits: number): Uint32Array {
  return Uint32Array.from({ length: 4 }, (_, k) => prefixMask(Math.max(0, Math.min(32, bits - 32 * k))))
}

/**
 * compileFilter: tcpdump's filter words for the outer headers, as a predicate over packet batches.
 *
 * Source: pcap-filter(7) of libpcap 1.10. Words: host, net, port, portrange, proto; src, dst, "src or dst", "src and
 * dst"; ether, ip, ip6, arp, tcp, udp, sctp, icmp, icmp6; broadcast, multicast; less, greater; and (&&), or (||),
 * not (!), parentheses; vlan. `not`
 * binds tightest; `and` and `or` bind alike and group from the left. An identifier without a keyword takes
 * the qualifiers of the one before it: "port 80 or 443", "port (80 or 443)".
 *
 * `vlan` is true of packets with a tag, `vlan 10` of those of this VLAN. As with tcpdump the words that follow, wherever they
 * stand, look behind the tag: "vlan 10 and tcp" is TCP in VLAN 10, "vlan 10 and vlan 20" is VLAN 20 in VLAN 10, and in
 * "vlan or tcp" plain TCP is not looked for. At most two `vlan` are read.
 *
 * Where it means more than tcpdump does: in front of the first `vlan` tags are seen through, tags count in all link
 * layers, and IPv6 extension headers are passed
 * before a transport is looked for (tcpdump's `tcp` passes only a fragment header). Where it means less: a
 * packet whose IP header is not whole is not `ip`, and `ether proto` knows IP and ARP alone. Left out: expressions over
 * bytes, gateway, names of hosts.
 */

import type { PacketBatch } from '../packet-batch.js'
import {
  arpTest,
  behindVlanTags,
  broadcastTest,
  checkQualifiers,
  type FilterDirection,
  type FilterQualifiers,
  type FilterToken,
  type FilterType,
  filterError,
  isProtoName,
  lengthTest,
  multicastTest,
  numberUpTo,
  primitiveTest,
  protocolTest,
  readFilterTokens,
  versionTest,
  vlanTest,
} from './filter-primitive.js'

/** A predicate over packet i of a batch; it allocates nothing. */

export type PacketFilter = (packets: PacketBatch, i: number) => boolean

/** Parentheses and `not` within one another. */
export const MAXIMUM_FILTER_DEPTH = 64

const TYPES = ['host', 'net', 'port', 'portrange', 'proto'] as const
const PROTOCOLS: Readonly<Record<string, PacketFilter | null>> = {
  ether: null,
  ip: versionTest(4),
  ip6: versionTest(6),
  arp: arpTest,
  tcp: protocolTest(6, 0),
  udp: protocolTest(17, 0),
  sctp: protocolTest(132, 0),
  icmp: protocolTest(1, 4),
  icmp6: protocolTest(58, 6),
}
const WORDS = new Set([
  ...TYPES,
  ...Object.keys(PROTOCOLS),
  'src',
  'dst',
  'and',
  'or',
  'not',
  'mask',
  'less',
  'greater',
  'broadcast',
  'multicast',
  'vlan',
  '(',
  ')',
  '',
])
const MAXIMUM_VLAN_WORDS = 2
const EXAMPLE = 'host 192.0.2.1 and (tcp port 80 or 443)'

/** Throws ArgumentError that names the column, what was expected there, and an example. */
export function compileFilter(text: string): PacketFilter {
  const tokens = readFilterTokens(text)
  let at = 0
  let inherited: FilterQualifiers | null = null
  let vlanWords = 0

  const peek = (ahead = 0): FilterToken => tokens[Math.min(at + ahead, tokens.length - 1)]!
  const isId = (token: FilterToken): boolean => !WORDS.has(token.text)
  const take = (word: string): boolean => {
    if (peek().text !== word) return false
    at++
    return true
  }
  const nested = (depth: number): number => {
    if (depth >= MAXIMUM_FILTER_DEPTH) {
      throw filterError(peek(), `at most ${MAXIMUM_FILTER_DEPTH} levels of parentheses and not`, EXAMPLE)
    }
    return depth + 1
  }

  /** Terms joined from the left; `term` reads one. */
  const chain = (term: () => PacketFilter): PacketFilter => {
    const first = term()
    const isAnd: boolean[] = []
    const rest: PacketFilter[] = []
    for (;;) {
      if (take('and')) isAnd.push(true)
      else if (take('or')) isAnd.push(false)
      else break
      rest.push(term())
    }
    if (rest.length === 0) return first
    return (packets, i) => {
      let value = first(packets, i)
      for (let k = 0; k < rest.length; k++) {
        // where the left side decides, the right one is not looked at
        if (isAnd[k] === value) value = rest[k]!(packets, i)
      }
      return value
    }
  }

  const closed = (inner: PacketFilter): PacketFilter => {
    if (!take(')')) throw filterError(peek(), 'and, or, or ")"', EXAMPLE)
    return inner
  }

  const identifier = (qualifiers: FilterQualifiers, depth: number): PacketFilter => {
    if (take('not')) return negate(identifier(qualifiers, nested(depth)))
    if (take('(')) {
      const inner = nested(depth)
      return closed(chain(() => identifier(qualifiers, inner)))
    }
    const id = peek()
    if (!isId(id) && !(qualifiers.type === 'proto' && isProtoName(id.text))) {
      throw filterError(id, `a value for ${qualifiers.type}`, EXAMPLE)
    }
    at++
    const mask = qualifiers.type === 'net' && take('mask') ? tokens[at++]! : null
    const test = primitiveTest(qualifiers, id, mask)
    return qualifiers.protocol === 'ether' && qualifiers.type === 'host' ? test : behindTags(test)
  }

  /** What looks behind the link header looks behind the tags that were named. */
  const behindTags = (test: PacketFilter): PacketFilter =>
    vlanWords === 0 ? test : behindVlanTags(vlanWords, test)

  const vlan = (word: FilterToken): PacketFilter => {
    if (vlanWords === MAXIMUM_VLAN_WORDS) {
      throw filterError(
        word,
        `at most ${MAXIMUM_VLAN_WORDS} times vlan, each of which looks one tag further in`,
        'vlan 10 and tcp',
      )
    }
    const token = peek()
    const id = numberUpTo(token.text, 4095)
    if (id === null && isId(token)) throw filterError(token, 'a VLAN identifier from 0 to 4095', 'vlan 10')
    if (id !== null) at++
    return vlanTest(vlanWords++, id)
  }

  const direction = (): FilterDirection | null => {
    const first = peek().text
    if (first !== 'src' && first !== 'dst') return null
    const other = first === 'src' ? 'dst' : 'src'
    const joint = peek(1).text
    at++
    if ((joint === 'or' || joint === 'and') && peek(1).text === other) {
      at += 2
      return joint === 'or' ? 'either' : 'both'
    }
    return first
  }

  const length = (): number => {
    const token = peek()
    const bytes = numberUpTo(token.text, 999_999_999)
    if (bytes === null) throw filterError(token, 'a length in bytes', 'greater 1000')
    at++
    return bytes
  }

  const term = (depth: number): PacketFilter => {
    const start = peek()
    if (take('not')) return negate(term(nested(depth)))
    if (take('(')) {
      const inner = nested(depth)
      return closed(chain(() => term(inner)))
    }
    if (isId(start)) {
      if (inherited !== null) return identifier(inherited, depth)
      if (/^\d+$/.test(start.text)) throw filterError(start, 'host, net or port before a number', 'port 80')
      if (!/[.:]/.test(start.text)) throw filterError(start, 'a filter word', EXAMPLE)
      inherited = { protocol: '', direction: 'either', type: 'host' }
      return identifier(inherited, depth)
    }
    if (take('vlan')) return vlan(start)
    if (take('less')) return lengthTest(0, length())
    if (take('greater')) return lengthTest(length(), Number.POSITIVE_INFINITY)
    const test = PROTOCOLS[start.text]
    const protocol = test === undefined ? '' : start.text
    if (test !== undefined) at++
    if (['', 'ether', 'ip', 'ip6'].includes(protocol)) {
      if (protocol !== 'ip' && protocol !== 'ip6' && take('broadcast')) return broadcastTest
      if (take('multicast')) {
        const multicast = multicastTest(protocol)
        return protocol === 'ip' || protocol === 'ip6' ? behindTags(multicast) : multicast
      }
    }
    const way = direction()
    const typeToken = peek()
    const type = TYPES.find((name) => name === typeToken.text) as FilterType | undefined
    if (type !== undefined) at++
    if (way === null && type === undefined) {
      if (test === undefined) throw filterError(start, 'a filter word', EXAMPLE)
      if (test === null)
        throw filterError(peek(), 'host, src or dst after ether', 'ether host 00:11:22:33:44:55')
      if (isId(peek()) || peek().text === '(') {
        throw filterError(peek(), `and, or, host, net or port after ${protocol}`, EXAMPLE)
      }
      return behindTags(test)
    }
    inherited = { protocol, direction: way ?? 'either', type: type ?? 'host' }
    checkQualifiers(inherited, type === undefined ? start : typeToken)
    return identifier(inherited, depth)
  }

  const filter = chain(() => term(0))
  if (peek().text !== '') throw filterError(peek(), 'and, or, or the end', EXAMPLE)
  return filter
}

function negate(inner: PacketFilter): PacketFilter {
  return (packets, i) => !inner(packets, i)
}

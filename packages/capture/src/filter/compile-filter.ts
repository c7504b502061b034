/**
 * compileFilter: tcpdump's filter words for the outer headers, as a predicate over packet batches.
 *
 * Source: pcap-filter(7) of libpcap 1.10. Words: host, net, port, portrange, proto; src, dst, "src or dst", "src and dst";
 * ether, ip, ip6, arp, tcp, udp, sctp, icmp, icmp6; broadcast, multicast; less, greater; vlan; and (&&), or (||), not (!),
 * parentheses. `not` binds tightest; `and` and `or` have equal precedence and group from the left. An identifier without a keyword
 * takes the qualifiers of the one before it: "port 80 or 443", "port (80 or 443)".
 *
 * `vlan` is true of packets with a tag, `vlan 10` of those of this VLAN. As in tcpdump the words after it look behind the
 * tag: "vlan 10 and vlan 20" is VLAN 20 in VLAN 10, and "vlan or tcp" does not find plain TCP. At most two `vlan` are read.
 *
 * More than in tcpdump: before the first `vlan` tags are seen through, tags count in all link layers, and IPv6 extension
 * headers are passed before a transport (tcpdump's `tcp` passes only a fragment header). Less: a packet whose IP header is
 * incomplete is not `ip`, and `ether proto` knows only IP and ARP. Left out: expressions over bytes, gateway, host names.
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

/** Maximum of parentheses and `not` inside each other. */
const MAXIMUM_FILTER_DEPTH = 64

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
  return new FilterParser(text).parse()
}

class FilterParser {
  readonly #tokens: readonly FilterToken[]
  #at = 0
  #inherited: FilterQualifiers | null = null
  #vlanWords = 0

  constructor(text: string) {
    this.#tokens = readFilterTokens(text)
  }

  parse(): PacketFilter {
    const filter = this.#chain(() => this.#term(0))
    if (this.#peek().text !== '') throw filterError(this.#peek(), 'and, or, or the end', EXAMPLE)
    return filter
  }

  #peek(ahead = 0): FilterToken {
    return this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)]!
  }

  #take(word: string): boolean {
    if (this.#peek().text !== word) return false
    this.#at++
    return true
  }

  /** Terms joined from the left; `term` reads one. */
  #chain(term: () => PacketFilter): PacketFilter {
    const first = term()
    const isAnd: boolean[] = []
    const rest: PacketFilter[] = []
    for (;;) {
      if (this.#take('and')) isAnd.push(true)
      else if (this.#take('or')) isAnd.push(false)
      else break
      rest.push(term())
    }
    if (rest.length === 0) return first
    return (packets, i) => {
      let value = first(packets, i)
      for (let k = 0; k < rest.length; k++) {
        // if the left side decides, the right one is not evaluated
        if (isAnd[k] === value) value = rest[k]!(packets, i)
      }
      return value
    }
  }

  /** What `read` reads after `not`, or in parentheses; null if neither comes. */
  #nested(depth: number, read: (depth: number) => PacketFilter): PacketFilter | null {
    const isNot = this.#take('not')
    if (!isNot && !this.#take('(')) return null
    if (depth >= MAXIMUM_FILTER_DEPTH) {
      const expected = `at most ${MAXIMUM_FILTER_DEPTH} levels of parentheses and not`
      throw filterError(this.#peek(), expected, EXAMPLE)
    }
    if (isNot) {
      const inner = read(depth + 1)
      return (packets, i) => !inner(packets, i)
    }
    const inner = this.#chain(() => read(depth + 1))
    if (!this.#take(')')) throw filterError(this.#peek(), 'and, or, or ")"', EXAMPLE)
    return inner
  }

  #term(depth: number): PacketFilter {
    const start = this.#peek()
    const nested = this.#nested(depth, (inner) => this.#term(inner))
    if (nested !== null) return nested
    if (isId(start)) {
      this.#inherited ??= qualifiersOf(start)
      return this.#identifier(this.#inherited, depth)
    }
    if (this.#take('vlan')) return this.#vlan(start)
    if (this.#take('less')) return lengthTest(0, this.#length())
    if (this.#take('greater')) return lengthTest(this.#length(), Number.POSITIVE_INFINITY)
    return this.#qualified(start, depth)
  }

  /** A protocol, a direction and a type, of which two may be missing, and the identifier after them if there is one. */
  #qualified(start: FilterToken, depth: number): PacketFilter {
    const test = PROTOCOLS[start.text]
    const protocol = test === undefined ? '' : start.text
    if (test !== undefined) this.#at++
    if (['', 'ether', 'ip', 'ip6'].includes(protocol)) {
      const isIp = protocol === 'ip' || protocol === 'ip6'
      if (!isIp && this.#take('broadcast')) return broadcastTest
      if (this.#take('multicast')) {
        return isIp ? this.#behindTags(multicastTest(protocol)) : multicastTest(protocol)
      }
    }
    const direction = this.#direction()
    const typeToken = this.#peek()
    const type: FilterType | undefined = TYPES.find((name) => name === typeToken.text)
    if (type !== undefined) this.#at++
    if (direction === null && type === undefined) return this.#bareProtocol(start, test)
    this.#inherited = { protocol, direction: direction ?? 'either', type: type ?? 'host' }
    checkQualifiers(this.#inherited, type === undefined ? start : typeToken)
    return this.#identifier(this.#inherited, depth)
  }

  #bareProtocol(start: FilterToken, test: PacketFilter | null | undefined): PacketFilter {
    const next = this.#peek()
    if (test === undefined) throw filterError(start, 'a filter word', EXAMPLE)
    if (test === null) {
      throw filterError(next, 'host, src or dst after ether', 'ether host 00:11:22:33:44:55')
    }
    if (isId(next) || next.text === '(') {
      throw filterError(next, `and, or, host, net or port after ${start.text}`, EXAMPLE)
    }
    return this.#behindTags(test)
  }

  #identifier(qualifiers: FilterQualifiers, depth: number): PacketFilter {
    const nested = this.#nested(depth, (inner) => this.#identifier(qualifiers, inner))
    if (nested !== null) return nested
    const id = this.#peek()
    if (!isId(id) && !(qualifiers.type === 'proto' && isProtoName(id.text))) {
      throw filterError(id, `a value for ${qualifiers.type}`, EXAMPLE)
    }
    this.#at++
    const mask = qualifiers.type === 'net' && this.#take('mask') ? this.#tokens[this.#at++]! : null
    const test = primitiveTest(qualifiers, id, mask)
    return qualifiers.protocol === 'ether' && qualifiers.type === 'host' ? test : this.#behindTags(test)
  }

  /** Tests of what follows the link header look behind the tags that were named. */
  #behindTags(test: PacketFilter): PacketFilter {
    return this.#vlanWords === 0 ? test : behindVlanTags(this.#vlanWords, test)
  }

  #vlan(word: FilterToken): PacketFilter {
    if (this.#vlanWords === MAXIMUM_VLAN_WORDS) {
      const expected = `at most ${MAXIMUM_VLAN_WORDS} times vlan, each of which looks one tag further in`
      throw filterError(word, expected, 'vlan 10 and tcp')
    }
    const token = this.#peek()
    const id = numberUpTo(token.text, 4095)
    if (id === null && isId(token)) throw filterError(token, 'a VLAN identifier from 0 to 4095', 'vlan 10')
    if (id !== null) this.#at++
    return vlanTest(this.#vlanWords++, id)
  }

  #direction(): FilterDirection | null {
    const first = this.#peek().text
    if (first !== 'src' && first !== 'dst') return null
    const other = first === 'src' ? 'dst' : 'src'
    const joint = this.#peek(1).text
    this.#at++
    if ((joint === 'or' || joint === 'and') && this.#peek(1).text === other) {
      this.#at += 2
      return joint === 'or' ? 'either' : 'both'
    }
    return first
  }

  #length(): number {
    const token = this.#peek()
    const bytes = numberUpTo(token.text, 999_999_999)
    if (bytes === null) throw filterError(token, 'a length in bytes', 'greater 1000')
    this.#at++
    return bytes
  }
}

function isId(token: FilterToken): boolean {
  return !WORDS.has(token.text)
}

/** Of an identifier that comes first: an address may do without a keyword. */
function qualifiersOf(id: FilterToken): FilterQualifiers {
  if (/^\d+$/.test(id.text)) throw filterError(id, 'host, net or port before a number', 'port 80')
  if (!/[.:]/.test(id.text)) throw filterError(id, 'a filter word', EXAMPLE)
  return { protocol: '', direction: 'either', type: 'host' }
}

/**
 * Host names from DNS messages (RFC 1035, RFC 3596) and TLS clients (SNI, RFC 6066 section 3), in linear time for any
 * bytes. Not read: DNS over TCP, TLS or HTTPS; a ClientHello in several TLS records; QUIC.
 */

const MAXIMUM_HOST_NAME_BYTES = 253
const MAXIMUM_NAME_BYTES = 255

/** The name in lower case; null if it is no host name. */
export function hostName(text: string): string | null {
  const name = text.toLowerCase()
  if (name.length > MAXIMUM_HOST_NAME_BYTES || !/^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(name))
    return null
  // of the top-level domains none is a number, so that no name looks like an IPv4 address
  return /(^|\.)\d+$/.test(name) ? null : name
}

/** Labels as bytes: what they mean is their reader's business. */
export interface DomainName {
  readonly labels: readonly Uint8Array[]
  /** The byte after the name where it stands. */
  readonly end: number
}

/**
 * A domain name in a message (RFC 1035, 3.1 and 4.1.4), null if it is none. A pointer may only lead to an earlier byte
 * than any read through it, so there are no loops. @param start - where pointers are counted from; −1 without pointers
 * (DHCP)
 */
export function readDomainName(bytes: Uint8Array, at: number, start: number, end: number): DomainName | null {
  const labels: Uint8Array[] = []
  let taken = 0
  let after = -1
  let lowest = at
  for (;;) {
    if (at >= end) return null
    const length = bytes[at]!
    if (length === 0) return { labels, end: after < 0 ? at + 1 : after }
    if (length >= 0xc0) {
      if (start < 0 || at + 1 >= end) return null
      if (after < 0) after = at + 2
      at = start + (((length & 0x3f) << 8) | bytes[at + 1]!)
      if (at >= lowest) return null
      lowest = at
      continue
    }
    taken += length + 1
    if (length > 63 || taken > MAXIMUM_NAME_BYTES || at + 1 + length > end) return null
    labels.push(bytes.subarray(at + 1, at + 1 + length))
    at += 1 + length
  }
}

// ---- DNS

/** What a query or response says about the one name that is asked for. */
export interface DnsMessage {
  readonly id: number
  readonly isResponse: boolean
  /** That is asked for. */
  readonly name: string
  /** Of the name, by its A and AAAA records and the CNAME records that lead to them; four words each, as packets have them. */
  readonly addresses: readonly Uint32Array[]
}

const DNS_HEADER_BYTES = 12
const [A, CNAME, AAAA] = [1, 5, 28]
const INTERNET = 1
/** Records of an answer that are read. */
const MAXIMUM_RECORDS = 64
/** Names that lead from the one that was asked for to its addresses. */
const MAXIMUM_ALIASES = 16

/** A query for one name, or a response without an error to one; null for all else. Addresses are of the answer section alone. */
export function readDnsMessage(bytes: Uint8Array, start: number, end: number): DnsMessage | null {
  if (end - start < DNS_HEADER_BYTES) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const flags = view.getUint16(start + 2)
  const isQueryOfOneName = (flags & 0x7800) === 0 && view.getUint16(start + 4) === 1
  // a cut-off response (TC) is asked for again over TCP
  if (!isQueryOfOneName || (flags & 0x020f) !== 0) return null
  const question = readDomainName(bytes, start + DNS_HEADER_BYTES, start, end)
  const name = question === null ? null : nameOf(question)
  if (question === null || name === null || question.end + 4 > end) return null
  const isResponse = (flags & 0x8000) !== 0
  const message = { id: view.getUint16(start), isResponse, name }
  if (!isResponse) return { ...message, addresses: [] }
  const aliases = new Map<string, string>()
  const addresses: [owner: string, words: Uint32Array][] = []
  let at = question.end + 4
  for (let i = Math.min(view.getUint16(start + 6), MAXIMUM_RECORDS); i > 0; i--) {
    const owner = readDomainName(bytes, at, start, end)
    if (owner === null || owner.end + 10 > end) break
    const value = owner.end + 10
    at = value + view.getUint16(owner.end + 8)
    if (at > end) break
    const type = view.getUint16(owner.end)
    const ownerName = nameOf(owner)
    if (ownerName === null || view.getUint16(owner.end + 2) !== INTERNET) continue
    if (type === CNAME) {
      const target = readDomainName(bytes, value, start, at)
      const targetName = target === null ? null : nameOf(target)
      if (targetName !== null) aliases.set(ownerName, targetName)
    } else if ((type === A && at - value === 4) || (type === AAAA && at - value === 16)) {
      const words = new Uint32Array(4)
      const count = type === A ? 1 : 4
      for (let w = 0; w < count; w++) words[4 - count + w] = view.getUint32(value + 4 * w)
      addresses.push([ownerName, words])
    }
  }
  const names = new Set([name])
  for (
    let next = aliases.get(name);
    next !== undefined && names.size <= MAXIMUM_ALIASES;
    next = aliases.get(next)
  ) {
    if (names.has(next)) break
    names.add(next)
  }
  return { ...message, addresses: addresses.filter(([owner]) => names.has(owner)).map(([, words]) => words) }
}

function nameOf({ labels }: DomainName): string | null {
  const texts = labels.map((label) => String.fromCharCode(...label))
  // a dot within a label would look like two
  return texts.some((text) => text.includes('.')) ? null : hostName(texts.join('.'))
}

// ---- TLS

/** `cut`: the bytes end before the name may come. */
export type ServerName = { readonly name: string } | 'cut' | null

const [HANDSHAKE, CLIENT_HELLO, SERVER_NAME, HOST_NAME] = [0x16, 1, 0, 0]
const RECORD_HEADER_BYTES = 5
/** Type and length, version, random. */
const HELLO_BYTES = 4 + 2 + 32

/** The server name of a ClientHello at the start of a connection; null if there is no ClientHello or no name. */
export function readServerName(bytes: Uint8Array, start: number, end: number): ServerName {
  if (end - start < RECORD_HEADER_BYTES + 1) return null
  const hello = start + RECORD_HEADER_BYTES
  if (bytes[start] !== HANDSHAKE || bytes[start + 1] !== 3 || bytes[hello] !== CLIENT_HELLO) return null
  const word = (at: number): number => (bytes[at]! << 8) | bytes[at + 1]!
  const recordEnd = hello + word(start + 3)
  const limit = Math.min(end, recordEnd)
  /** What may still come is another segment; a further record is not read. */
  const beyond = end < recordEnd ? 'cut' : null
  let at = hello + HELLO_BYTES
  if (at + 1 > limit) return beyond
  at += 1 + bytes[at]!
  if (at + 2 > limit) return beyond
  at += 2 + word(at)
  if (at + 1 > limit) return beyond
  at += 1 + bytes[at]!
  if (at + 2 > limit) return beyond
  const extensionsEnd = at + 2 + word(at)
  at += 2
  while (at + 4 <= extensionsEnd) {
    if (at + 4 > limit) return beyond
    const value = at + 4
    const after = value + word(at + 2)
    if (word(at) !== SERVER_NAME) {
      at = after
      continue
    }
    if (after > limit) return beyond
    // a list, of which the first entry is the one that there is
    const nameEnd = value + 5 + word(value + 3)
    if (after - value < 5 || bytes[value + 2] !== HOST_NAME || nameEnd > after) return null
    const name = hostName(
      String.fromCharCode(...bytes.subarray(value + 5, Math.min(nameEnd, value + 5 + 256))),
    )
    return name === null ? null : { name }
  }
  return null
}

import {
  type DomainName,
  type FrameBatch,
  formatMac,
  type PacketBatch,
  readDomainName,
} from '@oddflow/capture'

/** Whether labels end with these, letters of either case. */
function endsWith(labels: readonly Uint8Array[], suffix: readonly string[]): boolean {
  if (labels.length < suffix.length) return false
  const from = labels.length - suffix.length
  return suffix.every((text, i) => asciiLower(labels[from + i]) === text)
}

function asciiLower(label: Uint8Array): string {
  return String.fromCharCode(...label).toLowerCase()
}

/**
 * DHCPv6 (RFC 8415): the first label of the client's fully qualified name (RFC 4704, option 39), not in relayed messages.
 *
 *     type 1, transaction 3, then options: code 2, length 2, value
 */

/** SOLICIT, REQUEST, CONFIRM, RENEW, REBIND, RELEASE, DECLINE, INFORMATION-REQUEST. */
const OF_CLIENTS = new Set([1, 3, 4, 5, 6, 8, 9, 11])
const CLIENT_FQDN_V6 = 39

export function readDhcpv6Name(bytes: Uint8Array, start: number, end: number): string | null {
  if (end - start < 4 || !OF_CLIENTS.has(bytes[start])) return null
  for (let at = start + 4; at + 4 <= end; ) {
    const code = (bytes[at] << 8) | bytes[at + 1]
    const value = at + 4
    const after = value + ((bytes[at + 2] << 8) | bytes[at + 3])
    if (after > end) return null
    // one byte of flags
    if (code === CLIENT_FQDN_V6 && after > value) return firstLabel(bytes, value + 1, after)
    at = after
  }
  return null
}

/**
 * Names that devices give themselves in DHCP, DHCPv6 and multicast DNS. A name is a claim of the frame's sender and belongs to the
 * frame's MAC address. Names are for people: no verdict depends on them.
 */

/** The first counts most. */
export const NAME_SOURCES = ['person', 'dhcp', 'dhcpv6', 'mdns', 'mdns-service'] as const
export type NameSource = (typeof NAME_SOURCES)[number]

export interface ClaimedName {
  readonly name: string
  readonly source: NameSource
}

const UDP = 17
const UDP_HEADER_BYTES = 8
const DHCP_SERVER = 67
const DHCPV6_SERVER = 547
const MDNS = 5353

/** Calls `onName` with the MAC address of each sender that claims a name. */
export function findNames(
  frames: FrameBatch,
  packets: PacketBatch,
  onName: (mac: string, claimed: ClaimedName) => void,
): void {
  for (let i = 0; i < packets.count; i++) {
    if (packets.protocol[i] !== UDP) continue
    const port = packets.destinationPort[i]
    if (port !== MDNS && port !== DHCP_SERVER && port !== DHCPV6_SERVER) continue
    const transport = packets.transportOffset[i]
    if (transport === 0) continue
    const start = transport + UDP_HEADER_BYTES
    const end = frames.offset[i] + frames.capturedBytes[i]
    if (start >= end) continue
    const claimed = claimIn(frames.data, start, end, packets, i)
    if (claimed !== null) onName(formatMac(packets.sourceMac, 6 * i), claimed)
  }
}

function claimIn(
  data: Uint8Array,
  start: number,
  end: number,
  packets: PacketBatch,
  i: number,
): ClaimedName | null {
  switch (packets.destinationPort[i]) {
    case DHCP_SERVER: {
      const found = readDhcpName(data, start, end)
      // a relay sends on the words of others
      const isOwn = found?.mac.every((byte, j) => byte === packets.sourceMac[6 * i + j]) ?? false
      return found !== null && isOwn ? { name: found.name, source: 'dhcp' } : null
    }
    case DHCPV6_SERVER: {
      const name = readDhcpv6Name(data, start, end)
      return name === null ? null : { name, source: 'dhcpv6' }
    }
    default: {
      const source = packets.sourceAddress.subarray(4 * i, 4 * i + 4)
      const found = readMdnsName(data, start, end, source, packets.ipVersion[i])
      if (found === null) return null
      return found.host !== null
        ? { name: found.host, source: 'mdns' }
        : { name: found.instance as string, source: 'mdns-service' }
    }
  }
}

const MAXIMUM_NAMES = 1024

/** Names by MAC address, also of devices that are not known yet (DHCP comes first); the one claimed longest ago makes room. */
export function createNameBook(maximum = MAXIMUM_NAMES) {
  const names = new Map<string, ClaimedName>()
  return {
    note(mac: string, claimed: ClaimedName): void {
      const before = names.get(mac)
      names.delete(mac)
      names.set(mac, before === undefined || !countsLess(claimed, before) ? claimed : before)
      if (names.size > maximum) names.delete(names.keys().next().value as string)
    },
    /** The name that counts most, while it is remembered. */
    of: (mac: string): ClaimedName | undefined => names.get(mac),
  }
}

/** Whether a claim has a lesser source than the present name. */
export function countsLess(claimed: ClaimedName, before: ClaimedName): boolean {
  return NAME_SOURCES.indexOf(claimed.source) > NAME_SOURCES.indexOf(before.source)
}

export const MAXIMUM_NAME_CHARACTERS = 63

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * A claimed name as text that may be shown; null unless it is valid UTF-8 and printable: control and format characters could hide text
 * or steer a terminal.
 */
export function cleanName(bytes: Uint8Array): string | null {
  // four bytes a character at most
  if (bytes.length > 4 * MAXIMUM_NAME_CHARACTERS) return null
  let text: string
  try {
    text = decoder.decode(bytes)
  } catch {
    return null
  }
  // DHCP clients of old end a name with a zero byte
  const name = text
    .replace(/\0+$/, '')
    .replace(/\p{Zs}+/gu, ' ')
    .trim()
  if (name === '' || /[\p{C}\p{Zl}\p{Zp}]/u.test(name)) return null
  return [...name].length > MAXIMUM_NAME_CHARACTERS ? null : name
}

/**
 * Multicast DNS (RFC 6762): of a response's records
 *
 *     A, AAAA   NAME.local has the address that the packet came from: NAME is the sender's host name
 *     SRV       a service of the sender is at NAME.local, where the response has no such address
 *     PTR, SRV  INSTANCE._service._tcp.local: what the device calls itself to people (RFC 6763)
 *
 * A response with another address comes from a proxy for sleeping devices, and names nothing.
 */

interface MdnsName {
  readonly host: string | null
  readonly instance: string | null
}

const A = 1
const PTR = 12
const AAAA = 28
const SRV = 33
/** More records than a packet of an honest device has. */
const MAXIMUM_RECORDS = 128

/** @param source - four words, as packets have them. null if the message names no device. */
export function readMdnsName(
  bytes: Uint8Array,
  start: number,
  end: number,
  source: Uint32Array,
  ipVersion: number,
): MdnsName | null {
  if (end - start < 12) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const isResponse = (bytes[start + 2] & 0xf8) === 0x80
  if (!isResponse) return null
  let at = start + 12
  for (let questions = view.getUint16(start + 4); questions > 0; questions--) {
    const name = readDomainName(bytes, at, start, end)
    if (name === null || name.end + 4 > end) return null
    at = name.end + 4
  }
  const records = [6, 8, 10].reduce((sum, offset) => sum + view.getUint16(start + offset), 0)
  let host: string | null = null
  let service: string | null = null
  let instance: string | null = null
  for (let i = 0; i < Math.min(records, MAXIMUM_RECORDS); i++) {
    const owner = readDomainName(bytes, at, start, end)
    if (owner === null || owner.end + 10 > end) break
    const type = view.getUint16(owner.end)
    const value = owner.end + 10
    const after = value + view.getUint16(owner.end + 8)
    if (after > end) break
    at = after
    if (type === A || type === AAAA) {
      const isOfSender = isAddress(view, value, after, type, source, ipVersion)
      if (isOfSender === false) return null
      if (isOfSender) host ??= hostLabel(owner)
    } else if (type === PTR) {
      const target = readDomainName(bytes, value, start, after)
      if (target !== null) instance ??= instanceLabel(target)
    } else if (type === SRV) {
      instance ??= instanceLabel(owner)
      const target = value + 6 < after ? readDomainName(bytes, value + 6, start, after) : null
      if (target !== null) service ??= hostLabel(target)
    }
  }
  host ??= service
  return host === null && instance === null ? null : { host, instance }
}

/** NAME.local */
function hostLabel({ labels }: DomainName): string | null {
  return labels.length === 2 && endsWith(labels, ['local']) ? cleanName(labels[0]) : null
}

/** INSTANCE._service._tcp.local; a kind of service or a subtype is no instance. */
function instanceLabel({ labels }: DomainName): string | null {
  if (labels.length !== 4 || !endsWith(labels, ['local'])) return null
  const [name, kind, transport] = labels
  const isService = kind[0] === 0x5f && ['_tcp', '_udp'].includes(asciiLower(transport))
  return isService && name[0] !== 0x5f ? cleanName(name) : null
}

/** null where the record is of the other family than the packet, and says nothing. */
function isAddress(
  view: DataView,
  value: number,
  after: number,
  type: number,
  source: Uint32Array,
  ipVersion: number,
): boolean | null {
  const words = type === A ? 1 : 4
  if (ipVersion !== (type === A ? 4 : 6) || after - value !== 4 * words) return null
  for (let w = 0; w < words; w++) if (view.getUint32(value + 4 * w) !== source[4 - words + w]) return false
  return true
}

/**
 * DHCP: the host name (RFC 2132, option 12), else the first label of the fully qualified name (RFC 4702, option 81), in messages to a
 * server over Ethernet. Options in the fields `file` and `sname` (option 52) are not read.
 *
 *     op 1, htype 1, hlen 1, …, chaddr at 28, 0x63825363 at 236, options from 240: code 1, length 1, value
 */

const CHADDR = 28
const COOKIE = 236
const OPTIONS = 240
const HOST_NAME = 12
const CLIENT_FQDN = 81

/** null where the message has no name, or is none. `mac` is the client's, as it says. */
export function readDhcpName(
  bytes: Uint8Array,
  start: number,
  end: number,
): { readonly mac: Uint8Array; readonly name: string } | null {
  if (end - start < OPTIONS) return null
  const isRequest = bytes[start] === 1 && bytes[start + 1] === 1 && bytes[start + 2] === 6
  const cookie = [0x63, 0x82, 0x53, 0x63].every((byte, i) => bytes[start + COOKIE + i] === byte)
  if (!isRequest || !cookie) return null
  let host: string | null = null
  let qualified: string | null = null
  for (let at = start + OPTIONS; at < end && bytes[at] !== 255; ) {
    if (bytes[at] === 0) {
      at++
      continue
    }
    const value = at + 2
    const after = value + bytes[at + 1]
    if (value > end || after > end) break
    if (bytes[at] === HOST_NAME) host ??= cleanName(bytes.subarray(value, after))
    if (bytes[at] === CLIENT_FQDN) qualified ??= qualifiedName(bytes, value, after)
    at = after
  }
  const name = host ?? qualified
  return name === null ? null : { mac: bytes.subarray(start + CHADDR, start + CHADDR + 6), name }
}

/** Flags, two bytes of no use, and the name: labels where flag E is set, else text. */
function qualifiedName(bytes: Uint8Array, at: number, end: number): string | null {
  if (end - at < 4) return null
  if ((bytes[at] & 4) !== 0) return firstLabel(bytes, at + 3, end)
  const dot = bytes.subarray(at + 3, end).indexOf(0x2e)
  return cleanName(bytes.subarray(at + 3, dot < 0 ? end : at + 3 + dot))
}

/** Of a name that may be cut off before its last zero byte, as both RFCs allow. */
function firstLabel(bytes: Uint8Array, at: number, end: number): string | null {
  const whole = readDomainName(bytes, at, -1, end)
  const label = whole === null ? partialLabel(bytes, at, end) : whole.labels[0]
  return label === undefined ? null : cleanName(label)
}

function partialLabel(bytes: Uint8Array, at: number, end: number): Uint8Array | undefined {
  const length = bytes[at]
  return at < end && length > 0 && length < 64 && at + 1 + length <= end
    ? bytes.subarray(at + 1, at + 1 + length)
    : undefined
}

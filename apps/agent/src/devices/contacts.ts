/**
 * Contacts: the peers and services of each device, as hashes in bounded lists that survive a restart (one first contact in ten million
 * is overlooked).
 *
 * A contact is a peer and a service: the transport and the lower port, with all ports from 32,768 as one. A local peer is a device, by
 * its MAC address. An outside peer is its network of 256 addresses (IPv6: /48), because servers move within those.
 *
 * A first contact is worth an alert only if contacts have *settled*: no new peer of a known service, or no other new service, for
 * SETTLED_MICROS. Another port of a known outside peer is no alert. Measured on data/week: docs/devices.md.
 *
 * Four books separate what a stranger can fill from what only the device can: connections that the device began, connections that a
 * peer began, and the failed tries of each. In a book, contacts of one clock hour (`once`) make room for each other, and contacts of two
 * hours (`usual`) only for other usual ones.
 */

import { formatAddress } from '@oddflow/capture'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import { isInNetwork, macText, type Network } from '@oddflow/program'
import * as v from 'valibot'

export interface FirstContact {
  /** The peer is new, by any service. */
  readonly isNewPeer: boolean
  /** Worth an alert. */
  readonly isSettled: boolean
  /** When something like it was last new. */
  readonly sinceMicros: number
}

/** How many of each list of a book. */
interface Limits {
  readonly usual: number
  readonly once: number
  readonly services: number
}

/** By who began the flow, and whether it became a connection. */
const LIMITS = {
  outgoing: { usual: 256, once: 128, services: 32 },
  incoming: { usual: 96, once: 64, services: 16 },
  outgoingTries: { usual: 32, once: 64, services: 8 },
  incomingTries: { usual: 32, once: 64, services: 8 },
} satisfies Record<string, Limits>
/** Of a device that may be gone in an hour, with its made-up address. */
const LIMITS_OF_NEW: Limits = { usual: 16, once: 32, services: 8 }
type ContactKind = keyof typeof LIMITS

const whole = v.pipe(v.number(), v.safeInteger())
const count = v.pipe(whole, v.minValue(0))
const hashes = (most: number) => v.pipe(v.array(count), v.maxLength(most))
const bookSchema = (limits: Limits) =>
  v.pipe(
    v.object({
      /** Hashes of peers and of peers with a service that came in two clock hours or more; the last used last. */
      usual: hashes(limits.usual),
      /** Those of one clock hour only, the oldest first. */
      once: hashes(limits.once),
      /** Of `once`, how many at its end are of `hour`. */
      ofHour: count,
      /** The latest clock hour, since 1970. */
      hour: whole,
      /** Hash of a service, and when it last had a new peer. */
      services: v.pipe(v.array(v.strictTuple([count, whole])), v.maxLength(limits.services)),
      /** When the last new service came. */
      newServiceMicros: whole,
    }),
    v.check(({ ofHour, once }) => ofHour <= once.length),
  )

export const ContactsSchema = v.object({
  outgoing: bookSchema(LIMITS.outgoing),
  incoming: bookSchema(LIMITS.incoming),
  outgoingTries: bookSchema(LIMITS.outgoingTries),
  incomingTries: bookSchema(LIMITS.incomingTries),
})
export type Contacts = v.InferOutput<typeof ContactsSchema>
type ContactBook = Contacts[ContactKind]

/** A day. */
export const SETTLED_MICROS = 86_400_000_000
const HOUR_MICROS = 3_600_000_000
const EPHEMERAL = 32_768
const [ICMP, TCP, ICMPV6] = [1, 6, 58]
const [PSH, ACK] = [8, 16]

export function noContacts(atMicros: number): Contacts {
  const book = (): ContactBook => ({
    usual: [],
    once: [],
    ofHour: 0,
    hour: Math.floor(atMicros / HOUR_MICROS),
    services: [],
    newServiceMicros: atMicros,
  })
  return { outgoing: book(), incoming: book(), outgoingTries: book(), incomingTries: book() }
}

/**
 * Notes a flow of a device; returns null where the contact is known.
 * @param deviceIsResponder - which end is the device.
 * @param isKept - whether the device is one that stays.
 * @param onForgotten - called where there is no room to remember as it should: a usual contact is put out, or a connection that a
 *   peer began within the same hour.
 */
export function noteContact(
  contacts: Contacts,
  record: FlowRecord,
  deviceIsResponder: boolean,
  localNetworks: readonly Network[],
  isKept: boolean,
  onForgotten: () => void,
): FirstContact | null {
  const { address, mac } = peerOf(record, deviceIsResponder)
  if (isGroup(record.ipVersion, address, mac) || isErrorOrDiscovery(record)) return null
  const { peer, service, both, peerIsLocal } = hashesOf(record, deviceIsResponder, localNetworks)
  const atMicros = record.startMicros
  const kind = kindOf(record, deviceIsResponder)
  const book = contacts[kind]
  const limits = isKept ? LIMITS[kind] : LIMITS_OF_NEW
  turnHour(book, Math.floor(atMicros / HOUR_MICROS))
  const places = placesOf(contacts, kind)
  const isKnown = places.some((hashes) => hashes.includes(both))
  const isNewPeer = !isKnown && !places.some((hashes) => hashes.includes(peer))
  const putOut = [useAgain(book, peer, limits), useAgain(book, both, limits)]
  if (putOut.includes(true)) onForgotten()
  if (isKnown) return null
  // a peer outside that is known may open as many ports as it likes
  const counts = isNewPeer || peerIsLocal
  const known = book.services.find(([hash]) => hash === service)
  const sinceMicros = known?.[1] ?? book.newServiceMicros
  if (counts && known !== undefined) known[1] = Math.max(known[1], atMicros)
  if (counts && known === undefined) noteNewService(book, service, atMicros, limits)
  const pushedOut = [isNewPeer && meet(book, peer, limits), meet(book, both, limits)]
  if (pushedOut.includes(true) && kind === 'incoming') onForgotten()
  return { isNewPeer, sinceMicros, isSettled: counts && atMicros - sinceMicros >= SETTLED_MICROS }
}

function peerOf(record: FlowRecord, deviceIsResponder: boolean): { address: Uint32Array; mac: Uint8Array } {
  return deviceIsResponder
    ? { address: record.initiatorAddress, mac: record.initiatorMac }
    : { address: record.responderAddress, mac: record.responderMac }
}

function hashesOf(record: FlowRecord, deviceIsResponder: boolean, localNetworks: readonly Network[]) {
  const { ipVersion, protocol, initiatorPort, responderPort } = record
  const { address, mac } = peerOf(record, deviceIsResponder)
  const peerIsLocal = localNetworks.some((network) => isInNetwork(network, address, ipVersion))
  const peer = peerHash(ipVersion, address, mac, peerIsLocal)
  const port = Math.min(initiatorPort, responderPort)
  const ports = protocol === ICMP || protocol === ICMPV6 ? 0 : Math.min(port, EPHEMERAL)
  const service = mix(mix(protocol, ports), peerIsLocal ? 1 : 2)
  return { peer, service, both: mix(peer, service), peerIsLocal }
}

/** Whether a device has used the service of a flow with its peer before. */
export function knowsContact(
  contacts: Contacts,
  record: FlowRecord,
  deviceIsResponder: boolean,
  localNetworks: readonly Network[],
): boolean {
  const { both } = hashesOf(record, deviceIsResponder, localNetworks)
  return Object.values(contacts).some(({ usual, once }) => usual.includes(both) || once.includes(both))
}

/** An end's answer that is no part of a connection: an ICMP error, or neighbor discovery (RFC 4861). */
function isErrorOrDiscovery({ protocol, initiatorPort: type }: FlowRecord): boolean {
  if (protocol === ICMP) return [3, 4, 5, 11, 12].includes(type)
  return protocol === ICMPV6 && (type < 128 || (type >= 133 && type <= 137))
}

/** Both ends have answered, of TCP by an acknowledgement each and with data. A ping is a try. */
export function isConnection(record: FlowRecord): boolean {
  const { protocol, initiatorTcpFlags, responderTcpFlags, responderPackets } = record
  if (protocol !== TCP) return protocol !== ICMP && protocol !== ICMPV6 && responderPackets > 0
  return (
    (initiatorTcpFlags & responderTcpFlags & ACK) !== 0 &&
    ((initiatorTcpFlags | responderTcpFlags) & PSH) !== 0
  )
}

function kindOf(record: FlowRecord, deviceIsResponder: boolean): ContactKind {
  if (deviceIsResponder) return isConnection(record) ? 'incoming' : 'incomingTries'
  return isConnection(record) ? 'outgoing' : 'outgoingTries'
}

/**
 * Where a contact of this kind may be known from. What the device began itself is known when it comes from the other end;
 * what a peer began is known in the other direction only when it is usual. Tries make no connection known.
 */
function placesOf(contacts: Contacts, kind: ContactKind): (readonly number[])[] {
  const { outgoing, incoming } = contacts
  const places = [outgoing.usual, outgoing.once, incoming.usual]
  if (kind === 'incoming' || kind === 'incomingTries') places.push(incoming.once)
  if (kind === 'outgoingTries' || kind === 'incomingTries')
    places.push(contacts[kind].usual, contacts[kind].once)
  return places
}

/** Flows come in order of their ends: one that began an hour ago turns nothing back. */
function turnHour(book: ContactBook, hour: number): void {
  if (hour <= book.hour) return
  book.hour = hour
  book.ofHour = 0
}

/** A contact of this book comes again. True where a usual one was put out for it. */
function useAgain(book: ContactBook, hash: number, { usual: limit }: Limits): boolean {
  const { usual, once } = book
  const at = usual.indexOf(hash)
  if (at >= 0) {
    usual.splice(at, 1)
    usual.push(hash)
    return false
  }
  const met = once.indexOf(hash)
  if (met < 0 || met >= once.length - book.ofHour) return false
  once.splice(met, 1)
  usual.push(hash)
  if (usual.length <= limit) return false
  usual.shift()
  return true
}

/** A contact comes for the first time. True where one of the same hour was put out for it. */
function meet(book: ContactBook, hash: number, { once: limit }: Limits): boolean {
  const { once } = book
  once.push(hash)
  book.ofHour++
  if (once.length <= limit) return false
  once.shift()
  if (book.ofHour <= once.length) return false
  book.ofHour = once.length
  return true
}

/** The newest service makes room for the next: a flood of services puts out only itself. */
function noteNewService(book: ContactBook, service: number, atMicros: number, limits: Limits): void {
  const { services } = book
  book.newServiceMicros = Math.max(book.newServiceMicros, atMicros)
  if (services.length >= limits.services) {
    const newest = services.reduce((most, [, micros]) => Math.max(most, micros), Number.NEGATIVE_INFINITY)
    services.splice(
      services.findIndex(([, micros]) => micros === newest),
      1,
    )
  }
  services.push([service, atMicros])
}

/** The packets' clock was set by so much. */
export function setContactsClock(contacts: Contacts, byMicros: number): void {
  for (const book of Object.values(contacts)) {
    book.newServiceMicros += byMicros
    book.hour += Math.round(byMicros / HOUR_MICROS)
    for (const service of book.services) service[1] += byMicros
  }
}

/** Multicast, broadcast and unspecified addresses. */
export function isGroup(ipVersion: number, address: Uint32Array, mac: Uint8Array): boolean {
  if ((mac[0] & 1) !== 0) return true
  if (ipVersion === 6) return address[0] >>> 24 === 0xff || address.every((word) => word === 0)
  const first = address[3] >>> 24
  return first === 0 || first >= 224
}

function peerHash(ipVersion: number, address: Uint32Array, mac: Uint8Array, isLocal: boolean): number {
  if (isLocal && macText(mac) !== null) return mac.reduce(mix, 3)
  if (ipVersion === 4) return mix(4, isLocal ? address[3] : address[3] >>> 8)
  return isLocal ? address.reduce(mix, 6) : mix(mix(6, address[0]), address[1] >>> 16)
}

/**
 * UsualContact: the connections that a device has most while it learns, for people to read. The list is that of Space-Saving (Metwally
 * et al. 2005, section 3): a new contact takes the place and the count of the least, so frequent ones are in it.
 */
const MAXIMUM_USUAL = 12

const usualText = v.pipe(v.string(), v.regex(/^[\w:./ -]{1,63}$/))
export const UsualContactsSchema = v.pipe(
  v.array(
    v.object({
      /** Of the local networks: a device's key. Outside: the network of 256 addresses (IPv6: /48). */
      peer: usualText,
      service: usualText,
      /** The peer began it. */
      isIncoming: v.boolean(),
      /** At most. */
      flows: whole,
    }),
  ),
  v.maxLength(MAXIMUM_USUAL),
)
export type UsualContact = v.InferOutput<typeof UsualContactsSchema>[number]

/** Notes a flow of a device that learns. */
export function noteUsual(
  usual: UsualContact[],
  record: FlowRecord,
  isIncoming: boolean,
  localNetworks: readonly Network[],
): void {
  const { ipVersion, protocol } = record
  const { address, mac } = peerOf(record, isIncoming)
  if (!isConnection(record) || isGroup(ipVersion, address, mac)) return
  const isLocal = localNetworks.some((network) => isInNetwork(network, address, ipVersion))
  const peer = isLocal
    ? (macText(mac) ?? formatAddress(address, 0, ipVersion))
    : networkText(ipVersion, address)
  const port = Math.min(record.initiatorPort, record.responderPort)
  const service = `${protocolName(protocol)} port ${port < EPHEMERAL ? port : `${EPHEMERAL} or above`}`
  const found = usual.find(
    (each) => each.peer === peer && each.service === service && each.isIncoming === isIncoming,
  )
  if (found !== undefined) {
    found.flows++
    return
  }
  let flows = 1
  if (usual.length >= MAXIMUM_USUAL) {
    const least = usual.reduce((least, each) => (each.flows < least.flows ? each : least))
    usual.splice(usual.indexOf(least), 1)
    flows += least.flows
  }
  usual.push({ peer, service, isIncoming, flows })
}

/** What a peer outside is known by: its network of 256 addresses (IPv6: /48). */
export function networkText(ipVersion: number, address: Uint32Array): string {
  const network =
    ipVersion === 4
      ? Uint32Array.of(0, 0, 0, address[3] & 0xffffff00)
      : Uint32Array.of(address[0], address[1] & 0xffff0000, 0, 0)
  return `${formatAddress(network, 0, ipVersion)}/${ipVersion === 4 ? 24 : 48}`
}

/** 32 bits of both (the finaliser of MurmurHash3, public domain). */
function mix(hash: number, value: number): number {
  let h = Math.imul(hash ^ (value | 0), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

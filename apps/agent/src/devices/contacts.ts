/**
 * Contacts: whom a device has been in contact with, and by which services; bounded, and whole again after a restart.
 *
 * A contact is a peer and a service: the transport and the lower of the two ports, all of 32,768 and above being one. A local
 * peer is a device, by its MAC address; one outside stands for its network of 256 addresses (IPv6: /48), since servers move within
 * those. Groups and broadcasts are nobody.
 *
 * First contacts of a device come in its first days, and later with services whose servers change. So one is worth an alert only
 * where they have *settled*: to a known service, when it has had no new peer for SETTLED_MICROS; by a service that is new too, when the device has had
 * no new service for as long; and to a known peer by another service, where the peer is local. A device with more contacts
 * than there is room for never settles (a browser's).
 *
 * Measured on data/week: docs/devices.md. Only hashes are kept: nobody can read whom a device knows, and one first contact in
 * ten million is overlooked.
 */

import type { FlowRecord } from '@oddflow/flows'
import { isInNetwork, macText, type Network } from '@oddflow/program'

export interface Contacts {
  /** Hashes of peers, and of peers with a service. */
  readonly peers: number[]
  /** Hash of a service, and when it last had a new peer. */
  readonly services: [service: number, newPeerMicros: number][]
  /** When a service came last that was new. */
  newServiceMicros: number
}

export interface FirstContact {
  /** Not even by another service. */
  readonly isNewPeer: boolean
  /** Worth an alert. */
  readonly isSettled: boolean
  /** Since when nothing like it was new; null where that is not known. */
  readonly sinceMicros: number | null
  readonly peerIsLocal: boolean
}

const MAXIMUM_PEERS = 512
/** Of a device that may be gone in an hour, with its made-up address. */
const MAXIMUM_PEERS_OF_NEW = 32
const MAXIMUM_SERVICES = 64
/** A day. */
export const SETTLED_MICROS = 86_400_000_000
const EPHEMERAL = 32_768

export function noContacts(atMicros: number): Contacts {
  return { peers: [], services: [], newServiceMicros: atMicros }
}

/**
 * Notes a flow of a device; what it says where it is a first contact, else null.
 * @param deviceIsResponder - which end is the device.
 * @param isKept - whether the device is one that stays.
 */
export function noteContact(
  contacts: Contacts,
  record: FlowRecord,
  deviceIsResponder: boolean,
  localNetworks: readonly Network[],
  isKept: boolean,
): FirstContact | null {
  const address = deviceIsResponder ? record.initiatorAddress : record.responderAddress
  const mac = deviceIsResponder ? record.initiatorMac : record.responderMac
  if (isGroup(record.ipVersion, address, mac)) return null
  const peerIsLocal = localNetworks.some((network) => isInNetwork(network, address, record.ipVersion))
  const peer = peerHash(record.ipVersion, address, mac, peerIsLocal)
  const port = Math.min(record.initiatorPort, record.responderPort)
  const ports = record.protocol === 1 || record.protocol === 58 ? 0 : Math.min(port, EPHEMERAL)
  const service = mix(mix(record.protocol, ports), peerIsLocal ? 1 : 2)
  const both = mix(peer, service)
  const { peers, services } = contacts
  if (peers.includes(both)) return null
  const isNewPeer = !peers.includes(peer)
  const atMicros = record.startMicros
  const known = services.find(([hash]) => hash === service)
  const isFull =
    peers.length + (isNewPeer ? 2 : 1) > (isKept ? MAXIMUM_PEERS : MAXIMUM_PEERS_OF_NEW) ||
    (known === undefined && services.length >= MAXIMUM_SERVICES)
  // a peer outside that is known may open as many ports as it likes
  const counts = isNewPeer || peerIsLocal
  const sinceMicros = known?.[1] ?? contacts.newServiceMicros
  // one that there is no room for is new all the same
  if (known !== undefined && counts) known[1] = Math.max(known[1], atMicros)
  if (known === undefined && counts) contacts.newServiceMicros = Math.max(contacts.newServiceMicros, atMicros)
  if (!isFull) {
    if (isNewPeer) peers.push(peer)
    peers.push(both)
    if (known === undefined && counts) services.push([service, atMicros])
  }
  return {
    isNewPeer,
    peerIsLocal,
    sinceMicros,
    isSettled: !isFull && counts && atMicros - sinceMicros >= SETTLED_MICROS,
  }
}

/** Of groups, of everybody, and of nobody. */
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

/** 32 bits of both (the finaliser of MurmurHash3, public domain). */
function mix(hash: number, value: number): number {
  let h = Math.imul(hash ^ (value | 0), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** null for what is none: its device knows nobody then. */
export function contactsIn(value: unknown): Contacts | null {
  const { peers, services, newServiceMicros } = (value ?? {}) as Record<keyof Contacts, unknown>
  const isHash = (each: unknown): boolean => Number.isSafeInteger(each) && (each as number) >= 0
  const isSound =
    Array.isArray(peers) &&
    peers.length <= MAXIMUM_PEERS &&
    peers.every(isHash) &&
    Array.isArray(services) &&
    services.length <= MAXIMUM_SERVICES &&
    services.every(
      (each) => Array.isArray(each) && each.length === 2 && isHash(each[0]) && Number.isSafeInteger(each[1]),
    ) &&
    Number.isSafeInteger(newServiceMicros)
  return isSound ? ({ peers, services, newServiceMicros } as Contacts) : null
}

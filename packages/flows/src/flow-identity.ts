/**
 * FlowIdentity: who a flow is, as columns: its key, which end began it, and MACs and VLAN of its first packet.
 *
 * A key is ten 32-bit words: [VLAN, protocol and IP version, both ports, a3, b3, a0, a1, a2, b0, b1, b2], where
 * a and b are the two ends, a the lower by (address, port), and a0…a3 the words of a's address, most
 * significant first. IPv4 uses a3 and b3 alone, so the first four words are its whole key. The IP version is
 * part of the key; the VLAN is where it is asked for, else 0; the interface is not.
 */
import type { PacketBatch } from '@oddflow/capture'

export const KEY_WORDS = 10
/** Words of an IPv4 key, at the front of the ten. */
export const IPV4_KEY_WORDS = 4

export interface FlowIdentity {
  /** Flow f's key begins at word keyStride · f. */
  keys: Uint32Array
  readonly keyStride: number
  /** 1 where end b sent the first packet. */
  swapped: Uint8Array
  /** Twelve bytes a flow: the initiator's MAC, then the responder's, as in the first packet. */
  macs: Uint8Array
  /** VLAN of the first packet. */
  vlan: Uint16Array
  /** Number of the flow's first packet in its capture, from 0. */
  firstPacketNumber: Float64Array
  /** The capture's time of that packet. */
  startMicros: Float64Array
  /** Captures that ended before this flow began. */
  captureIndex: Uint32Array
}

/** Bytes a flow of all but the keys. */
export const IDENTITY_BYTES_BUT_KEYS = 1 + 12 + 2 + 8 + 8 + 4
export const IDENTITY_BYTES = 4 * KEY_WORDS + IDENTITY_BYTES_BUT_KEYS

/** @param keys - where the keys stand, if they have a place already. */
export function createFlowIdentity(
  capacity: number,
  keys: Uint32Array = new Uint32Array(KEY_WORDS * capacity),
  keyStride = KEY_WORDS,
): FlowIdentity {
  return {
    keys,
    keyStride,
    swapped: new Uint8Array(capacity),
    macs: new Uint8Array(12 * capacity),
    vlan: new Uint16Array(capacity),
    firstPacketNumber: new Float64Array(capacity),
    startMicros: new Float64Array(capacity),
    captureIndex: new Uint32Array(capacity),
  }
}

/** @param keys - the keys, if they have moved already. */
export function growFlowIdentity(identity: FlowIdentity, capacity: number, keys?: Uint32Array): void {
  identity.keys = keys ?? grown(identity.keys, new Uint32Array(identity.keyStride * capacity))
  identity.swapped = grown(identity.swapped, new Uint8Array(capacity))
  identity.macs = grown(identity.macs, new Uint8Array(12 * capacity))
  identity.vlan = grown(identity.vlan, new Uint16Array(capacity))
  identity.firstPacketNumber = grown(identity.firstPacketNumber, new Float64Array(capacity))
  identity.startMicros = grown(identity.startMicros, new Float64Array(capacity))
  identity.captureIndex = grown(identity.captureIndex, new Uint32Array(capacity))
}

export function copyIdentity(from: FlowIdentity, i: number, to: FlowIdentity, j: number): void {
  for (let w = 0; w < KEY_WORDS; w++) to.keys[to.keyStride * j + w] = from.keys[from.keyStride * i + w]
  for (let b = 0; b < 12; b++) to.macs[12 * j + b] = from.macs[12 * i + b]
  to.vlan[j] = from.vlan[i]
  to.swapped[j] = from.swapped[i]
  to.firstPacketNumber[j] = from.firstPacketNumber[i]
  to.startMicros[j] = from.startMicros[i]
  to.captureIndex[j] = from.captureIndex[i]
}

/**
 * Writes the key of packet i to key[keyAt …] (of IPv4, the front words alone); true if its source is end b.
 * With `directional`, end a is the source, so the two directions have keys of their own.
 */
export function writeKey(
  batch: PacketBatch,
  i: number,
  key: Uint32Array,
  keyAt: number,
  directional: boolean,
  vlanKey: boolean,
): boolean {
  const { sourceAddress, destinationAddress } = batch
  const sourcePort = batch.sourcePort[i]
  const destinationPort = batch.destinationPort[i]
  const version = batch.ipVersion[i]
  const at = 4 * i
  let order = 0
  if (version !== 4) {
    for (let w = 0; w < 3 && order === 0; w++) {
      order = sourceAddress[at + w] - destinationAddress[at + w]
    }
  }
  if (order === 0) order = sourceAddress[at + 3] - destinationAddress[at + 3]
  if (order === 0) order = sourcePort - destinationPort
  const swapped = order > 0 && !directional
  const a = swapped ? destinationAddress : sourceAddress
  const b = swapped ? sourceAddress : destinationAddress
  key[keyAt] = (batch.protocol[i] << 8) | version
  if (vlanKey) key[keyAt] |= batch.vlan[i] << 16
  key[keyAt + 1] = swapped ? (destinationPort << 16) | sourcePort : (sourcePort << 16) | destinationPort
  key[keyAt + 2] = a[at + 3]
  key[keyAt + 3] = b[at + 3]
  if (version !== 4) {
    for (let w = 0; w < 3; w++) {
      key[keyAt + 4 + w] = a[at + w]
      key[keyAt + 7 + w] = b[at + w]
    }
  }
  return swapped
}

/** IANA protocol number of a key, from its first word. */
export function protocolOfKey(word: number): number {
  return (word >>> 8) & 0xff
}

/** `into` with the front of it taken from `from`. */
export function grown<T extends Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array>(
  from: T,
  into: T,
): T {
  into.set(from)
  return into
}

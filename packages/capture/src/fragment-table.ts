/**
 * FragmentTable: whose flow a later fragment belongs to, in fixed memory.
 *
 * The first fragment of a datagram holds the ports; its key is remembered under (source, destination,
 * identification, protocol), for IPv6 without the protocol (RFC 791, 3.2; RFC 8200, 4.5). The table is a
 * cache of sets of four: where a set is full the datagram stored longest ago gives way, counted as evicted, so
 * memory and time do not depend on the capture. What is older than sixty seconds (RFC 8200's reassembly
 * time) is not used, since identifications come again. Bytes are not put together.
 */
import { ArgumentError, halfSipHash13 } from '@oddflow/core'
import { fragmentHeaderAt } from './ipv6.js'
import type { PacketBatch } from './packet-batch.js'

export const DEFAULT_MAXIMUM_FRAGMENTED_DATAGRAMS = 4096
export const FRAGMENT_LIFETIME_MICROS = 60_000_000

const WAYS = 4
const KEY_WORDS = 10
const VALUE_WORDS = 10
const MORE_FRAGMENTS = 0x20

export interface FragmentTable {
  /** Datagrams that gave way while they could still have been used. */
  readonly evicted: number
  /** Reads the datagram's key from packet i. False where it is no fragment; `find` and `store` refer to it. */
  select(data: Uint8Array, end: number, packets: PacketBatch, i: number): boolean
  /** Gives packet i addresses, ports and protocol of its first fragment; false where that is not known. */
  find(packets: PacketBatch, i: number): boolean
  /** Remembers packet i, as it is keyed now, as the selected datagram's first fragment. */
  store(packets: PacketBatch, i: number): void
}

/** @param maximumDatagrams rounded up to a power of two. @param hashSeed see createFlowKeySet */
export function createFragmentTable(
  maximumDatagrams: number = DEFAULT_MAXIMUM_FRAGMENTED_DATAGRAMS,
  hashSeed = 0,
): FragmentTable {
  if (!Number.isInteger(maximumDatagrams) || maximumDatagrams < WAYS || maximumDatagrams > 2 ** 20) {
    throw new ArgumentError(
      `maximumFragmentedDatagrams: expected a whole number from ${WAYS} to 2^20, found ${maximumDatagrams}`,
      'maximumFragmentedDatagrams',
    )
  }
  let capacity = WAYS
  while (capacity < maximumDatagrams) capacity *= 2
  const setMask = capacity / WAYS - 1
  const key0 = hashSeed | 0
  const key1 = Math.floor(hashSeed / 4294967296) | 0
  const keys = new Uint32Array(KEY_WORDS * capacity)
  const values = new Uint32Array(VALUE_WORDS * capacity)
  const storedMicros = new Float64Array(capacity)
  /** When an entry was stored, counted; 0 for an empty one. */
  const order = new Float64Array(capacity)
  const probe = new Uint32Array(KEY_WORDS)
  let clock = 0
  let evicted = 0

  const isExpired = (entry: number, micros: number): boolean =>
    Math.abs(micros - storedMicros[entry]!) > FRAGMENT_LIFETIME_MICROS

  const isSelected = (entry: number): boolean => {
    const at = KEY_WORDS * entry
    for (let w = 0; w < KEY_WORDS; w++) if (keys[at + w] !== probe[w]) return false
    return true
  }

  const firstWay = (): number => WAYS * (halfSipHash13(probe, 0, KEY_WORDS, key0, key1) & setMask)

  return {
    get evicted() {
      return evicted
    },
    select(data, end, packets, i) {
      const at = packets.ipOffset[i]!
      if (packets.ipVersion[i] === 4) {
        if ((data[at + 6]! & (MORE_FRAGMENTS | 0x1f)) === 0 && data[at + 7] === 0) return false
        probe[8] = (data[at + 4]! << 8) | data[at + 5]!
        probe[9] = 0x400 | data[at + 9]!
      } else if (packets.ipVersion[i] === 6) {
        const header = fragmentHeaderAt(data, at, end)
        // an atomic fragment (RFC 6946) is whole
        if (header < 0 || (data[header + 2] === 0 && (data[header + 3]! & 0xf9) === 0)) return false
        probe[8] =
          (data[header + 4]! << 24) | (data[header + 5]! << 16) | (data[header + 6]! << 8) | data[header + 7]!
        probe[9] = 0x600
      } else {
        return false
      }
      for (let w = 0; w < 4; w++) {
        probe[w] = packets.sourceAddress[4 * i + w]!
        probe[4 + w] = packets.destinationAddress[4 * i + w]!
      }
      return true
    },
    find(packets, i) {
      const first = firstWay()
      const micros = packets.timestampMicros[i]!
      for (let entry = first; entry < first + WAYS; entry++) {
        if (order[entry] === 0 || !isSelected(entry) || isExpired(entry, micros)) continue
        const at = VALUE_WORDS * entry
        for (let w = 0; w < 4; w++) {
          packets.sourceAddress[4 * i + w] = values[at + w]!
          packets.destinationAddress[4 * i + w] = values[at + 4 + w]!
        }
        packets.sourcePort[i] = values[at + 8]! >>> 16
        packets.destinationPort[i] = values[at + 8]! & 0xffff
        packets.ipVersion[i] = values[at + 9]! >>> 8
        packets.protocol[i] = values[at + 9]! & 0xff
        packets.payloadBytes[i] = Math.max(0, packets.ipBytes[i]! - (packets.ipVersion[i] === 4 ? 20 : 48))
        return true
      }
      return false
    },
    store(packets, i) {
      const first = firstWay()
      const micros = packets.timestampMicros[i]!
      let target = first
      for (let entry = first; entry < first + WAYS; entry++) {
        if (order[entry] !== 0 && isSelected(entry)) {
          target = entry
          break
        }
        if (order[entry]! < order[target]!) target = entry
      }
      if (order[target] !== 0 && !isSelected(target) && !isExpired(target, micros)) evicted++
      keys.set(probe, KEY_WORDS * target)
      const at = VALUE_WORDS * target
      for (let w = 0; w < 4; w++) {
        values[at + w] = packets.sourceAddress[4 * i + w]!
        values[at + 4 + w] = packets.destinationAddress[4 * i + w]!
      }
      values[at + 8] = (packets.sourcePort[i]! << 16) | packets.destinationPort[i]!
      values[at + 9] = (packets.ipVersion[i]! << 8) | packets.protocol[i]!
      storedMicros[target] = micros
      order[target] = ++clock
    },
  }
}

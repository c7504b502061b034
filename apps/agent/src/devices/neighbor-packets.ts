/** Packets by which hosts of a link find each other's MAC addresses: ARP (RFC 826) and neighbor discovery (RFC 4861). */
import { formatAddress, formatMac, type PacketBatch } from '@oddflow/capture'

export interface ArpPacket {
  /** Of the sender, as ARP itself has it. */
  readonly mac: string
  /** 0.0.0.0 in a probe (RFC 5227). */
  readonly sender: string
  readonly target: string
  readonly isRequest: boolean
}

export interface NeighborClaim {
  readonly mac: string
  readonly address: string
}

/** null where the frame is no ARP packet of Ethernet and IPv4, or a group's MAC address is the sender. */
export function readArp(data: Uint8Array, start: number, end: number): ArpPacket | null {
  let at = start + 12
  if (data[at] === 0x81 && data[at + 1] === 0) at += 4
  at += 2
  if (at + 28 > end || data[at - 2] !== 0x08 || data[at - 1] !== 0x06) return null
  const isEthernetIpv4 =
    data[at + 1] === 1 && data[at + 2] === 8 && data[at + 3] === 0 && data[at + 4] === 6 && data[at + 5] === 4
  if (!isEthernetIpv4 || isGroupMac(data, at + 8)) return null
  const addressAt = (i: number): string => data.subarray(i, i + 4).join('.')
  return {
    mac: formatMac(data, at + 8),
    sender: addressAt(at + 14),
    target: addressAt(at + 24),
    isRequest: data[at + 6] === 0 && data[at + 7] === 1,
  }
}

const ICMPV6 = 58
/** A router decrements it, so that nothing from elsewhere has it. */
const LINK_HOP_LIMIT = 255
const SENDER_OPTION = 1
const TARGET_OPTION = 2

/** By type of message: where its options begin, the option with a MAC address, and where the address of that one is (0: the packet's source). */
const MESSAGES: Readonly<Record<number, readonly [options: number, option: number, address: number]>> = {
  133: [8, SENDER_OPTION, 0],
  134: [16, SENDER_OPTION, 0],
  135: [24, SENDER_OPTION, 0],
  136: [24, TARGET_OPTION, 8],
  137: [40, TARGET_OPTION, 8],
}

/** Which MAC address a message of neighbor discovery gives for which address; null where it gives none. */
export function readNeighborClaim(
  data: Uint8Array,
  packets: PacketBatch,
  i: number,
  end: number,
): NeighborClaim | null {
  const at = packets.transportOffset[i]
  if (packets.protocol[i] !== ICMPV6 || packets.hopLimit[i] !== LINK_HOP_LIMIT || at === 0) return null
  const message = MESSAGES[data[at]]
  if (message === undefined) return null
  const [options, option, addressAt] = message
  for (let from = at + options; from + 8 <= end && data[from + 1] > 0; from += 8 * data[from + 1]) {
    if (data[from] !== option || isGroupMac(data, from + 2)) continue
    const words =
      addressAt === 0 ? packets.sourceAddress.subarray(4 * i, 4 * i + 4) : wordsAt(data, at + addressAt)
    // no address yet (RFC 4862), or a group's
    if (words.every((word) => word === 0) || words[0] >>> 24 === 0xff) return null
    return { mac: formatMac(data, from + 2), address: formatAddress(words, 0, 6) }
  }
  return null
}

function isGroupMac(data: Uint8Array, at: number): boolean {
  return (data[at] & 1) !== 0
}

function wordsAt(data: Uint8Array, at: number): Uint32Array {
  return Uint32Array.from([0, 4, 8, 12], (i) => {
    const [a, b, c, d] = data.subarray(at + i, at + i + 4)
    return (a << 24) | (b << 16) | (c << 8) | d
  })
}

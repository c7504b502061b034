/**
 * NameFinder: names that devices give themselves, read from the packets that pass: DHCP, DHCPv6, multicast DNS.
 *
 * A name is a claim of whoever sent the frame, and goes with the frame's MAC address; it is for people, no verdict depends
 * on it. A host name counts more than what a service calls itself, and DHCP's more than multicast DNS's. A device may be
 * named before it is known (DHCP comes first), so the latest names are kept for a while, at most so many.
 *
 * Only packets to three ports are looked into, so all others cost a comparison of numbers.
 */
import { type FrameBatch, formatMac, type PacketBatch } from '@oddflow/capture'
import { readDhcpName } from './dhcp-name.js'
import { readDhcpv6Name } from './dhcpv6-name.js'
import { readMdnsName } from './mdns-name.js'

export const NAME_SOURCES = ['dhcp', 'dhcpv6', 'mdns', 'mdns-service'] as const
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

/** Calls `onName` with the MAC address of who claims a name, as often as it does. */
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

export interface NameBook {
  note(mac: string, claimed: ClaimedName): void
  /** The name that counts most, while it is remembered. */
  of(mac: string): ClaimedName | undefined
}

const MAXIMUM_NAMES = 1024

/** At most MAXIMUM_NAMES names; the one that was claimed longest ago goes first. */
export function createNameBook(maximum = MAXIMUM_NAMES): NameBook {
  const names = new Map<string, ClaimedName>()
  return {
    note(mac, claimed) {
      const before = names.get(mac)
      names.delete(mac)
      names.set(mac, before === undefined || !countsLess(claimed, before) ? claimed : before)
      if (names.size > maximum) names.delete(names.keys().next().value as string)
    },
    of: (mac) => names.get(mac),
  }
}

/** Whether a claim is of a lesser source than the name that there is. */
export function countsLess(claimed: ClaimedName, before: ClaimedName): boolean {
  return NAME_SOURCES.indexOf(claimed.source) > NAME_SOURCES.indexOf(before.source)
}

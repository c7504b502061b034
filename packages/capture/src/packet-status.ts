/**
 * Why a packet is not part of a flow. Every captured packet has exactly one status, so the counts of a
 * capture always add up: captured = keyed + the sum over reasons.
 *
 * The names are public (they are the keys of `skipped` in reports); the codes are private to a process.
 */
export const PACKET_OK = 0

/**
 * Names by code; index 0 is the keyed packet.
 *
 * - link-type-unsupported: the frame's LINKTYPE_ is not read (its name stands in a summary's `linkTypes`)
 * - link-header-truncated: captured shorter than the link header, VLAN tags and SNAP included
 * - not-ip, arp: what follows the link header
 * - mpls, pppoe: a label stack or a PPPoE frame that carries no IP (discovery, LCP, other pseudowires)
 * - wlan-not-data, wlan-encrypted, wlan-later-fragment: 802.11 frames without a readable packet (management,
 *   control and empty data frames; protected ones; fragments of a frame other than its first)
 * - ieee802154-unsupported: IEEE 802.15.4, and so 6LoWPAN and Zigbee, whose headers are not read
 * - link-nesting-exceeded: more link headers within each other than are read (MAXIMUM_LINK_NESTING)
 * - ip-header-truncated, ip-header-invalid: captured too short (extension headers and options included), or
 *   version or lengths that cannot be
 * - ip-later-fragment: a fragment other than the first, which has no ports
 * - transport-header-truncated, transport-header-invalid: no ports captured, or the IP length has no room
 *   for them
 * - ip-encrypted-or-no-transport: IPv6 "no next header"
 * - filtered-out: set by a caller on packets that its filter does not keep (never by decoding)
 * - duplicate: set by PacketCheck on copies of a packet, where they are to be dropped (never by decoding)
 */
export const PACKET_STATUS_NAMES = [
  'ok',
  'link-type-unsupported',
  'link-header-truncated',
  'not-ip',
  'arp',
  'ip-header-truncated',
  'ip-header-invalid',
  'ip-later-fragment',
  'transport-header-truncated',
  'transport-header-invalid',
  'ip-encrypted-or-no-transport',
  'mpls',
  'pppoe',
  'filtered-out',
  'wlan-not-data',
  'wlan-encrypted',
  'wlan-later-fragment',
  'ieee802154-unsupported',
  'link-nesting-exceeded',
  'duplicate',
] as const

export type PacketStatusName = (typeof PACKET_STATUS_NAMES)[number]

export function packetStatusCode(name: PacketStatusName): number {
  return PACKET_STATUS_NAMES.indexOf(name)
}

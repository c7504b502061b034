/**
 * Why a packet is not part of a flow. Every captured packet has exactly one status, so the counts of a
 * capture always add up: captured = keyed + the sum over reasons.
 *
 * The names are public (they are the keys of `skipped` in reports); the codes are private to a process.
 */
export const PACKET_OK = 0

/** Names by code; index 0 is the keyed packet. */
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
] as const

export type PacketStatusName = (typeof PACKET_STATUS_NAMES)[number]

export function packetStatusCode(name: PacketStatusName): number {
  return PACKET_STATUS_NAMES.indexOf(name)
}

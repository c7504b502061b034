/**
 * PacketFields: the packet that is on its way from the flow table to its record, as a few numbers in one
 * small Float64Array.
 *
 * An array that its owner fills again for every packet, because numbers passed as arguments or kept in
 * objects may be boxed one by one, and a typed array's never are: nothing is allocated per packet. The
 * tracker (or the reader of collected flows) writes the first five and the last, the cutter the rest.
 */

/** Number of the packet in its capture, from 0. */
export const NUMBER = 0
/** Microseconds of the flow clock, never before the flow's previous packet; in idle-gap rules, seconds. */
export const TIME = 1
/** Length by the contract's size measure, bytes. */
export const SIZE = 2
/** Length in the IP header, bytes. */
export const IP_BYTES = 3
/** See `packetMeta`. */
export const META = 4
/** Time since the previous packet of the record, in the unit of TIME; 0 for its first. */
export const IAT = 5
/** Time of the record's first packet. */
export const START = 6

/** The capture's own time of the packet, microseconds since 1970. */
export const STAMP = 7

export type PacketFields = Float64Array

export function createPacketFields(): PacketFields {
  return new Float64Array(8)
}

/** Bit 16 of the meta word: the responder sent the packet. */
export const FROM_RESPONDER = 0x10000

/** What else is kept of a packet, in one word: TCP flags in bits 0–7, TTL or hop limit in 8–15, direction in 16. */
export function packetMeta(tcpFlags: number, hopLimit: number, fromResponder: boolean): number {
  return tcpFlags | (hopLimit << 8) | (fromResponder ? FROM_RESPONDER : 0)
}

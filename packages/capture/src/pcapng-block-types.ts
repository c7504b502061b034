/**
 * Which blocks of pcapng are read, and how short one may be.
 *
 * Source: draft-ietf-opsawg-pcapng, section 4 and appendix A (the obsolete Packet Block).
 */
export const PCAPNG_SECTION_HEADER = 0x0a0d0d0a
export const INTERFACE_DESCRIPTION = 1
export const PACKET_OBSOLETE = 2
export const SIMPLE_PACKET = 3
export const INTERFACE_STATISTICS = 5
export const ENHANCED_PACKET = 6
export const BYTE_ORDER_MAGIC = 0x1a2b3c4d
export const BYTE_ORDER_SWAPPED = 0x4d3c2b1a

/** Type, length and the length again. */
export const SMALLEST_BLOCK = 12

/** Statistics have about a hundred bytes; a block that claims more is passed over rather than gathered. */
const SMALLEST_STATISTICS = 24
const LARGEST_STATISTICS = 65_536

/** Smallest total length that a block of this type must have to be read; 0 for one that is passed over. */
export function smallestReadLength(type: number, length: number): number {
  switch (type) {
    case PCAPNG_SECTION_HEADER:
      return 28
    case INTERFACE_DESCRIPTION:
      return 20
    case SIMPLE_PACKET:
      return 16
    case ENHANCED_PACKET:
    case PACKET_OBSOLETE:
      return 32
    case INTERFACE_STATISTICS:
      return length >= SMALLEST_STATISTICS && length <= LARGEST_STATISTICS ? SMALLEST_STATISTICS : 0
    default:
      return 0
  }
}

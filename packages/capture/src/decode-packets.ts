/**
 * decodePackets: the headers of a batch of frames, read into parallel arrays.
 *
 * Ordinary packets are read in one go (plain-packet.ts), all others layer by layer: one function each, a leaf over
 * (bytes, position, end) that fills its columns for packet i and gives the status of what it found; nothing is
 * allocated per packet. A packet that cannot be keyed still has all the columns that could be read (a later
 * fragment has addresses and protocol, an ARP request its two IPv4 addresses), so that filters and counts can
 * use them.
 *
 * The view is the outer one: link headers, VLAN tags, SNAP, MPLS labels and PPPoE are passed, and the first IP
 * header makes the packet. Tunnels within IP and later fragments are packet-decoder.ts's. Left out: 802.15.4
 * and the link types that link-layer.ts does not name.
 */
import { ArgumentError } from '@oddflow/core'
import { clearHeaders } from './clear-headers.js'
import type { FrameBatch } from './frame-batch.js'
import { decodeLinkLayer } from './link-layer.js'
import type { PacketBatch } from './packet-batch.js'
import { PACKET_OK } from './packet-status.js'
import { decodePlainPacket } from './plain-packet.js'

const LINKTYPE_ETHERNET = 1

/** Fills `packets` from `frames`. Throws ArgumentError when `packets` holds fewer than `frames.count`. */
export function decodePackets(frames: FrameBatch, packets: PacketBatch): void {
  const count = frames.count
  if (packets.status.length < count) {
    throw new ArgumentError(
      `packets: expected room for ${count} packets, found ${packets.status.length}`,
      'packets',
    )
  }
  packets.count = count
  packets.firstFrame = frames.firstFrame
  const { data, offset, capturedBytes, wireBytes, timestampMicros, linkType } = frames
  packets.timestampMicros.set(timestampMicros.subarray(0, count))
  packets.frameBytes.set(wireBytes.subarray(0, count))
  packets.capturedBytes.set(capturedBytes.subarray(0, count))
  const { status, sourceMac, destinationMac } = packets
  for (let i = 0; i < count; i++) {
    const at = offset[i]!
    const end = at + capturedBytes[i]!
    if (linkType[i]! === LINKTYPE_ETHERNET && decodePlainPacket(data, at, end, packets, i)) {
      status[i] = PACKET_OK
      continue
    }
    clearHeaders(packets, i)
    packets.vlan[i] = 0
    packets.vlanTags[i] = 0
    for (let b = 6 * i; b < 6 * i + 6; b++) {
      sourceMac[b] = 0
      destinationMac[b] = 0
    }
    status[i] = decodeLinkLayer(linkType[i]!, data, at, end, packets, i)
  }
}

/**
 * decodePackets: the headers of a batch of frames, read into parallel arrays.
 *
 * One function per layer, each a leaf over (bytes, position, end) that fills its columns for packet i and
 * gives the status of what it found; nothing is allocated. A packet that cannot be keyed still has all the
 * columns that could be read (a later fragment has addresses and protocol, an ARP request its two IPv4
 * addresses), so that filters and counts can use them.
 *
 * The view is the outer one: link headers, VLAN tags, SNAP, MPLS labels and PPPoE are passed, and the first IP
 * header makes the packet. Tunnels within IP and later fragments are packet-decoder.ts's. Left out: 802.15.4
 * and the link types that link-layer.ts does not name.
 */
import { ArgumentError } from '@oddflow/core'
import type { FrameBatch } from './frame-batch.js'
import { decodeLinkLayer } from './link-layer.js'
import type { PacketBatch } from './packet-batch.js'

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
  clearHeaders(packets, count)
  const { data, offset, capturedBytes, wireBytes, timestampMicros, linkType } = frames
  packets.timestampMicros.set(timestampMicros.subarray(0, count))
  packets.frameBytes.set(wireBytes.subarray(0, count))
  const { status } = packets
  for (let i = 0; i < count; i++) {
    const at = offset[i]!
    const end = at + capturedBytes[i]!
    packets.capturedBytes[i] = capturedBytes[i]!
    status[i] = decodeLinkLayer(linkType[i]!, data, at, end, packets, i)
  }
}

function clearHeaders(packets: PacketBatch, count: number): void {
  packets.ipBytes.fill(0, 0, count)
  packets.ipVersion.fill(0, 0, count)
  packets.protocol.fill(0, 0, count)
  packets.sourceAddress.fill(0, 0, 4 * count)
  packets.destinationAddress.fill(0, 0, 4 * count)
  packets.sourcePort.fill(0, 0, count)
  packets.destinationPort.fill(0, 0, count)
  packets.tcpFlags.fill(0, 0, count)
  packets.hopLimit.fill(0, 0, count)
  packets.ipOffset.fill(0, 0, count)
  packets.transportOffset.fill(0, 0, count)
  packets.sourceMac.fill(0, 0, 6 * count)
  packets.destinationMac.fill(0, 0, 6 * count)
}

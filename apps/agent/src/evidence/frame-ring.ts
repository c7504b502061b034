/**
 * FrameRing: the last packets that passed, so that an alert can show those of its flow.
 *
 * A fixed number of bytes and of packets, filled round and round: what it costs does not depend on the traffic, and
 * how far back it reaches does. Of a packet SNAP_BYTES are kept. A flow's packets are found by its ends and ports,
 * in either direction, as the decoder found them (within a tunnel, its inner ones).
 */
import { type FrameBatch, PACKET_OK, type PacketBatch, type PcapFrame } from '@oddflow/capture'

/** A flow, by its two ends: four words of an address each, and ports. */
export interface FlowEnds {
  readonly protocol: number
  readonly sourceWords: Uint32Array
  readonly destinationWords: Uint32Array
  readonly sourcePort: number
  readonly destinationPort: number
}

export interface FrameRing {
  add(frames: FrameBatch, packets: PacketBatch): void
  /** The first packets of a flow from a time on that are still there, and the link type of all of them. */
  packetsOf(flow: FlowEnds, startMicros: number, limit: number): { frames: PcapFrame[]; linkType: number }
}

const SNAP_BYTES = 256
const SLOTS = 8192
const WORDS = 11

/** What it takes, to be set aside. */
export const FRAME_RING_BYTES = SLOTS * (SNAP_BYTES + 4 * WORDS + 8 + 12)

export function createFrameRing(): FrameRing {
  const bytes = new Uint8Array(SLOTS * SNAP_BYTES)
  /** Source, destination, ports, protocol. */
  const keys = new Uint32Array(SLOTS * WORDS)
  const times = new Float64Array(SLOTS)
  const lengths = new Uint32Array(SLOTS)
  const wireLengths = new Uint32Array(SLOTS)
  const linkTypes = new Uint32Array(SLOTS)
  let added = 0

  const isOf = (slot: number, key: Uint32Array): boolean => {
    for (let i = 0; i < WORDS; i++) if (keys[slot * WORDS + i] !== key[i]) return false
    return true
  }
  return {
    add(frames, packets) {
      for (let i = 0; i < packets.count; i++) {
        if (packets.status[i] !== PACKET_OK) continue
        const slot = added++ % SLOTS
        const length = Math.min(SNAP_BYTES, frames.capturedBytes[i])
        const from = frames.offset[i]
        bytes.set(frames.data.subarray(from, from + length), slot * SNAP_BYTES)
        for (let word = 0; word < 4; word++) {
          keys[slot * WORDS + word] = packets.sourceAddress[4 * i + word]
          keys[slot * WORDS + 4 + word] = packets.destinationAddress[4 * i + word]
        }
        keys[slot * WORDS + 8] = packets.sourcePort[i]
        keys[slot * WORDS + 9] = packets.destinationPort[i]
        keys[slot * WORDS + 10] = packets.protocol[i]
        times[slot] = frames.timestampMicros[i]
        lengths[slot] = length
        wireLengths[slot] = frames.wireBytes[i]
        linkTypes[slot] = frames.linkType[i]
      }
    },
    packetsOf({ protocol, sourceWords, destinationWords, sourcePort, destinationPort }, startMicros, limit) {
      const there = Uint32Array.of(...sourceWords, ...destinationWords, sourcePort, destinationPort, protocol)
      const back = Uint32Array.of(...destinationWords, ...sourceWords, destinationPort, sourcePort, protocol)
      const frames: PcapFrame[] = []
      let linkType = -1
      for (let n = Math.max(0, added - SLOTS); n < added && frames.length < limit; n++) {
        const slot = n % SLOTS
        if (times[slot] < startMicros || !(isOf(slot, there) || isOf(slot, back))) continue
        if (linkType === -1) linkType = linkTypes[slot]
        if (linkTypes[slot] !== linkType) continue
        frames.push({
          timestampMicros: times[slot],
          bytes: bytes.slice(slot * SNAP_BYTES, slot * SNAP_BYTES + lengths[slot]),
          wireBytes: wireLengths[slot],
        })
      }
      return { frames, linkType }
    },
  }
}

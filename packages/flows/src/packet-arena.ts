/**
 * PacketArena: every packet of a training capture, with the number of its flow, in order of arrival.
 *
 * Blocks that are only ever appended to, so nothing is copied while it grows; `group` sorts them by flow at
 * the end (a counting sort: stable, linear), giving each block back as soon as it is read.
 */
import { IP_BYTES, META, NUMBER, type PacketFields, SIZE, STAMP, TIME } from './packet-fields.js'

const BLOCK_PACKETS = 16_384

/** Bytes of a packet: in a block, and in the grouped columns beside it. */
export const GROUPED_PACKET_BYTES = 8 + 4 + 4 + 4 + 8
export const ARENA_PACKET_BYTES = 4 + GROUPED_PACKET_BYTES

interface PacketColumns {
  readonly packetMicros: Float64Array
  readonly packetBytes: Uint32Array
  readonly packetIpBytes: Uint32Array
  readonly packetMeta: Uint32Array
  readonly packetNumber: Float64Array
}

interface Block extends PacketColumns {
  readonly flow: Uint32Array
  /** Flow clock minus the capture's time; null while that is 0. */
  shift: Float64Array | null
}

export interface GroupedPackets extends PacketColumns {
  readonly packetOffset: Float64Array
  readonly packetShiftMicros: Float64Array | null
}

function createColumns(packets: number): PacketColumns {
  return {
    packetMicros: new Float64Array(packets),
    packetBytes: new Uint32Array(packets),
    packetIpBytes: new Uint32Array(packets),
    packetMeta: new Uint32Array(packets),
    packetNumber: new Float64Array(packets),
  }
}

function copyPacket(from: PacketColumns, i: number, to: PacketColumns, j: number): void {
  to.packetMicros[j] = from.packetMicros[i]
  to.packetBytes[j] = from.packetBytes[i]
  to.packetIpBytes[j] = from.packetIpBytes[i]
  to.packetMeta[j] = from.packetMeta[i]
  to.packetNumber[j] = from.packetNumber[i]
}

export class PacketArena {
  count = 0
  readonly #blocks: Block[] = []

  /** Whether the next packet needs a new block. */
  get full(): boolean {
    return this.count === this.#blocks.length * BLOCK_PACKETS
  }

  static readonly blockBytes = BLOCK_PACKETS * (ARENA_PACKET_BYTES + GROUPED_PACKET_BYTES)
  /** Bytes for the shifts of blocks that have some, grouped ones included. */
  shiftBytes = 0

  addBlock(): void {
    this.#blocks.push({ flow: new Uint32Array(BLOCK_PACKETS), ...createColumns(BLOCK_PACKETS), shift: null })
  }

  push(flow: number, packet: PacketFields): void {
    const block = this.#blocks[this.#blocks.length - 1]
    const at = this.count++ % BLOCK_PACKETS
    block.flow[at] = flow
    block.packetMicros[at] = packet[TIME]
    block.packetBytes[at] = packet[SIZE]
    block.packetIpBytes[at] = packet[IP_BYTES]
    block.packetMeta[at] = packet[META]
    block.packetNumber[at] = packet[NUMBER]
    const shift = packet[TIME] - packet[STAMP]
    if (shift === 0) return
    if (block.shift === null) {
      block.shift = new Float64Array(BLOCK_PACKETS)
      this.shiftBytes += 2 * block.shift.byteLength
    }
    block.shift[at] = shift
  }

  /** Packets by flow, in order of arrival within each; empties the arena. */
  group(flows: number): GroupedPackets {
    const { count } = this
    const packetOffset = new Float64Array(flows + 1)
    this.#blocks.forEach((block, b) => {
      const end = Math.min(BLOCK_PACKETS, count - b * BLOCK_PACKETS)
      for (let i = 0; i < end; i++) packetOffset[block.flow[i] + 1]++
    })
    for (let f = 0; f < flows; f++) packetOffset[f + 1] += packetOffset[f]
    const next = packetOffset.slice()
    const columns = createColumns(count)
    const packetShiftMicros = this.shiftBytes > 0 ? new Float64Array(count) : null
    for (let done = 0; done < count; done += BLOCK_PACKETS) {
      const block = this.#blocks.shift()!
      const end = Math.min(BLOCK_PACKETS, count - done)
      for (let i = 0; i < end; i++) {
        const to = next[block.flow[i]]++
        copyPacket(block, i, columns, to)
        if (packetShiftMicros !== null && block.shift !== null) packetShiftMicros[to] = block.shift[i]
      }
    }
    this.count = 0
    return { packetOffset, packetShiftMicros, ...columns }
  }
}

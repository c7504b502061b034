/**
 * PacketArena: every packet of a training capture, (flow, time, size, number), in order of arrival.
 *
 * Blocks that are only ever appended to, so nothing is copied while it grows; `group` sorts them by flow at
 * the end (a counting sort: stable, linear), giving each block back as soon as it is read.
 */
const BLOCK_PACKETS = 16_384

/** Bytes of a packet: in a block, and in the grouped columns beside it. */
export const ARENA_PACKET_BYTES = 4 + 8 + 4 + 8
export const GROUPED_PACKET_BYTES = 8 + 4 + 8

interface Block {
  readonly flow: Uint32Array
  readonly micros: Float64Array
  readonly bytes: Uint32Array
  readonly number: Float64Array
}

export interface GroupedPackets {
  readonly packetOffset: Float64Array
  readonly packetMicros: Float64Array
  readonly packetBytes: Uint32Array
  readonly packetNumber: Float64Array
}

export class PacketArena {
  count = 0
  readonly #blocks: Block[] = []

  /** Whether the next packet needs a new block. */
  get full(): boolean {
    return this.count === this.#blocks.length * BLOCK_PACKETS
  }

  static readonly blockBytes = BLOCK_PACKETS * (ARENA_PACKET_BYTES + GROUPED_PACKET_BYTES)

  addBlock(): void {
    this.#blocks.push({
      flow: new Uint32Array(BLOCK_PACKETS),
      micros: new Float64Array(BLOCK_PACKETS),
      bytes: new Uint32Array(BLOCK_PACKETS),
      number: new Float64Array(BLOCK_PACKETS),
    })
  }

  push(flow: number, micros: number, bytes: number, number: number): void {
    const block = this.#blocks[this.#blocks.length - 1]
    const at = this.count++ % BLOCK_PACKETS
    block.flow[at] = flow
    block.micros[at] = micros
    block.bytes[at] = bytes
    block.number[at] = number
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
    const packetMicros = new Float64Array(count)
    const packetBytes = new Uint32Array(count)
    const packetNumber = new Float64Array(count)
    for (let done = 0; done < count; done += BLOCK_PACKETS) {
      const block = this.#blocks.shift()!
      const end = Math.min(BLOCK_PACKETS, count - done)
      for (let i = 0; i < end; i++) {
        const at = next[block.flow[i]]++
        packetMicros[at] = block.micros[i]
        packetBytes[at] = block.bytes[i]
        packetNumber[at] = block.number[i]
      }
    }
    this.count = 0
    return { packetOffset, packetMicros, packetBytes, packetNumber }
  }
}

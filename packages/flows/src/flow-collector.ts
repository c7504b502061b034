/**
 * Collects whole flows for training, with the same tracker as scoring. It keeps every packet, because the duration and
 * the length to cut at are quantiles over all flows: 60 bytes a packet and about 150 a flow; beyond its memory
 * training stops.
 */
import type { PacketBatch } from '@oddflow/capture'
import {
  ArgumentError,
  DataError,
  type FlowKeyRule,
  type FlowProtocol,
  type SizeMeasure,
} from '@oddflow/core'
import { splitDirectional } from './extract-records.js'
import { checkFlowProtocols, type FlowCounters, type FlowSink, type TimeCounters } from './flow-counters.js'
import {
  copyIdentity,
  createFlowIdentity,
  END_REASONS,
  type EndReason,
  type FlowIdentity,
  growFlowIdentity,
  grown,
  IDENTITY_BYTES,
} from './flow-record.js'
import { FlowTracker } from './flow-tracker.js'
import { MemoryBudget } from './memory-budget.js'
import { checkCount, Gate } from './one-packet-rule.js'
import { IP_BYTES, META, NUMBER, type PacketFields, SIZE, STAMP, TIME } from './packet-pass.js'

/**
 * CollectedFlows: whole flows with all their packets, as plain columns, in order of their first packets. Packets of flow f
 * are `packetOffset[f]` up to `packetOffset[f + 1]`. Directional flows have the order of the authors' code: by the first
 * packet of their key, with the flows of one key together.
 */
export interface CollectedFlows extends GroupedPackets {
  readonly count: number
  readonly identity: FlowIdentity
  /** Index in END_REASONS. */
  readonly endReason: Uint8Array
  readonly sizeMeasure: SizeMeasure
  readonly flowKey: FlowKeyRule
  /** Transports that made flows, in the order of FLOW_PROTOCOLS. */
  readonly protocols: readonly FlowProtocol[]
  readonly idleTimeoutMicros: number
  /** TCP flows ended when they closed. */
  readonly endOnClose: boolean
  /** The VLAN was part of the key. */
  readonly vlanKey: boolean
  /** What became of the packets. */
  readonly counters: Pick<
    FlowCounters,
    'packets' | 'packetsInFlows' | 'dropped' | 'flows' | keyof TimeCounters
  >
}

/**
 * PacketArena: every packet with its flow's number, in blocks that are only appended. `group` sorts packets by flow at
 * the end (a counting sort) and frees each block after reading it.
 */

const BLOCK_PACKETS = 16_384

/** Bytes of a packet: in a block, and in the grouped columns beside it. */
const GROUPED_PACKET_BYTES = 8 + 4 + 4 + 4 + 8
const ARENA_PACKET_BYTES = 4 + GROUPED_PACKET_BYTES

interface PacketColumns {
  /** Microseconds of the flow clock (directional flows: the capture's own); they never decrease within a flow. */
  readonly packetMicros: Float64Array
  /** By sizeMeasure. */
  readonly packetBytes: Uint32Array
  /** Lengths in the IP headers. */
  readonly packetIpBytes: Uint32Array
  /** TCP flags in bits 0–7, TTL or hop limit in bits 8–15; bit 16 is set for packets of the responder. */
  readonly packetMeta: Uint32Array
  /** Number of the packet in its capture. */
  readonly packetNumber: Float64Array
}

interface Block extends PacketColumns {
  readonly flow: Uint32Array
  /** Flow clock minus the capture's time; null while that is 0. */
  shift: Float64Array | null
}

interface GroupedPackets extends PacketColumns {
  /** One more than there are flows. */
  readonly packetOffset: Float64Array
  /** Flow clock minus capture time for each packet; null if always 0. */
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

class PacketArena {
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

/** Options of `createFlowCollector`. */
export interface FlowCollectorOptions {
  /** Which length of a packet is its size. Default frame. */
  readonly sizeMeasure?: SizeMeasure
  /** Default bidirectional-5-tuple. directional-5-tuple collects only IPv4, for idle-gap contracts. */
  readonly flowKey?: FlowKeyRule
  /** Transports that make flows. Default TCP and UDP. */
  readonly protocols?: readonly FlowProtocol[]
  /** A gap longer than this ends a flow. Default 600 s. */
  readonly idleTimeoutMicros?: number
  /** TCP flows end when they close (FeatureContract). Default false; not with directional-5-tuple. */
  readonly endOnClose?: boolean
  /** The VLAN is part of the key. Default false; not with directional-5-tuple. */
  readonly vlanKey?: boolean
  /** Bytes that the packets and flows may take. Default 1 GiB: about 17 million packets. */
  readonly memoryBytes?: number
  /** Key of the flow table's hash; results do not depend on it. */
  readonly hashSeed?: number
}

/** Collects whole flows with all their packets. */
export interface FlowCollector {
  /**
   * Takes a batch. Throws DataError without memory for it; ArgumentError if its count is not a number of packets it has
   * room for, and after `finish`.
   */
  add(batch: PacketBatch): void
  /** Ends all flows; the following packets belong to another capture with its own flows. */
  endCapture(): void
  /** Ends all flows and returns them; the collector is then empty and finished. */
  finish(): CollectedFlows
}

/** Silence that ends a flow unless the caller says otherwise: 600 s in microseconds. */
export const DEFAULT_IDLE_TIMEOUT_MICROS = 600_000_000
const DEFAULT_MEMORY_BYTES = 1024 * 1024 * 1024
const MINIMUM_MEMORY_BYTES = 1024 * 1024
const FLOW_BYTES = IDENTITY_BYTES + 1 + 16

/** Starts to collect whole flows for training. Throws ArgumentError for an option out of range. */
export function createFlowCollector(options: FlowCollectorOptions = {}): FlowCollector {
  const idleTimeoutMicros = options.idleTimeoutMicros ?? DEFAULT_IDLE_TIMEOUT_MICROS
  if (!Number.isSafeInteger(idleTimeoutMicros) || idleTimeoutMicros < 1) {
    throw new ArgumentError(
      `idleTimeoutMicros: expected a whole number of 1 or more, found ${idleTimeoutMicros}`,
      'idleTimeoutMicros',
    )
  }
  const memoryBytes = options.memoryBytes ?? DEFAULT_MEMORY_BYTES
  if (!(memoryBytes >= MINIMUM_MEMORY_BYTES)) {
    throw new ArgumentError(
      `memoryBytes: expected at least ${MINIMUM_MEMORY_BYTES} bytes, found ${memoryBytes}`,
      'memoryBytes',
    )
  }
  const sizeMeasure = options.sizeMeasure ?? 'frame'
  const flowKey = options.flowKey ?? 'bidirectional-5-tuple'
  const protocols = checkFlowProtocols(options.protocols)
  const directional = flowKey === 'directional-5-tuple'
  const { endOnClose = false, vlanKey = false } = options
  for (const [option, value] of Object.entries({ endOnClose, vlanKey })) {
    if (!directional || !value) continue
    throw new ArgumentError(`${option}: expected false with directional-5-tuple, found true`, option)
  }
  const budget = new MemoryBudget(memoryBytes)
  const sink = new CollectingSink(budget)
  const tracker = new FlowTracker(
    {
      idleTimeoutMicros: directional ? Number.POSITIVE_INFINITY : idleTimeoutMicros,
      sizeMeasure,
      hashSeed: options.hashSeed ?? 0,
      directional,
      protocols,
      endOnClose,
      vlanKey,
    },
    budget,
    sink,
  )
  sink.source = tracker.table.identity
  const gate = new Gate()
  return {
    add: (batch) => {
      checkCount(batch)
      gate.pass('add', () => tracker.add(batch))
    },
    endCapture: () => gate.pass('endCapture', () => tracker.endCapture()),
    finish: () => {
      gate.pass('finish', () => tracker.endCapture())
      gate.isClosed = true
      const { packets, packetsInFlows, flows } = tracker.counts
      const collected = {
        count: sink.count,
        identity: sink.identity,
        endReason: sink.endReason,
        ...sink.arena.group(sink.count),
        sizeMeasure,
        flowKey,
        protocols,
        idleTimeoutMicros,
        endOnClose,
        vlanKey,
        counters: {
          packets,
          packetsInFlows,
          dropped: tracker.counts.dropped(),
          flows,
          ...tracker.times(),
        },
      }
      return directional ? splitDirectional(collected) : collected
    },
  }
}

/** Gives every flow a permanent number, in order of first packets, and stores its packets under it. */
class CollectingSink implements FlowSink {
  readonly bytesPerFlow = 4
  readonly arena = new PacketArena()
  /** The identities in the flow table. */
  source: FlowIdentity = createFlowIdentity(0)
  identity = createFlowIdentity(INITIAL_FLOWS)
  endReason = new Uint8Array(INITIAL_FLOWS)
  count = 0
  #capacity = INITIAL_FLOWS
  #numbers = new Uint32Array(0)
  /** Of the budget. */
  #shiftBytes = 0
  readonly #budget: MemoryBudget

  constructor(budget: MemoryBudget) {
    this.#budget = budget
    budget.usedBytes += INITIAL_FLOWS * FLOW_BYTES
  }

  resize(capacity: number): void {
    this.#numbers = grown(this.#numbers, new Uint32Array(capacity))
  }

  makeRoom(): boolean {
    if (this.arena.full) {
      this.#budget.usedBytes += this.arena.shiftBytes - this.#shiftBytes
      this.#shiftBytes = this.arena.shiftBytes
      if (this.#budget.usedBytes + PacketArena.blockBytes > this.#budget.limitBytes) return false
      this.#budget.usedBytes += PacketArena.blockBytes
      this.arena.addBlock()
    }
    if (this.count === this.#capacity) {
      const capacity = this.#budget.reserveMore(this.#capacity, (flows) => flows * FLOW_BYTES)
      if (capacity === this.#capacity) return false
      growFlowIdentity(this.identity, capacity)
      this.endReason = grown(this.endReason, new Uint8Array(capacity))
      this.#capacity = capacity
    }
    return true
  }

  outOfMemory(): void {
    throw new DataError(
      `the capture does not fit into ${this.#budget.limitBytes} bytes (${this.arena.count} packets in ` +
        `${this.count} flows do): take fewer or shorter captures, filter packets`,
      'memoryBytes',
      'or allow more memory',
    )
  }

  begin(flow: number, packet: PacketFields): void {
    copyIdentity(this.source, flow, this.identity, this.count)
    this.#numbers[flow] = this.count
    this.arena.push(this.count++, packet)
  }

  append(flow: number, packet: PacketFields): void {
    this.arena.push(this.#numbers[flow], packet)
  }

  end(flow: number, reason: EndReason): void {
    this.endReason[this.#numbers[flow]] = END_REASONS.indexOf(reason)
  }
}

const INITIAL_FLOWS = 64

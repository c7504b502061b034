/**
 * FlowCollector: packets in, whole flows out. The training half of this package, on the same tracker.
 *
 * Everything is kept, since the duration and the length to cut at are quantiles over all flows: 60 bytes a
 * packet and about 150 a flow, within a stated number of bytes. Beyond it training stops with an error:
 * leaving flows out would bend the quantiles in silence.
 *
 * Directional flows (the rules of the paper's authors) are collected by key and then sorted by time and split
 * at the idle timeout, as the authors' code does it: split-directional.ts.
 */
import type { PacketBatch } from '@oddflow/capture'
import {
  ArgumentError,
  DataError,
  type FlowKeyRule,
  type FlowProtocol,
  type SizeMeasure,
} from '@oddflow/core'
import type { CollectedFlows } from './collected-flows.js'
import {
  copyIdentity,
  createFlowIdentity,
  type FlowIdentity,
  growFlowIdentity,
  grown,
  IDENTITY_BYTES,
} from './flow-identity.js'
import { checkFlowProtocols } from './flow-protocols.js'
import { END_REASONS, type EndReason } from './flow-record.js'
import type { FlowSink } from './flow-sink.js'
import { FlowTracker } from './flow-tracker.js'
import { checkCount, createGate } from './gate.js'
import { MemoryBudget } from './memory-budget.js'
import { PacketArena } from './packet-arena.js'
import type { PacketFields } from './packet-fields.js'
import { splitDirectional } from './split-directional.js'

export interface FlowCollectorOptions {
  /** Which length of a packet is its size. Default frame. */
  readonly sizeMeasure?: SizeMeasure
  /** Default bidirectional-5-tuple. directional-5-tuple collects IPv4 alone, for idle-gap contracts. */
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

export interface FlowCollector {
  /**
   * Takes a batch; throws DataError when there is no memory left for it, ArgumentError where its count is not a number
   * of packets that it has room for, and after `finish`.
   */
  add(batch: PacketBatch): void
  /** Ends all flows; packets that follow are of another capture, which has its own flows. */
  endCapture(): void
  /** Ends all flows and returns them; the collector is empty and done after. */
  finish(): CollectedFlows
}

export const DEFAULT_IDLE_TIMEOUT_MICROS = 600_000_000
const DEFAULT_MEMORY_BYTES = 1024 * 1024 * 1024
const MINIMUM_MEMORY_BYTES = 1024 * 1024
const FLOW_BYTES = IDENTITY_BYTES + 1 + 16

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
      `memoryBytes: expected at least ${MINIMUM_MEMORY_BYTES}, found ${memoryBytes}`,
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
  const gate = createGate()
  return {
    add: (batch) => {
      checkCount(batch)
      gate.pass('add', () => tracker.add(batch))
    },
    endCapture: () => gate.pass('endCapture', () => tracker.endCapture()),
    finish: () => {
      gate.pass('finish', () => tracker.endCapture())
      gate.close()
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

/** Gives every flow a lasting number, in order of first packets, and keeps its packets under it. */
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
        `${this.count} flows do): take fewer or shorter captures, filter packets, or allow more memory`,
      'memoryBytes',
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

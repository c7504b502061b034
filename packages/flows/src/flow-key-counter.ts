/**
 * FlowKeyCounter: how many distinct flow keys a capture holds, by transport, with no timeouts.
 *
 * What `info` prints. Here every protocol has keys, those without ports with ports of 0.
 */
import { PACKET_OK, type PacketBatch } from '@oddflow/capture'
import { FlowTable, flowTableBytes } from './flow-table.js'
import { MemoryBudget } from './memory-budget.js'

export interface FlowKeyCounts {
  tcp: number
  udp: number
  /** ICMP and ICMPv6. */
  icmp: number
  sctp: number
  other: number
  /** Packets whose keys could not be told apart any more for lack of memory; 0 means that the counts are exact. */
  uncountedPackets: number
}

export interface FlowKeyCounter {
  readonly counts: FlowKeyCounts
  add(batch: PacketBatch): void
}

const INITIAL_FLOWS = 64
const DEFAULT_MEMORY_BYTES = 512 * 1024 * 1024

/** @param memoryBytes - bytes that the keys may take, about 100 each. Default 512 MiB. */
export function createFlowKeyCounter(memoryBytes = DEFAULT_MEMORY_BYTES): FlowKeyCounter {
  const budget = new MemoryBudget(memoryBytes)
  const table = new FlowTable(INITIAL_FLOWS, 0)
  budget.usedBytes += flowTableBytes(INITIAL_FLOWS)
  const counts: FlowKeyCounts = { tcp: 0, udp: 0, icmp: 0, sctp: 0, other: 0, uncountedPackets: 0 }
  return {
    counts,
    add(batch) {
      for (let i = 0; i < batch.count; i++) {
        if (batch.status[i] !== PACKET_OK || table.find(batch, i) >= 0) continue
        if (table.full) {
          const capacity = budget.reserveMore(table.capacity, flowTableBytes)
          if (capacity === table.capacity) {
            counts.uncountedPackets++
            continue
          }
          table.grow(capacity)
        }
        table.insert()
        counts[transportOf(batch.protocol[i])]++
      }
    },
  }
}

function transportOf(protocol: number): Exclude<keyof FlowKeyCounts, 'uncountedPackets'> {
  switch (protocol) {
    case 6:
      return 'tcp'
    case 17:
      return 'udp'
    case 1:
    case 58:
      return 'icmp'
    case 132:
      return 'sctp'
    default:
      return 'other'
  }
}

/** Packets written by hand, as batches of any size; and records kept as plain data. */
import {
  createPacketBatch,
  type PacketBatch,
  type PacketStatusName,
  packetStatusCode,
} from '@oddflow/capture'
import type { FlowContract, GatheringRules, IatSizeContract } from '@oddflow/core'
import {
  copyFlowRecord,
  createFlowCollector,
  createFlowExtractor,
  type FlowCounters,
  type FlowExtractorOptions,
  type FlowRecord,
} from '../../src/index.js'

export interface Packet {
  /** Seconds. */
  readonly t: number
  /** Host number and port of the two ends. */
  readonly from: readonly [number, number]
  readonly to: readonly [number, number]
  readonly bytes?: number
  readonly protocol?: number
  readonly version?: 4 | 6
  readonly status?: PacketStatusName
  readonly flags?: number
  readonly ttl?: number
  readonly vlan?: number
}

/** A TCP packet of more bytes carries data. */
const BARE_BYTES = 60

export function batchesOf(packets: readonly Packet[], size = 64): PacketBatch[] {
  const batches: PacketBatch[] = []
  for (let start = 0; start < packets.length; start += size) {
    const part = packets.slice(start, start + size)
    const batch = createPacketBatch(size)
    batch.count = part.length
    batch.firstFrame = start
    part.forEach((packet, i) => {
      batch.status[i] = packetStatusCode(packet.status ?? 'ok')
      batch.timestampMicros[i] = Math.round(packet.t * 1e6)
      batch.frameBytes[i] = packet.bytes ?? 60
      batch.ipBytes[i] = (packet.bytes ?? 60) - 14
      batch.capturedBytes[i] = Math.min(96, packet.bytes ?? 60)
      batch.tcpFlags[i] = packet.flags ?? 0
      batch.payloadBytes[i] = Math.max(0, (packet.bytes ?? 60) - BARE_BYTES)
      batch.hopLimit[i] = packet.ttl ?? 64
      batch.vlan[i] = packet.vlan ?? 0
      batch.ipVersion[i] = packet.version ?? 4
      batch.protocol[i] = packet.protocol ?? 6
      batch.sourceAddress[4 * i + 3] = 0x0a000000 + packet.from[0]
      batch.destinationAddress[4 * i + 3] = 0x0a000000 + packet.to[0]
      if (packet.version === 6) {
        // Hosts differ in the first word only, so that every word of an IPv6 key is seen to matter.
        batch.sourceAddress.set([0x20010000 + packet.from[0], 1, 2, 3], 4 * i)
        batch.destinationAddress.set([0x20010000 + packet.to[0], 1, 2, 3], 4 * i)
      }
      batch.sourcePort[i] = packet.from[1]
      batch.destinationPort[i] = packet.to[1]
      batch.sourceMac[6 * i + 5] = packet.from[0]
      batch.destinationMac[6 * i + 5] = packet.to[0]
    })
    batches.push(batch)
  }
  return batches
}

export function contractOf(changes: Partial<IatSizeContract> = {}): IatSizeContract {
  const packetsPerFlow = changes.packetsPerFlow ?? 4
  return {
    featureSet: 'iat-size',
    featureSetVersion: 1,
    dimension: 2 * packetsPerFlow - 1,
    packetsPerFlow,
    iatUnit: 'seconds',
    sizeMeasure: 'frame',
    flowKey: 'bidirectional-5-tuple',
    idleTimeoutMicros: 600_000_000,
    activeTimeoutMicros: null,
    truncation: { mode: 'split', durationMicros: 10_000_000 },
    minimumPackets: 2,
    scaler: 'none',
    ...changes,
  }
}

export interface Extracted {
  readonly records: FlowRecord[]
  readonly counters: FlowCounters
}

/** Streams batches through an extractor. */
export function extract(
  batches: readonly PacketBatch[],
  contract: FlowContract,
  options: Partial<FlowExtractorOptions> = {},
): Extracted {
  const records: FlowRecord[] = []
  const extractor = createFlowExtractor({
    contract,
    onRecord: (record) => records.push(copyFlowRecord(record)),
    // Enough for these tests, and quickly made again for each of many runs.
    memoryBytes: 4 * 1024 * 1024,
    ...options,
  })
  for (const batch of batches) extractor.add(batch)
  return { records, counters: extractor.finish() }
}

export function collect(
  batches: readonly PacketBatch[],
  contract: Partial<GatheringRules & Pick<FlowContract, 'featureSet'>> = {},
) {
  const endOnClose = contract.endOnClose ?? contract.featureSet === 'flow-summary'
  const collector = createFlowCollector({
    ...(contract.sizeMeasure === undefined ? {} : { sizeMeasure: contract.sizeMeasure }),
    ...(contract.flowKey === undefined ? {} : { flowKey: contract.flowKey }),
    ...(contract.idleTimeoutMicros === undefined ? {} : { idleTimeoutMicros: contract.idleTimeoutMicros }),
    ...(contract.protocols === undefined ? {} : { protocols: contract.protocols }),
    endOnClose,
    vlanKey: contract.vlanKey ?? false,
  })
  for (const batch of batches) collector.add(batch)
  return collector.finish()
}

/** Records in order of their first packets, which is the same order however they were made. */
export function inOrder(records: readonly FlowRecord[]): FlowRecord[] {
  return [...records].sort(
    (x, y) => x.captureIndex - y.captureIndex || x.firstPacketNumber - y.firstPacketNumber,
  )
}

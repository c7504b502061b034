/**
 * CaptureSummary: what a capture holds, in one record.
 *
 * First and last time are those of the first and last packet with a time in file order, as in tshark (capinfos sorts).
 * Flows are distinct unordered pairs of (address, port) with protocol and IP version, of the outer headers, without
 * timeouts. packets = keyedPackets + the sum over `skipped`.
 */
import type { CaptureDrops, CaptureEnd } from './capture-notes.js'
import { createFlowKeySet, type FlowCounts } from './flow-key-set.js'
import { linkTypeName } from './link-layer.js'
import { type FrameBatch, PACKET_OK, PACKET_STATUS_NAMES, type PacketBatch } from './packet-batch.js'
import { PacketCheck, type PacketCheckCounts } from './packet-check.js'
import { PacketOrder, type PacketOrderCounts } from './packet-order.js'

/** The contents of a capture: packets, bytes, times, link types, flows, and packets left out by reason. */
export interface CaptureSummary {
  /** Packets counted: packets that the filter kept, if there is one. */
  readonly packets: number
  /** All packets of the capture. */
  readonly readPackets: number
  /** Of these, the ones that belong to a flow. */
  readonly keyedPackets: number
  readonly wireBytes: number
  /** null if no packet has a time. */
  readonly firstTimestampMicros: number | null
  readonly lastTimestampMicros: number | null
  /** Packets by LINKTYPE_ name. */
  readonly linkTypes: Readonly<Record<string, number>>
  readonly flows: Readonly<FlowCounts>
  /** Packets whose flow was not counted because the flow set was full; 0 means that `flows` is exact. */
  readonly flowOverflowPackets: number
  /** How far the packets came in the order of their times. */
  readonly order: Readonly<PacketOrderCounts>
  /** Copies, wrong checksums, and hop limits that end. */
  readonly check: Readonly<PacketCheckCounts>
  /** Packets that belong to no flow, by reason. */
  readonly skipped: Readonly<Record<string, number>>
  readonly truncated: boolean
  readonly error: string | null
  /** One line on an ending that is not clean. */
  readonly detail: string | null
  readonly warnings: readonly string[]
  /** Comments in the capture. */
  readonly comments: number
  /** What the recorder says it lost; null if it says nothing. */
  readonly drops: CaptureDrops
}

/** Counts the packets of a capture, batch by batch, for a CaptureSummary. */
export interface CaptureSummariser {
  /** Adds a batch and its decoded packets; with `keep`, only the packets for which it is true. */
  add(frames: FrameBatch, packets: PacketBatch, keep?: (packets: PacketBatch, i: number) => boolean): void
  finish(
    end: Pick<CaptureEnd, 'truncated' | 'detail' | 'warnings' | 'commentCount' | 'drops'> & {
      error: Error | null
    },
  ): CaptureSummary
}

/**
 * The first two parameters are those of createFlowKeySet.
 * @param dropDuplicates - whether copies of a packet are in no flow, and counted in `skipped`
 */
export function createCaptureSummariser(
  maximumFlowKeys?: number,
  hashSeed?: number,
  dropDuplicates = false,
): CaptureSummariser {
  const keys = createFlowKeySet(maximumFlowKeys, hashSeed)
  const byStatus = new Float64Array(PACKET_STATUS_NAMES.length)
  const byLinkType = new Map<number, number>()
  const order = new PacketOrder(() => {})
  const check = new PacketCheck({ dropDuplicates, hashSeed: hashSeed ?? 0 })
  let packetCount = 0
  let readPackets = 0
  let wireBytes = 0
  let first = Number.NaN
  let last = Number.NaN
  return {
    add(frames, packets, keep) {
      let runType = -1
      let run = 0
      readPackets += packets.count
      order.add(packets)
      for (let i = 0; i < packets.count; i++) {
        if (keep !== undefined && !keep(packets, i)) continue
        check.look(frames, packets, i)
        packetCount++
        wireBytes += packets.frameBytes[i]!
        const time = packets.timestampMicros[i]!
        if (!Number.isNaN(time)) {
          if (Number.isNaN(first)) first = time
          last = time
        }
        const status = packets.status[i]!
        byStatus[status]!++
        if (status === PACKET_OK) keys.add(packets, i)
        const linkType = frames.linkType[i]!
        if (linkType !== runType) {
          if (run > 0) byLinkType.set(runType, (byLinkType.get(runType) ?? 0) + run)
          runType = linkType
          run = 0
        }
        run++
      }
      if (run > 0) byLinkType.set(runType, (byLinkType.get(runType) ?? 0) + run)
    },
    finish(end) {
      order.finish()
      const skipped: Record<string, number> = {}
      PACKET_STATUS_NAMES.forEach((name, code) => {
        if (code !== PACKET_OK && byStatus[code]! > 0) skipped[name] = byStatus[code]!
      })
      const linkTypes: Record<string, number> = {}
      for (const [type, count] of byLinkType) linkTypes[linkTypeName(type)] = count
      return {
        packets: packetCount,
        readPackets,
        keyedPackets: byStatus[PACKET_OK]!,
        wireBytes,
        firstTimestampMicros: Number.isNaN(first) ? null : first,
        lastTimestampMicros: Number.isNaN(last) ? null : last,
        linkTypes,
        flows: { ...keys.counts },
        order: { ...order.counts },
        check: { ...check.counts },
        flowOverflowPackets: keys.overflow,
        skipped,
        truncated: end.truncated,
        error: end.error === null ? null : end.error.message,
        detail: end.detail,
        warnings: end.warnings,
        comments: end.commentCount,
        drops: { ...end.drops },
      }
    },
  }
}

/** A flow as users of the library see it. */
import { formatAddress } from '@oddflow/capture'
import type { FlowContract } from '@oddflow/core'
import { copyFlowRecord, type EndReason, type FlowRecord, protocolName } from '@oddflow/flows'
import { macText } from '@oddflow/program'

/** One end of a flow. */
export interface FlowEnd {
  /** IPv4 or IPv6 address as text. */
  readonly address: string
  /** Port; of ICMP the type or the code. */
  readonly port: number
  /** MAC address as text, null where the link has none. */
  readonly mac: string | null
  /** Packets that this end sent. */
  readonly packets: number
  /** Bytes that this end sent: the sum of the lengths in the IP headers. */
  readonly bytes: number
}

/** A flow, or one piece of a flow that lasts longer than the active timeout. */
export interface Flow {
  /** Number of the source that the flow is from, from 0. */
  readonly source: number
  /** 0 for the first piece of a flow, 1 for the next. */
  readonly piece: number
  /** "tcp", "udp", "icmp", "icmpv6" or "sctp". */
  readonly protocol: string
  /** Time of the first packet, microseconds since 1970. */
  readonly startMicros: number
  /** From the first packet to the last, microseconds. */
  readonly durationMicros: number
  /** The end that sent the first packet. */
  readonly initiator: FlowEnd
  readonly responder: FlowEnd
  /** VLAN identifier, 0 where there is none. */
  readonly vlan: number
  readonly endReason: EndReason
  /** The numbers that a model scores; null where the model's feature set has none for this flow. */
  readonly features: Float64Array | null
}

/** What a flow was made of, and under which contract. */
export interface FlowOrigin {
  readonly record: FlowRecord
  readonly contract: FlowContract
}

/** A Flow that keeps its record, which a verdict and training need. */
export class CapturedFlow implements Flow {
  readonly source: number
  readonly piece: number
  readonly protocol: string
  readonly startMicros: number
  readonly durationMicros: number
  readonly initiator: FlowEnd
  readonly responder: FlowEnd
  readonly vlan: number
  readonly endReason: EndReason
  readonly features: Float64Array | null
  readonly #origin: FlowOrigin

  /** @param borrowed - is copied. */
  constructor(borrowed: FlowRecord, contract: FlowContract) {
    const record = copyFlowRecord(borrowed)
    this.source = record.captureIndex
    this.piece = record.pieceIndex
    this.protocol = protocolName(record.protocol)
    this.startMicros = record.startMicros
    this.durationMicros = record.durationMicros
    this.initiator = {
      address: formatAddress(record.initiatorAddress, 0, record.ipVersion),
      port: record.initiatorPort,
      mac: macText(record.initiatorMac),
      packets: record.initiatorPackets,
      bytes: record.initiatorIpBytes,
    }
    this.responder = {
      address: formatAddress(record.responderAddress, 0, record.ipVersion),
      port: record.responderPort,
      mac: macText(record.responderMac),
      packets: record.responderPackets,
      bytes: record.responderIpBytes,
    }
    this.vlan = record.vlan
    this.endReason = record.endReason
    this.features = record.row
    this.#origin = { record, contract }
  }

  /** undefined for anything that `readFlows` did not make. */
  static originOf(value: unknown): FlowOrigin | undefined {
    if (typeof value !== 'object' || value === null || !(#origin in value)) return undefined
    return value.#origin
  }
}

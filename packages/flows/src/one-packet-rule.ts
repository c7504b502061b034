/**
 * The verdict on a flow of one packet (core: OnePacketRule). It has no interarrival time and makes no row, but a scan
 * consists of such flows. It is normal if and only if training had one-packet flows to the same service.
 */

import type { PacketBatch } from '@oddflow/capture'
import { ArgumentError, type OnePacketRule } from '@oddflow/core'
import type { CollectedFlows } from './flow-collector.js'
import { ICMP, ICMPV6, protocolName } from './flow-counters.js'
import { type FlowRecord, protocolOfKey } from './flow-record.js'

/**
 * Gate: stops calls from inside a call, or after the end, at once: a callback that adds packets to its extractor would
 * change flows during the call, and packets after `finish` would belong to no capture.
 */
export class Gate {
  isClosed = false
  #isInside = false

  /** Runs `work` and returns its result. Throws ArgumentError while other work is running, and once closed. */
  pass<T>(name: string, work: () => T): T {
    if (this.isClosed) throw new ArgumentError(`${name}: all flows have ended with finish; make another one`)
    if (this.#isInside) throw new ArgumentError(`${name}: called by a callback of the same object`)
    this.#isInside = true
    try {
      return work()
    } finally {
      this.#isInside = false
    }
  }
}

/** Throws ArgumentError if the batch's count is not a number of packets it has room for. */
export function checkCount({ count, status }: PacketBatch): void {
  if (Number.isInteger(count) && count >= 0 && count <= status.length) return
  throw new ArgumentError(
    `batch.count: expected a whole number from 0 to ${status.length}, found ${count}`,
    'batch',
  )
}

/** A rule names at most this many services, the most frequent ones. */
export const MAXIMUM_SERVICES = 1024

/** "tcp/443": protocol and the lower of the two ports; "icmp/8": ICMP and the type of the first message. */
export function serviceName(protocol: number, initiatorPort: number, responderPort: number): string {
  const isIcmp = protocol === ICMP || protocol === ICMPV6
  return `${protocolName(protocol)}/${isIcmp ? initiatorPort : Math.min(initiatorPort, responderPort)}`
}

/** Learns from all one-packet flows of the training data; equal frequencies are ordered by name. */
export function learnOnePacketRule(flows: CollectedFlows): OnePacketRule {
  const counts = new Map<string, number>()
  let total = 0
  for (let f = 0; f < flows.count; f++) {
    if (flows.packetOffset[f + 1] - flows.packetOffset[f] !== 1) continue
    total++
    const head = flows.identity.keys[flows.identity.keyStride * f]
    const ports = flows.identity.keys[flows.identity.keyStride * f + 1]
    const swapped = flows.identity.swapped[f] === 1
    const [a, b] = [ports >>> 16, ports & 0xffff]
    const service = serviceName(protocolOfKey(head), swapped ? b : a, swapped ? a : b)
    counts.set(service, (counts.get(service) ?? 0) + 1)
  }
  const frequent = [...counts].sort((x, y) => y[1] - x[1] || compare(x[0], y[0])).slice(0, MAXIMUM_SERVICES)
  return { flows: total, services: frequent.map(([service]) => service).sort(compare) }
}

/** True if a record without a row for the reason `one-packet` is novel under the rule. */
export function judgeOnePacket(
  rule: OnePacketRule,
  record: Pick<FlowRecord, 'protocol' | 'initiatorPort' | 'responderPort'>,
): boolean {
  return !rule.services.includes(serviceName(record.protocol, record.initiatorPort, record.responderPort))
}

/** By UTF-16 code unit, so that the order is the same everywhere. */
function compare(x: string, y: string): number {
  return x < y ? -1 : x > y ? 1 : 0
}

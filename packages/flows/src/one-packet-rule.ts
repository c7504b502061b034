/**
 * The verdict on a flow of one packet (core: OnePacketRule).
 *
 * Such a flow has no interarrival time and makes no row, but a scan is made of nothing else, so silence would
 * be blindness. The rule: normal if and only if training saw one-packet flows to the same service, a service
 * being the protocol and the lower of the two ports, and with ICMP the type of its message. Only whole flows count here; the single packet that may
 * be left of a long flow after its last window is no flow of one packet and gets no verdict of its own.
 */

import type { PacketBatch } from '@oddflow/capture'
import { ArgumentError, type OnePacketRule } from '@oddflow/core'
import type { CollectedFlows } from './flow-collector.js'
import { ICMP, ICMPV6, protocolName } from './flow-counters.js'
import { type FlowRecord, protocolOfKey } from './flow-record.js'

/**
 * Gate: what keeps a caller from entering where it is already inside, or after the end.
 *
 * A callback that adds packets to the extractor that calls it would change flows under its feet, and packets after
 * `finish` would be of no capture. Neither is a matter of input: it is told by name, at once.
 */

interface Gate {
  readonly isClosed: boolean
  /** Does `work` and gives what it gives. Throws ArgumentError while another work is being done, and once closed. */
  pass<T>(name: string, work: () => T): T
  close(): void
}

export function createGate(): Gate {
  let isClosed = false
  let isInside = false
  return {
    get isClosed() {
      return isClosed
    },
    pass(name, work) {
      if (isClosed) throw new ArgumentError(`${name}: all flows have ended with finish; make another one`)
      if (isInside) throw new ArgumentError(`${name}: called by a callback of the same object`)
      isInside = true
      try {
        return work()
      } finally {
        isInside = false
      }
    },
    close() {
      isClosed = true
    },
  }
}

/** Throws ArgumentError where the batch's count is not a number of packets that it has room for. */
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

/** Learns from all one-packet flows of the training data; ties in frequency go by name. */
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

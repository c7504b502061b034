/**
 * Transports of which flows are made, by name and by IANA protocol number.
 *
 * TCP, UDP and SCTP have ports. ICMP and ICMPv6 have none: type and code stand in their place, a question's type
 * with its answer's (@oddflow/capture, icmp.ts), so that all pings of one host to another are one flow, and each
 * kind of error message one for each direction. Other transports make no flows; their packets are counted.
 */
import { ArgumentError, DEFAULT_FLOW_PROTOCOLS, FLOW_PROTOCOLS, type FlowProtocol } from '@oddflow/core'

export const TCP = 6
export const UDP = 17
export const ICMP = 1
export const ICMPV6 = 58
export const SCTP = 132

const NUMBERS: Readonly<Record<FlowProtocol, readonly number[]>> = {
  tcp: [TCP],
  udp: [UDP],
  icmp: [ICMP, ICMPV6],
  sctp: [SCTP],
}

const NAMES: Readonly<Record<number, string>> = {
  [TCP]: 'tcp',
  [UDP]: 'udp',
  [ICMP]: 'icmp',
  [ICMPV6]: 'icmpv6',
  [SCTP]: 'sctp',
}

/** "tcp", "udp", "icmp", "icmpv6", "sctp"; the number of any other. */
export function protocolName(protocol: number): string {
  return NAMES[protocol] ?? String(protocol)
}

/** In the order of FLOW_PROTOCOLS, each once. Throws ArgumentError. */
export function checkFlowProtocols(
  protocols: readonly FlowProtocol[] = DEFAULT_FLOW_PROTOCOLS,
): readonly FlowProtocol[] {
  const unknown = protocols.find((name) => !FLOW_PROTOCOLS.includes(name))
  if (unknown !== undefined || protocols.length === 0) {
    throw new ArgumentError(
      `protocols: expected some of ${FLOW_PROTOCOLS.join(', ')}, found ${unknown ?? 'none'}`,
      'protocols',
    )
  }
  return FLOW_PROTOCOLS.filter((name) => protocols.includes(name))
}

/** For each protocol number, 1 where its packets make flows. */
export function flowProtocolTable(protocols: readonly FlowProtocol[]): Uint8Array {
  const table = new Uint8Array(256)
  for (const name of protocols) for (const number of NUMBERS[name]) table[number] = 1
  return table
}

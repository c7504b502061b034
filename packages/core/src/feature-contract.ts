import { FormatError } from './errors.js'
import type { PacketContract, PacketFeatureSet } from './packet-feature-sets.js'

/**
 * Checks a OnePacketRule (see feature-contract.ts) that was read from a file.
 */

/** Most services that a rule lists. */
export const MAXIMUM_ONE_PACKET_SERVICES = 1024

const SERVICE = /^[a-z0-9-]{1,16}\/\d{1,5}$/

/** Throws FormatError naming the field. Services must be sorted and different. */
export function checkOnePacketRule(value: unknown): OnePacketRule {
  const fail = (field: string, expected: string): never => {
    throw new FormatError('model-file', `onePacketRule.${field}: expected ${expected}`, {
      field: `onePacketRule.${field}`,
    })
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new FormatError('model-file', 'onePacketRule: expected an object', { field: 'onePacketRule' })
  }
  const { flows, services, ...rest } = value as Record<string, unknown>
  for (const field of Object.keys(rest)) fail(field, 'no such field')
  if (typeof flows !== 'number' || !Number.isSafeInteger(flows) || flows < 0) {
    return fail('flows', 'a whole number of 0 or more')
  }
  if (!Array.isArray(services) || services.length > MAXIMUM_ONE_PACKET_SERVICES) {
    return fail('services', `a list of at most ${MAXIMUM_ONE_PACKET_SERVICES}`)
  }
  const names = services.map((service: unknown, i) => {
    if (typeof service !== 'string' || !SERVICE.test(service)) {
      return fail(`services[${i}]`, 'protocol/port, for example udp/1900')
    }
    return service
  })
  for (let i = 1; i < names.length; i++) {
    if (!(names[i - 1]! < names[i]!)) fail(`services[${i}]`, 'services in order, each once')
  }
  return { flows, services: names }
}

/**
 * FeatureContract: what must be equal for a row to mean the same as at training.
 *
 * Flows make rows, detectors consume them, and neither imports the other. Every model file has a contract; flow extraction
 * follows it, and a model refuses rows made under another one. Rows from a file of numbers have the short form, featureSet
 * `rows`, which states only the width D. All other feature sets share the rules that make flows of packets
 * (GatheringRules); those made of single packets add where a flow is cut (FlowRules). Checks: check-feature-contract.ts.
 */

export type IatUnit = 'seconds' | 'microseconds'
/** Wire length of the frame, length in the IP header, bytes after the transport header, or captured bytes of the frame. */
export type SizeMeasure = 'frame' | 'ip' | 'payload' | 'captured'
/** What becomes of a flow at the contract's duration: cut off, split into pieces, or split at idle gaps. */
export type TruncationMode = 'truncate' | 'split' | 'idle-gap'
/**
 * - bidirectional-5-tuple: unordered pair of (address, port) with protocol and IP version; the first packet's
 *   source initiates;
 * - directional-5-tuple: ordered pair, IPv4 alone (the rules of the paper's authors' code).
 */
export type FlowKeyRule = 'bidirectional-5-tuple' | 'directional-5-tuple'
/** Whose headers key a packet: those of the outermost IP packet, or of the innermost one within tunnels. */
export type Decapsulation = 'outer' | 'inner'
/** Transports of which there are flows; `icmp` is ICMP and ICMPv6. */
export const FLOW_PROTOCOLS = ['tcp', 'udp', 'icmp', 'sctp'] as const
/** One of FLOW_PROTOCOLS. */
export type FlowProtocol = (typeof FLOW_PROTOCOLS)[number]
/** Those of which flows make rows unless a contract says otherwise, as in the paper. */
export const DEFAULT_FLOW_PROTOCOLS: readonly FlowProtocol[] = ['tcp', 'udp']
/** Rows of numbers of unknown making. */
export interface RowsContract {
  readonly featureSet: 'rows'
  readonly featureSetVersion: 1
  /** D, the width of a row. */
  readonly dimension: number
  /** The name of what a detector does to rows first; @oddflow/detectors knows the names. */
  readonly scaler: string
}

/** How packets become flows, whatever the features. */
export interface GatheringRules {
  readonly featureSetVersion: 1
  /** D; `featureDimension` says what it must be. */
  readonly dimension: number
  readonly sizeMeasure: SizeMeasure
  /** directional-5-tuple and truncation mode idle-gap go together: the authors' rules. */
  readonly flowKey: FlowKeyRule
  /** A gap longer than this ends a flow (a gap of exactly this length does not). */
  readonly idleTimeoutMicros: number
  /** A flow older than this is ended by its next packet; null for no such limit. */
  readonly activeTimeoutMicros: number | null
  /** Records of fewer packets make no row. */
  readonly minimumPackets: number
  readonly scaler: string
  /**
   * This and the following fields are absent if they have their usual value, so that older contracts keep their meaning;
   * `packetView`, `contractProtocols` and `endsOnClose` give the values.
   */
  readonly decapsulation?: Decapsulation
  /** Later fragments are packets of their datagram's flow. */
  readonly joinFragments?: boolean
  /** In the order of FLOW_PROTOCOLS. */
  readonly protocols?: readonly FlowProtocol[]
  /**
   * A TCP flow ends half a second after it closed (an RST, or a FIN of each end that has sent packets), and a SYN after a
   * FIN or RST begins another. Usual in flow-summary, and nowhere else.
   */
  readonly endOnClose?: boolean
  /** The outermost VLAN tag is part of the key. */
  readonly vlanKey?: boolean
}

/** How packets become records whose rows are made of the records' single packets. */
export interface FlowRules extends GatheringRules {
  /** p, the 90th percentile of packets per flow record in the training data, at least 2. */
  readonly packetsPerFlow: number
  readonly truncation: {
    /**
     * `truncate` drops what comes after the duration (the paper), `split` starts the next record there,
     * `idle-gap` starts one after a gap longer than the duration and drops a cut flow's last (the authors).
     */
    readonly mode: TruncationMode
    /** The 90th percentile of flow durations in the training data. */
    readonly durationMicros: number
    /** In idle-gap, and there alone, the duration that cuts: authors' times are floats of seconds. */
    readonly durationSeconds?: number
  }
}

/** How frames were decoded, in a contract's words. */
export interface PacketView {
  readonly decapsulation: Decapsulation
  readonly joinFragments: boolean
}

/** The view of a contract. Default outer headers, fragments not joined. */
export function packetView(rules: Pick<GatheringRules, 'decapsulation' | 'joinFragments'>): PacketView {
  return { decapsulation: rules.decapsulation ?? 'outer', joinFragments: rules.joinFragments ?? false }
}

/** The transports whose flows make rows under a contract. */
export function contractProtocols(rules: Pick<GatheringRules, 'protocols'>): readonly FlowProtocol[] {
  return rules.protocols ?? DEFAULT_FLOW_PROTOCOLS
}

/** Whether TCP flows end when they close, under a contract. */
export function endsOnClose(contract: FlowContract): boolean {
  return contract.endOnClose ?? isCloseUsual(contract.featureSet)
}

/** The last two fields, without default values. */
export function connectionRules(
  featureSet: FlowFeatureSet,
  { endOnClose = isCloseUsual(featureSet), vlanKey = false }: Pick<GatheringRules, 'endOnClose' | 'vlanKey'>,
): Pick<GatheringRules, 'endOnClose' | 'vlanKey'> {
  return {
    ...(endOnClose === isCloseUsual(featureSet) ? {} : { endOnClose }),
    ...(vlanKey ? { vlanKey } : {}),
  }
}

function isCloseUsual(featureSet: FlowFeatureSet): boolean {
  return featureSet === 'flow-summary'
}

/** The fields on packets, without default values. */
export function packetRules(
  view: PacketView,
  protocols: readonly FlowProtocol[],
): Pick<GatheringRules, 'decapsulation' | 'joinFragments' | 'protocols'> {
  const ordered = FLOW_PROTOCOLS.filter((name) => protocols.includes(name))
  return {
    ...(view.decapsulation === 'outer' ? {} : { decapsulation: view.decapsulation }),
    ...(view.joinFragments ? { joinFragments: true } : {}),
    ...(ordered.join() === DEFAULT_FLOW_PROTOCOLS.join() ? {} : { protocols: ordered }),
  }
}

/**
 * One row of fixed size a record, from running sums: payload sizes and times of the whole record as logarithms, first
 * payloads, transport, whether a SYN went unanswered, and the service. Payload sizes do not depend on the capture
 * point. A record of one packet has a row too.
 */
export interface FlowSummaryContract extends GatheringRules {
  readonly featureSet: 'flow-summary'
  readonly sizeMeasure: 'payload'
  readonly flowKey: 'bidirectional-5-tuple'
  readonly minimumPackets: 1
}

/** A contract whose rows are made from flows. */
export type FlowContract = PacketContract | FlowSummaryContract

/** How feature rows were made, as a model file keeps it: rows of unknown making, or rows of flows. */
export type FeatureContract = RowsContract | FlowContract
/** The names of feature sets that are made from flows. */
export type FlowFeatureSet = PacketFeatureSet | 'flow-summary'

/** Columns of a flow summary, the service included. */
export const FLOW_SUMMARY_DIMENSION = 20

/** Widest row that a model may have: bounds what a hostile file can make a reader allocate. */
export const MAXIMUM_DIMENSION = 65_535
/**
 * The verdict on a flow of one packet, which has no interarrival time and so makes no row: it is normal if
 * and only if one-packet flows to the same service were seen in training. A service is "protocol/port" with
 * the lower of the two ports, for example "udp/1900".
 */
export interface OnePacketRule {
  /** One-packet flows in the training data, kept or not. */
  readonly flows: number
  /** Sorted, at most 1,024: the most frequent ones. */
  readonly services: readonly string[]
}

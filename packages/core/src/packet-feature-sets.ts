/**
 * The feature sets whose rows are made of a record's single packets, each stated once: its contract, its width, its
 * columns, and what may be asked of it. How a row is computed stands in @oddflow/flows.
 */
import {
  type FlowFeatureSet,
  type FlowRules,
  type IatUnit,
  MAXIMUM_DIMENSION,
  type TruncationMode,
} from './feature-contract.js'

/** Most windows of a SAMP row. */
export const MAXIMUM_SAMP_WINDOWS = 500
/** Columns of a header-bits row for one packet. */
export const HEADER_BITS_PER_PACKET = 77
/** Columns of a stats-header row beside the TTLs: flag counts in front, statistics behind. */
export const HEADER_FLAG_COUNTS = 8
/** Numbers in a row of stats-header that describe the flow as a whole. */
export const FLOW_STATISTICS = 10
/** Most packets that a stats-header contract may keep of one record. */
export const MAXIMUM_PACKETS_KEPT = 1_048_576

/** Name and unit of one column of feature rows. */
export interface FeatureColumn {
  /** Letters, digits and "_". */
  readonly name: string
  /** "s", "us", "bytes", "packets", "packets_per_s", …; empty if unknown. */
  readonly unit: string
}

/** What training may be asked about one feature set and not another. */
export type FeatureSetOption = 'iatUnit' | 'samplingQuantile' | 'headerPackets' | 'packetsKept'

/** A contract's fields before they are checked. */
export interface OwnFields {
  readonly record: Readonly<Record<string, unknown>>
  whole(field: string, low: number, high: number): number
  positive(field: string): number
  one<T extends string>(field: string, allowed: readonly T[]): T
  absent(field: string, expected: string): void
}

/** `Contract` is the feature set's own. */
interface PacketFeatureSetDefinition<Contract extends FlowRules> {
  /** For people: "IAT+SIZE". */
  readonly title: string
  /** Whether rows hold sizes, which the size measure decides. */
  readonly hasSizes: boolean
  readonly options: readonly FeatureSetOption[]
  /** D of rows that hold p packets. */
  dimension(packetsPerFlow: number, mode: TruncationMode): number
  /** The largest p whose rows are no wider than a model may have. */
  readonly maximumPackets: number
  columns(contract: Contract): FeatureColumn[]
  /** Patterns of the columns' labels: "size\\d+_bytes". */
  readonly labels: readonly string[]
  /** What a row is made of, in words; `packets` is "the first 12 packets", `sizes` "frame bytes". */
  describe(contract: Contract, packets: string, sizes: string): string
  /** Fields of the contract beside those of FlowRules. */
  readonly ownFields: readonly string[]
  checkOwn(fields: OwnFields, rules: FlowRules): object
}

// ---- the feature sets, one by one

const IAT_UNIT = {
  ownFields: ['iatUnit'],
  checkOwn: (fields: OwnFields) => ({ iatUnit: fields.one('iatUnit', ['seconds', 'microseconds']) }),
}
const NO_FIELDS = { ownFields: [], checkOwn: () => ({}) }

/**
 * IAT+SIZE rows: iat1, size1, …, iat(n−1), size(n−1), size(n) of a record's n packets, zero-padded or cut to
 * D = 2p − 1 columns; so the last column is size(p) for n = p, and iat(p) for n > p, as in the authors' rows.
 */
export interface IatSizeContract extends FlowRules {
  readonly featureSet: 'iat-size'
  readonly iatUnit: IatUnit
}

const iatSize: PacketFeatureSetDefinition<IatSizeContract> = {
  title: 'IAT+SIZE',
  hasSizes: true,
  options: ['iatUnit'],
  dimension: (p) => 2 * p - 1,
  maximumPackets: (MAXIMUM_DIMENSION + 1) / 2,
  columns({ dimension, iatUnit }) {
    const iats = numberedColumns('iat', timeUnit(iatUnit), dimension)
    const sizes = numberedColumns('size', 'bytes', dimension)
    return iats.flatMap((iat, i) => [iat, sizes[i]!]).filter((_, i) => i < dimension - 1 || i === dimension)
  },
  labels: ['iat\\d+_u?s', 'size\\d+_bytes'],
  describe: ({ iatUnit }, packets, sizes) => `${packets}, ${iatUnit}, ${sizes}`,
  ...IAT_UNIT,
}

/** The first p − 1 interarrival times, zero-padded. */
export interface IatContract extends FlowRules {
  readonly featureSet: 'iat'
  readonly iatUnit: IatUnit
}

const iat: PacketFeatureSetDefinition<IatContract> = {
  title: 'IAT',
  hasSizes: false,
  options: ['iatUnit'],
  dimension: (p) => p - 1,
  maximumPackets: MAXIMUM_DIMENSION,
  columns: ({ dimension, iatUnit }) => numberedColumns('iat', timeUnit(iatUnit), dimension),
  labels: ['iat\\d+_u?s'],
  describe: ({ iatUnit }, packets) => `${packets}, ${iatUnit}`,
  ...IAT_UNIT,
}

/** The first p sizes in bytes, zero-padded. */
export interface SizeContract extends FlowRules {
  readonly featureSet: 'size'
}

const size: PacketFeatureSetDefinition<SizeContract> = {
  title: 'SIZE',
  hasSizes: true,
  options: [],
  dimension: (p) => p,
  maximumPackets: MAXIMUM_DIMENSION,
  columns: ({ dimension }) => numberedColumns('size', 'bytes', dimension),
  labels: ['size\\d+_bytes'],
  describe: (_, packets, sizes) => `${packets}, ${sizes}`,
  ...NO_FIELDS,
}

const FLAGS = ['fin', 'syn', 'rst', 'psh', 'ack', 'urg', 'ece', 'cwr']
const SIZE_STATISTICS = ['mean', 'sd', 'q1', 'q2', 'q3', 'min', 'max']
/** Of the columns of flags and statistics, in either unit of time. */
const STATISTICS_LABELS = [...flags(), ...statistics('s'), ...statistics('us')].map(
  ({ name, unit }) => `${name}_${unit}`,
)

/**
 * STATS+HEADER: eight counts of TCP flags, the TTL (hop limit) of the first p packets, zero-padded, then ten
 * statistics of the record's first `packetsKept` packets. D = 8 + p + 10.
 */
export interface StatsHeaderContract extends FlowRules {
  readonly featureSet: 'stats-header'
  /** Of the duration and of the two rates. */
  readonly iatUnit: IatUnit
  /** Packets of a record that the counts and statistics are about, at least p. */
  readonly packetsKept: number
}

const statsHeader: PacketFeatureSetDefinition<StatsHeaderContract> = {
  title: 'STATS+HEADER',
  hasSizes: true,
  options: ['iatUnit', 'packetsKept'],
  dimension: (p) => HEADER_FLAG_COUNTS + p + FLOW_STATISTICS,
  maximumPackets: MAXIMUM_DIMENSION - HEADER_FLAG_COUNTS - FLOW_STATISTICS,
  columns: ({ dimension, iatUnit }) => [
    ...flags(),
    ...numberedColumns('ttl', 'hops', dimension - HEADER_FLAG_COUNTS - FLOW_STATISTICS),
    ...statistics(timeUnit(iatUnit)),
  ],
  labels: ['ttl\\d+_hops', ...STATISTICS_LABELS],
  describe: ({ packetsKept, iatUnit }, packets, sizes) =>
    `flags and statistics of ${packetsKept} packets at most, ${iatUnit}, ${sizes}; TTLs of ${packets}`,
  ownFields: ['iatUnit', 'packetsKept'],
  checkOwn(fields, { packetsPerFlow }) {
    const packetsKept = fields.whole('packetsKept', packetsPerFlow, MAXIMUM_PACKETS_KEPT)
    return { ...IAT_UNIT.checkOwn(fields), packetsKept }
  },
}

/**
 * SAMP-SIZE and SAMP-NUM: bytes, or packets, in windows of equal length from the record's first packet on.
 * D = p, at most 500; p − 1 in idle-gap.
 */
export interface SampContract extends FlowRules {
  readonly featureSet: 'samp-size' | 'samp-num'
  /** Length of a window; may have a fraction. */
  readonly samplingIntervalMicros: number
  /** In idle-gap, and there alone, the length that counts, a float of seconds. */
  readonly samplingIntervalSeconds?: number
}

const samp = (title: string, unit: 'bytes' | 'packets'): PacketFeatureSetDefinition<SampContract> => ({
  title,
  hasSizes: unit === 'bytes',
  options: ['samplingQuantile'],
  dimension: (p, mode) => (mode === 'idle-gap' ? p - 1 : Math.min(p, MAXIMUM_SAMP_WINDOWS)),
  maximumPackets: MAXIMUM_DIMENSION,
  columns: ({ dimension }) => numberedColumns('window', unit, dimension),
  labels: [`window\\d+_${unit}`],
  describe: ({ dimension, samplingIntervalMicros }, _, sizes) =>
    `${dimension} ${dimension === 1 ? 'window' : 'windows'} of ${samplingIntervalMicros / 1e6} s, ${unit === 'bytes' ? sizes : unit}`,
  ownFields: ['samplingIntervalMicros', 'samplingIntervalSeconds'],
  checkOwn(fields, { truncation }) {
    const samplingIntervalMicros = fields.positive('samplingIntervalMicros')
    if (truncation.mode !== 'idle-gap') {
      fields.absent('samplingIntervalSeconds', 'nothing outside idle-gap')
      return { samplingIntervalMicros }
    }
    return { samplingIntervalMicros, samplingIntervalSeconds: fields.positive('samplingIntervalSeconds') }
  },
})

/** Header fields of a packet with their bits, as feature-sets/stats-header.ts of the flows lays them out. */
const HEADER_FIELDS: readonly (readonly [string, number])[] = [
  ['direction', 1],
  ['version', 4],
  ['length', 16],
  ['ttl', 8],
  ['protocol', 8],
  ['source_port', 16],
  ['destination_port', 16],
  ['tcp_flags', 8],
]

/** Bits of header fields of the first p packets, −1 where there is none. D = 77 p. */
export interface HeaderBitsContract extends FlowRules {
  readonly featureSet: 'header-bits'
}

const headerBits: PacketFeatureSetDefinition<HeaderBitsContract> = {
  title: 'header bits',
  hasSizes: false,
  options: ['headerPackets'],
  dimension: (p) => HEADER_BITS_PER_PACKET * p,
  maximumPackets: Math.floor(MAXIMUM_DIMENSION / HEADER_BITS_PER_PACKET),
  columns: ({ packetsPerFlow }) => Array.from({ length: packetsPerFlow }, (_, i) => bitsOf(i + 1)).flat(),
  labels: [`p\\d+_(?:${HEADER_FIELDS.map(([field]) => field).join('|')})(?:_\\d+)?_bit`],
  describe: (_, packets) => packets,
  ...NO_FIELDS,
}

// ---- all of them

const PACKET_SETS = {
  'iat-size': iatSize,
  iat,
  size,
  'stats-header': statsHeader,
  'samp-size': samp('SAMP-SIZE', 'bytes'),
  'samp-num': samp('SAMP-NUM', 'packets'),
  'header-bits': headerBits,
}

/** The names of feature sets that describe a flow's single packets. */
export type PacketFeatureSet = keyof typeof PACKET_SETS

type ContractIn<Definition> = Definition extends PacketFeatureSetDefinition<infer Contract> ? Contract : never

/** A contract whose rows are made of a record's single packets. */
export type PacketContract = ContractIn<(typeof PACKET_SETS)[PacketFeatureSet]>

/** The feature sets that describe a flow's single packets. */
export const PACKET_FEATURE_SETS = Object.keys(PACKET_SETS) as readonly PacketFeatureSet[]
/** All feature sets that are made from flows. */
export const FLOW_FEATURE_SETS: readonly FlowFeatureSet[] = [...PACKET_FEATURE_SETS, 'flow-summary']

// a contract is only ever given to the definition of its own feature set
/** The definition of a feature set of single packets: its dimension, columns and options. */
export function packetFeatureSet(name: PacketFeatureSet): PacketFeatureSetDefinition<PacketContract> {
  return PACKET_SETS[name] as unknown as PacketFeatureSetDefinition<PacketContract>
}

/** D of a feature set whose rows hold p = `packetsPerFlow` packets. */
export function featureDimension(
  featureSet: PacketFeatureSet,
  packetsPerFlow: number,
  mode: TruncationMode,
): number {
  return packetFeatureSet(featureSet).dimension(packetsPerFlow, mode)
}

/** The largest p whose rows are no wider than a model may have. */
export function maximumPacketsPerFlow(featureSet: PacketFeatureSet): number {
  return packetFeatureSet(featureSet).maximumPackets
}

// ---- columns

/** "iat1", "iat2", …: `count` of them. */
export function numberedColumns(name: string, unit: string, count: number): FeatureColumn[] {
  return Array.from({ length: count }, (_, i) => ({ name: `${name}${i + 1}`, unit }))
}

function timeUnit(unit: IatUnit): 's' | 'us' {
  return unit === 'seconds' ? 's' : 'us'
}

function flags(): FeatureColumn[] {
  return FLAGS.map((flag) => ({ name: flag, unit: 'packets' }))
}

function statistics(time: 's' | 'us'): FeatureColumn[] {
  return [
    { name: 'duration', unit: time },
    { name: 'rate', unit: `packets_per_${time}` },
    { name: 'throughput', unit: `bytes_per_${time}` },
    ...SIZE_STATISTICS.map((name) => ({ name: `size_${name}`, unit: 'bytes' })),
  ]
}

function bitsOf(packet: number): FeatureColumn[] {
  return HEADER_FIELDS.flatMap(([field, bits]) =>
    Array.from({ length: bits }, (_, i) => ({
      name: `p${packet}_${field}${bits === 1 ? '' : `_${bits - 1 - i}`}`,
      unit: 'bit',
    })),
  )
}

/** Labels of the columns of all packet feature sets. */
export const PACKET_COLUMN_LABEL = new RegExp(
  `^(?:${Object.values(PACKET_SETS)
    .flatMap(({ labels }) => labels)
    .join('|')})$`,
)

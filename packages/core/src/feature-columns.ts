/**
 * The columns of a contract's rows by name and unit, for whoever shows a row to a person.
 *
 * Names are of places, not of what is always in them: an IAT+SIZE row of fewer than p packets ends with its last
 * size in the place of an interarrival time, and one of more than p packets has iat(p) in the last place, as in
 * the paper's rows. `hasFixedColumns` tells the feature sets in which that cannot happen. Places without a packet
 * hold 0 (header bits: −1).
 */
import {
  type FeatureContract,
  FLOW_STATISTICS,
  HEADER_FLAG_COUNTS,
  type IatUnit,
} from './feature-contract.js'

export interface FeatureColumn {
  /** Letters, digits and "_". */
  readonly name: string
  /** "s", "us", "bytes", "packets", "packets_per_s", …; empty where nobody knows it. */
  readonly unit: string
}

const FLAGS = ['fin', 'syn', 'rst', 'psh', 'ack', 'urg', 'ece', 'cwr']
const SIZE_STATISTICS = ['mean', 'sd', 'q1', 'q2', 'q3', 'min', 'max']
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

/** A flow summary, as feature-sets/flow-summary.ts of the flows computes it. */
const SUMMARY_COLUMNS: readonly FeatureColumn[] = [
  ...['initiator', 'responder'].flatMap((end) =>
    ['bytes', 'packets', 'size_max', 'size_mean', 'size_sd'].map((name) => ({
      name: `${end}_${name}`,
      unit: 'log1p',
    })),
  ),
  ...['duration', 'iat_mean', 'iat_max', 'first_iat'].map((name) => ({ name, unit: 'log10_s' })),
  { name: 'initiator_first_size', unit: 'log1p' },
  { name: 'responder_first_size', unit: 'log1p' },
  { name: 'transport', unit: '' },
  { name: 'multicast', unit: '' },
  { name: 'unanswered', unit: '' },
  { name: 'service', unit: '' },
]

/** D of them, in the order of the row. */
export function featureColumns(contract: FeatureContract): FeatureColumn[] {
  const { dimension } = contract
  const numbered = (name: string, unit: string, count = dimension): FeatureColumn[] =>
    Array.from({ length: count }, (_, i) => ({ name: `${name}${i + 1}`, unit }))
  switch (contract.featureSet) {
    case 'rows':
      return numbered('x', '')
    case 'iat':
      return numbered('iat', timeUnit(contract.iatUnit))
    case 'size':
      return numbered('size', 'bytes')
    case 'samp-size':
      return numbered('window', 'bytes')
    case 'samp-num':
      return numbered('window', 'packets')
    case 'iat-size': {
      const iats = numbered('iat', timeUnit(contract.iatUnit))
      const sizes = numbered('size', 'bytes')
      return iats.flatMap((iat, i) => [iat, sizes[i]!]).filter((_, i) => i < dimension - 1 || i === dimension)
    }
    case 'stats-header':
      return [
        ...flags(),
        ...numbered('ttl', 'hops', dimension - HEADER_FLAG_COUNTS - FLOW_STATISTICS),
        ...statistics(timeUnit(contract.iatUnit)),
      ]
    case 'header-bits':
      return Array.from({ length: contract.packetsPerFlow }, (_, i) => headerBits(i + 1)).flat()
    case 'flow-summary':
      return [...SUMMARY_COLUMNS]
  }
}

/**
 * The column whose numbers are names: they are equal or different, and nothing else. In a flow summary that is the
 * service, the last column; null for other feature sets.
 */
export function categoryColumn(contract: FeatureContract): number | null {
  return contract.featureSet === 'flow-summary' ? contract.dimension - 1 : null
}

/**
 * The least spread of a column that a detector should divide by: a tenth for flow summaries, which are logarithms, so that
 * 10 % are no sensation where all was equal so far. null where the unit of the columns says nothing of it.
 */
export function minimumScale(contract: FeatureContract): number | null {
  return contract.featureSet === 'flow-summary' ? SUMMARY_SCALE : null
}

/** What a detector is told of rows' columns beside their numbers. */
export interface ColumnFacts {
  /** As `categoryColumn` says. */
  readonly categoryColumn: number | null
  /** As `minimumScale` says. */
  readonly minimumScale: number | null
}

/** The facts of rows that are known by their columns' labels alone: null unless all are of a flow summary. */
export function summaryFacts(labels: readonly string[]): ColumnFacts | null {
  if (labels.length === 0 || !labels.every((label) => SUMMARY_LABELS.has(label))) return null
  const service = labels.indexOf(columnLabel(SUMMARY_COLUMNS.at(-1)!))
  return { categoryColumn: service < 0 ? null : service, minimumScale: SUMMARY_SCALE }
}

/** Whether every column always holds what its name says. */
export function hasFixedColumns(contract: FeatureContract): boolean {
  return contract.featureSet !== 'rows' && contract.featureSet !== 'iat-size'
}

/** "iat1_s": name and unit as one word. */
export function columnLabel({ name, unit }: FeatureColumn): string {
  return unit === '' ? name : `${name}_${unit}`
}

/** Whether `label` is the name and unit of a column that some contract has. Nothing is said of bare rows' x1, x2 …. */
export function isFeatureLabel(label: string): boolean {
  return NUMBERED_LABEL.test(label) || FIXED_LABELS.has(label) || HEADER_BIT_LABEL.test(label)
}

const NUMBERED_LABEL = /^(?:iat\d+_u?s|size\d+_bytes|window\d+_(?:bytes|packets)|ttl\d+_hops)$/
const HEADER_BIT_LABEL = new RegExp(
  `^p\\d+_(?:${HEADER_FIELDS.map(([field]) => field).join('|')})(?:_\\d+)?_bit$`,
)

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

function headerBits(packet: number): FeatureColumn[] {
  return HEADER_FIELDS.flatMap(([field, bits]) =>
    Array.from({ length: bits }, (_, i) => ({
      name: `p${packet}_${field}${bits === 1 ? '' : `_${bits - 1 - i}`}`,
      unit: 'bit',
    })),
  )
}

const SUMMARY_SCALE = 0.1
const SUMMARY_LABELS: ReadonlySet<string> = new Set(SUMMARY_COLUMNS.map(columnLabel))

const FIXED_LABELS: ReadonlySet<string> = new Set(
  [...flags(), ...statistics('s'), ...statistics('us'), ...SUMMARY_COLUMNS].map(columnLabel),
)

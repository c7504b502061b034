/**
 * The columns of a contract's rows by name and unit, to show a row to a person.
 *
 * Names belong to places, whose contents may vary: an IAT+SIZE row of fewer than p packets ends with its last
 * size in the place of an interarrival time, and one of more than p packets has iat(p) in the last place, as in
 * the paper's rows. `hasFixedColumns` tells the feature sets in which that cannot happen. Places without a packet
 * hold 0 (header bits: −1).
 */
import type { FeatureContract } from './feature-contract.js'
import {
  type FeatureColumn,
  numberedColumns,
  PACKET_COLUMN_LABEL,
  packetFeatureSet,
} from './packet-feature-sets.js'

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
  if (contract.featureSet === 'rows') return numberedColumns('x', '', contract.dimension)
  if (contract.featureSet === 'flow-summary') return [...SUMMARY_COLUMNS]
  return packetFeatureSet(contract.featureSet).columns(contract)
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

/** The description of rows' columns that a detector gets besides the numbers. */
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
  return PACKET_COLUMN_LABEL.test(label) || SUMMARY_LABELS.has(label)
}

const SUMMARY_SCALE = 0.1
const SUMMARY_LABELS: ReadonlySet<string> = new Set(SUMMARY_COLUMNS.map(columnLabel))

/**
 * FeatureContract: what must be equal for a row made today to mean what a row meant at training.
 *
 * Flows make rows, detectors consume them, and neither imports the other. The contract is the sheet of
 * paper that both sign: it stands in every model file, flow extraction is driven by it (the same code for a
 * file and for live traffic, bit-equal), and a model refuses rows made under another one.
 *
 * Rows that come from a file of numbers carry no rules for flows, so they get the short form, featureSet
 * `rows`, whose only promise is the width D.
 */
import { ContractMismatchError, FormatError } from './errors.js'

export type IatUnit = 'seconds' | 'microseconds'
export type SizeMeasure = 'frame' | 'ip'
export type TruncationMode = 'truncate' | 'split'
export type ScalerName = 'none' | 'standard'

/** Rows of numbers of unknown making. */
export interface RowsContract {
  readonly featureSet: 'rows'
  readonly featureSetVersion: 1
  /** D, the width of a row. */
  readonly dimension: number
  readonly scaler: ScalerName
}

/**
 * IAT+SIZE rows: iat1, size1, …, iat(n−1), size(n−1), size(n) of a record's n packets, zero-padded or cut to
 * D = 2p − 1 columns; so the last column is size(p) for n = p, and iat(p) for n > p, as in the authors' rows.
 */
export interface IatSizeContract {
  readonly featureSet: 'iat-size'
  readonly featureSetVersion: 1
  /** D = 2 · packetsPerFlow − 1. */
  readonly dimension: number
  /** p, the 90th percentile of packets per flow record in the training data, at least 2. */
  readonly packetsPerFlow: number
  readonly iatUnit: IatUnit
  /** Wire length of the frame, or the length in the IP header. */
  readonly sizeMeasure: SizeMeasure
  /** Unordered pair of (address, port) with protocol and IP version; the first packet's source initiates. */
  readonly flowKey: 'bidirectional-5-tuple'
  /** A gap longer than this ends a flow (a gap of exactly this length does not). */
  readonly idleTimeoutMicros: number
  /** A flow older than this is ended by its next packet; null for no such limit. */
  readonly activeTimeoutMicros: number | null
  readonly truncation: {
    /** `truncate` drops what comes after the duration (the paper), `split` starts the next record there. */
    readonly mode: TruncationMode
    /** The 90th percentile of flow durations in the training data. */
    readonly durationMicros: number
  }
  /** Records of fewer packets make no row. */
  readonly minimumPackets: number
  readonly scaler: ScalerName
}

export type FeatureContract = RowsContract | IatSizeContract

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

/** Fields of the contract in a fixed order, for messages and for files. */
function flatten(contract: FeatureContract): [string, string | number | null][] {
  const out: [string, string | number | null][] = []
  for (const [key, value] of Object.entries(contract)) {
    if (value !== null && typeof value === 'object') {
      for (const [inner, v] of Object.entries(value as Record<string, string | number>)) {
        out.push([`${key}.${inner}`, v])
      }
    } else {
      out.push([key, value as string | number | null])
    }
  }
  return out
}

/** Throws ContractMismatchError that names every field in which `found` differs from `expected`. */
export function checkSameContract(expected: FeatureContract, found: FeatureContract): void {
  const have = new Map(flatten(found))
  const want = flatten(expected)
  const differences: string[] = []
  for (const [field, value] of want) {
    if (have.get(field) !== value) {
      differences.push(`${field}: the model expects ${value}, the rows have ${have.get(field) ?? 'none'}`)
    }
  }
  if (want.length !== have.size && differences.length === 0)
    differences.push('one has fields the other lacks')
  if (differences.length > 0) throw new ContractMismatchError(differences.join('; '))
}

/** Checks a contract that was read from a file. Throws FormatError naming the field. */
export function checkFeatureContract(value: unknown): FeatureContract {
  const record = asRecord(value, 'featureContract')
  const fail = (field: string, expected: string): never => {
    throw new FormatError(
      'model-file',
      `featureContract.${field}: expected ${expected}, found ${show(record[field])}`,
      {
        field: `featureContract.${field}`,
      },
    )
  }
  const whole = (field: string, low: number, high: number): number => {
    const v = record[field]
    if (typeof v !== 'number' || !Number.isSafeInteger(v) || v < low || v > high) {
      return fail(field, `a whole number from ${low} to ${high}`)
    }
    return v
  }
  const one = <T extends string>(field: string, allowed: readonly T[]): T => {
    const v = record[field]
    return allowed.includes(v as T) ? (v as T) : fail(field, `one of ${allowed.join(', ')}`)
  }
  const known = (allowed: readonly string[]): void => {
    for (const field of Object.keys(record)) {
      if (!allowed.includes(field)) fail(field, 'no such field')
    }
  }
  const featureSet = one('featureSet', ['rows', 'iat-size'] as const)
  whole('featureSetVersion', 1, 1)
  const dimension = whole('dimension', 1, MAXIMUM_DIMENSION)
  const scaler = one('scaler', ['none', 'standard'] as const)
  const fields = ['featureSet', 'featureSetVersion', 'dimension', 'scaler']
  if (featureSet === 'rows') {
    known(fields)
    return { featureSet, featureSetVersion: 1, dimension, scaler }
  }
  known([...fields, ...IAT_SIZE_FIELDS])
  const packetsPerFlow = whole('packetsPerFlow', 2, (MAXIMUM_DIMENSION + 1) / 2)
  if (dimension !== 2 * packetsPerFlow - 1)
    fail('dimension', `2 · packetsPerFlow − 1 = ${2 * packetsPerFlow - 1}`)
  const truncation = asRecord(record.truncation, 'featureContract.truncation')
  const mode = truncation.mode
  const durationMicros = truncation.durationMicros
  if (mode !== 'truncate' && mode !== 'split') return fail('truncation', 'mode truncate or split')
  if (
    typeof durationMicros !== 'number' ||
    !(durationMicros >= 0 && durationMicros <= Number.MAX_SAFE_INTEGER)
  ) {
    return fail('truncation', 'durationMicros of 0 or more')
  }
  return {
    featureSet,
    featureSetVersion: 1,
    dimension,
    packetsPerFlow,
    iatUnit: one('iatUnit', ['seconds', 'microseconds'] as const),
    sizeMeasure: one('sizeMeasure', ['frame', 'ip'] as const),
    flowKey: one('flowKey', ['bidirectional-5-tuple'] as const),
    idleTimeoutMicros: whole('idleTimeoutMicros', 1, Number.MAX_SAFE_INTEGER),
    activeTimeoutMicros:
      record.activeTimeoutMicros === null ? null : whole('activeTimeoutMicros', 1, Number.MAX_SAFE_INTEGER),
    truncation: { mode, durationMicros },
    minimumPackets: whole('minimumPackets', 2, packetsPerFlow),
    scaler,
  }
}

const IAT_SIZE_FIELDS = [
  'packetsPerFlow',
  'iatUnit',
  'sizeMeasure',
  'flowKey',
  'idleTimeoutMicros',
  'activeTimeoutMicros',
  'truncation',
  'minimumPackets',
]

/** Widest row that a model may have: bounds what a hostile file can make a reader allocate. */
export const MAXIMUM_DIMENSION = 65_535

function asRecord(value: unknown, field: string): Record<string, unknown> {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new FormatError('model-file', `${field}: expected an object, found ${show(value)}`, { field })
  }
  return value as Record<string, unknown>
}

function show(value: unknown): string {
  return value === undefined ? 'nothing' : String(JSON.stringify(value)).slice(0, 60)
}

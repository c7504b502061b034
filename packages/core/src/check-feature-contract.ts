/**
 * Checks of feature contracts: one read from a file, and two that must be the same. A contract drives loops and
 * allocations, so every field is checked against its range, unknown fields are refused, and D must follow from p.
 */
import { ContractMismatchError, FormatError } from './errors.js'
import {
  connectionRules,
  contractProtocols,
  endsOnClose,
  type FeatureContract,
  FLOW_PROTOCOLS,
  FLOW_SUMMARY_DIMENSION,
  type FlowFeatureSet,
  type FlowRules,
  type GatheringRules,
  MAXIMUM_DIMENSION,
  packetRules,
  packetView,
} from './feature-contract.js'
import {
  FLOW_FEATURE_SETS,
  featureDimension,
  maximumPacketsPerFlow,
  type OwnFields,
  type PacketContract,
  type PacketFeatureSet,
  packetFeatureSet,
} from './packet-feature-sets.js'

/** Fields of the contract in a fixed order, for messages and for files. */
function flatten(contract: FeatureContract): [string, string | number | boolean | null][] {
  const out: [string, string | number | boolean | null][] = []
  // written out, a usual value and one that is left out are the same
  for (const [key, value] of Object.entries(explicitContract(contract))) {
    if (Array.isArray(value)) out.push([key, value.join(',')])
    else if (value !== null && typeof value === 'object') {
      for (const [inner, v] of Object.entries(value as Record<string, string | number>)) {
        out.push([`${key}.${inner}`, v])
      }
    } else {
      out.push([key, value as string | number | boolean | null])
    }
  }
  return out
}

/** A contract with every field, for people and programs: nothing is left out for being usual. */
export function explicitContract(contract: FeatureContract): FeatureContract {
  if (contract.featureSet === 'rows') return contract
  const protocols = contractProtocols(contract)
  const { vlanKey = false } = contract
  return { ...contract, ...packetView(contract), protocols, endOnClose: endsOnClose(contract), vlanKey }
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

const ROWS_FIELDS = ['featureSet', 'featureSetVersion', 'dimension', 'scaler']
const GATHERING_FIELDS = [
  ...ROWS_FIELDS,
  'sizeMeasure',
  'flowKey',
  'idleTimeoutMicros',
  'activeTimeoutMicros',
  'minimumPackets',
  'decapsulation',
  'joinFragments',
  'protocols',
  'endOnClose',
  'vlanKey',
]
const FLOW_FIELDS = [...GATHERING_FIELDS, 'packetsPerFlow', 'truncation']
/** Checks a contract that was read from a file. Throws FormatError naming the field. */
export function checkFeatureContract(value: unknown): FeatureContract {
  const fields = new ContractFields(asRecord(value, 'featureContract'))
  const featureSet = fields.one('featureSet', ['rows', ...FLOW_FEATURE_SETS])
  fields.whole('featureSetVersion', 1, 1)
  const dimension = fields.whole('dimension', 1, MAXIMUM_DIMENSION)
  if (featureSet === 'rows') {
    fields.known(ROWS_FIELDS)
    return { featureSet, featureSetVersion: 1, dimension, scaler: checkScaler(fields) }
  }
  if (featureSet === 'flow-summary') {
    fields.known(GATHERING_FIELDS)
    fields.whole('dimension', FLOW_SUMMARY_DIMENSION, FLOW_SUMMARY_DIMENSION)
    fields.whole('minimumPackets', 1, 1)
    return {
      featureSet,
      featureSetVersion: 1,
      dimension,
      sizeMeasure: fields.one('sizeMeasure', ['payload']),
      flowKey: fields.one('flowKey', ['bidirectional-5-tuple']),
      ...checkTimeouts(fields),
      minimumPackets: 1,
      scaler: checkScaler(fields),
      ...checkPacketRules(fields),
      ...checkConnectionRules(fields, featureSet),
    }
  }
  const { ownFields, checkOwn } = packetFeatureSet(featureSet)
  fields.known([...FLOW_FIELDS, ...ownFields])
  const rules = checkFlowRules(fields, featureSet, dimension)
  return { featureSet, ...rules, ...checkOwn(fields, rules) } as PacketContract
}

function checkFlowRules(fields: ContractFields, featureSet: PacketFeatureSet, dimension: number): FlowRules {
  const packetsPerFlow = fields.whole('packetsPerFlow', 2, maximumPacketsPerFlow(featureSet))
  const truncation = checkTruncation(fields)
  const expected = featureDimension(featureSet, packetsPerFlow, truncation.mode)
  if (dimension !== expected) {
    fields.fail('dimension', `${expected}, which ${featureSet} makes of packetsPerFlow ${packetsPerFlow}`)
  }
  const flowKey = fields.one('flowKey', ['bidirectional-5-tuple', 'directional-5-tuple'])
  if ((flowKey === 'directional-5-tuple') !== (truncation.mode === 'idle-gap')) {
    fields.fail('flowKey', 'directional-5-tuple with truncation mode idle-gap, and there alone')
  }
  const active = fields.record.activeTimeoutMicros
  if (active !== null && truncation.mode === 'idle-gap')
    fields.fail('activeTimeoutMicros', 'null in idle-gap')
  return {
    featureSetVersion: 1,
    dimension,
    packetsPerFlow,
    sizeMeasure: fields.one('sizeMeasure', ['frame', 'ip', 'payload', 'captured']),
    flowKey,
    ...checkTimeouts(fields),
    truncation,
    minimumPackets: fields.whole('minimumPackets', 2, packetsPerFlow),
    scaler: checkScaler(fields),
    ...checkPacketRules(fields),
    ...checkConnectionRules(fields, featureSet),
  }
}

function checkConnectionRules(
  fields: ContractFields,
  featureSet: FlowFeatureSet,
): Pick<GatheringRules, 'endOnClose' | 'vlanKey'> {
  const isDirectional = fields.record.flowKey === 'directional-5-tuple'
  for (const field of ['endOnClose', 'vlanKey']) {
    const value = fields.record[field]
    if (value !== undefined && typeof value !== 'boolean') fields.fail(field, 'true or false')
    if (value === true && isDirectional) fields.fail(field, 'false with directional-5-tuple')
  }
  return connectionRules(featureSet, fields.record as Pick<GatheringRules, 'endOnClose' | 'vlanKey'>)
}

function checkTimeouts(
  fields: ContractFields,
): Pick<GatheringRules, 'idleTimeoutMicros' | 'activeTimeoutMicros'> {
  const active = fields.record.activeTimeoutMicros
  return {
    idleTimeoutMicros: fields.whole('idleTimeoutMicros', 1, Number.MAX_SAFE_INTEGER),
    activeTimeoutMicros:
      active === null ? null : fields.whole('activeTimeoutMicros', 1, Number.MAX_SAFE_INTEGER),
  }
}

function checkPacketRules(
  fields: ContractFields,
): Pick<GatheringRules, 'decapsulation' | 'joinFragments' | 'protocols'> {
  const { decapsulation, joinFragments, protocols } = fields.record
  if (decapsulation !== undefined) fields.one('decapsulation', ['outer', 'inner'])
  if (joinFragments !== undefined && typeof joinFragments !== 'boolean') {
    fields.fail('joinFragments', 'true or false')
  }
  if (protocols !== undefined) {
    const names: readonly unknown[] = Array.isArray(protocols) ? protocols : []
    const ordered = FLOW_PROTOCOLS.filter((name) => names.includes(name))
    if (names.length === 0 || names.join() !== ordered.join()) {
      fields.fail('protocols', `some of ${FLOW_PROTOCOLS.join(', ')}, in this order, each once`)
    }
  }
  const given = fields.record as Pick<GatheringRules, 'decapsulation' | 'joinFragments' | 'protocols'>
  return packetRules(packetView(given), contractProtocols(given))
}

function checkTruncation(fields: ContractFields): FlowRules['truncation'] {
  const truncation = asRecord(fields.record.truncation, 'featureContract.truncation')
  const { mode, durationMicros, durationSeconds } = truncation
  if (mode !== 'truncate' && mode !== 'split' && mode !== 'idle-gap') {
    return fields.fail('truncation', 'mode truncate, split or idle-gap')
  }
  if (
    typeof durationMicros !== 'number' ||
    !(durationMicros >= 0 && durationMicros <= Number.MAX_SAFE_INTEGER)
  ) {
    return fields.fail('truncation', 'durationMicros of 0 or more')
  }
  if (mode !== 'idle-gap') {
    if (durationSeconds !== undefined) fields.fail('truncation', 'no durationSeconds outside idle-gap')
    return { mode, durationMicros }
  }
  if (typeof durationSeconds !== 'number' || !(durationSeconds > 0 && durationSeconds < 1e12)) {
    return fields.fail('truncation', 'durationSeconds above 0 in idle-gap')
  }
  return { mode, durationMicros, durationSeconds }
}

function checkScaler(fields: ContractFields): string {
  const { scaler } = fields.record
  if (typeof scaler === 'string' && /^[a-z][a-z0-9-]{0,39}$/.test(scaler)) return scaler
  return fields.fail('scaler', 'the name of a scaler')
}

/** A contract before it is one: fields by name, each checked as it is read. */
class ContractFields implements OwnFields {
  readonly record: Record<string, unknown>

  constructor(record: Record<string, unknown>) {
    this.record = record
  }

  fail(field: string, expected: string): never {
    throw new FormatError(
      'model-file',
      `featureContract.${field}: expected ${expected}, found ${show(this.record[field])}`,
      { field: `featureContract.${field}` },
    )
  }

  whole(field: string, low: number, high: number): number {
    const v = this.record[field]
    if (typeof v !== 'number' || !Number.isSafeInteger(v) || v < low || v > high) {
      return this.fail(field, `a whole number from ${low} to ${high}`)
    }
    return v
  }

  positive(field: string): number {
    const v = this.record[field]
    if (typeof v !== 'number' || !(v > 0 && v <= Number.MAX_SAFE_INTEGER)) {
      return this.fail(field, 'a number above 0')
    }
    return v
  }

  one<T extends string>(field: string, allowed: readonly T[]): T {
    const v = this.record[field]
    return allowed.includes(v as T) ? (v as T) : this.fail(field, `one of ${allowed.join(', ')}`)
  }

  absent(field: string, expected: string): void {
    if (this.record[field] !== undefined) this.fail(field, expected)
  }

  known(allowed: readonly string[]): void {
    for (const field of Object.keys(this.record)) {
      if (!allowed.includes(field)) this.fail(field, 'no such field')
    }
  }
}

function asRecord(value: unknown, field: string): Record<string, unknown> {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new FormatError('model-file', `${field}: expected an object, found ${show(value)}`, { field })
  }
  return value as Record<string, unknown>
}

function show(value: unknown): string {
  return value === undefined ? 'nothing' : String(JSON.stringify(value)).slice(0, 60)
}

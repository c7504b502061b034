import { describe, expect, it } from 'vitest'
import {
  checkFeatureContract,
  checkSameContract,
  contractProtocols,
  endsOnClose,
  explicitContract,
  type FeatureContract,
  FLOW_SUMMARY_DIMENSION,
  type FlowContract,
  type FlowRules,
  FormatError,
  featureDimension,
  MAXIMUM_DIMENSION,
  maximumPacketsPerFlow,
  PACKET_FEATURE_SETS,
  packetView,
} from '../src/index.js'

const rules: FlowRules = {
  featureSetVersion: 1,
  dimension: 12,
  packetsPerFlow: 12,
  sizeMeasure: 'frame',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 600_000_000,
  activeTimeoutMicros: null,
  truncation: { mode: 'split', durationMicros: 1_234_567 },
  minimumPackets: 2,
  scaler: 'none',
}
const authors: FlowRules = {
  ...rules,
  sizeMeasure: 'captured',
  flowKey: 'directional-5-tuple',
  truncation: { mode: 'idle-gap', durationMicros: 189_065, durationSeconds: 0.189065 },
}
const { packetsPerFlow: _p, truncation: _cut, ...gathering } = rules
const contracts: FeatureContract[] = [
  { featureSet: 'iat', ...rules, dimension: 11, iatUnit: 'microseconds' },
  { featureSet: 'size', ...rules },
  { featureSet: 'stats-header', ...rules, dimension: 30, iatUnit: 'seconds', packetsKept: 100 },
  { featureSet: 'samp-size', ...rules, samplingIntervalMicros: 57461.8 },
  { featureSet: 'samp-num', ...rules, samplingIntervalMicros: 3 },
  { featureSet: 'header-bits', ...rules, dimension: 924 },
  { featureSet: 'iat-size', ...authors, dimension: 23, iatUnit: 'seconds' },
  {
    featureSet: 'samp-size',
    ...authors,
    dimension: 11,
    samplingIntervalMicros: 0.3,
    samplingIntervalSeconds: 3e-7,
  },
  {
    featureSet: 'flow-summary',
    ...gathering,
    dimension: FLOW_SUMMARY_DIMENSION,
    sizeMeasure: 'payload',
    flowKey: 'bidirectional-5-tuple',
    minimumPackets: 1,
    activeTimeoutMicros: 60_000_000,
  },
]

describe('contracts of every feature set', () => {
  it.each(contracts)('through JSON: $featureSet $truncation.mode', (contract) => {
    const read = checkFeatureContract(JSON.parse(JSON.stringify(contract)))
    expect(read).toEqual(contract)
    checkSameContract(contract, read)
    expect(() => checkFeatureContract({ ...contract, dimension: contract.dimension + 1 })).toThrow(
      /featureContract.dimension/,
    )
    expect(() => checkFeatureContract({ ...contract, surprise: 1 })).toThrow('featureContract.surprise')
  })

  const broken: [string, number, Record<string, unknown>][] = [
    ['iatUnit', 1, { iatUnit: 'seconds' }],
    ['packetsKept', 2, { packetsKept: 11 }],
    ['packetsKept', 2, { packetsKept: 1e9 }],
    ['samplingIntervalMicros', 3, { samplingIntervalMicros: 0 }],
    ['samplingIntervalMicros', 3, { samplingIntervalMicros: Number.NaN }],
    ['samplingIntervalSeconds', 3, { samplingIntervalSeconds: 1 }],
    ['samplingIntervalSeconds', 7, { samplingIntervalSeconds: undefined }],
    ['truncation', 6, { truncation: { mode: 'idle-gap', durationMicros: 1 } }],
    ['truncation', 6, { truncation: { mode: 'idle-gap', durationMicros: 0, durationSeconds: 0 } }],
    ['truncation', 1, { truncation: { mode: 'split', durationMicros: 1, durationSeconds: 1 } }],
    ['flowKey', 6, { flowKey: 'bidirectional-5-tuple' }],
    ['flowKey', 1, { flowKey: 'directional-5-tuple' }],
    ['activeTimeoutMicros', 6, { activeTimeoutMicros: 5 }],
    ['sizeMeasure', 8, { sizeMeasure: 'frame' }],
    ['flowKey', 8, { flowKey: 'directional-5-tuple' }],
    ['minimumPackets', 8, { minimumPackets: 2 }],
    ['activeTimeoutMicros', 8, { activeTimeoutMicros: 0 }],
    ['endOnClose', 1, { endOnClose: 1 }],
    ['endOnClose', 6, { endOnClose: true }],
    ['vlanKey', 8, { vlanKey: 'yes' }],
    ['vlanKey', 6, { vlanKey: true }],
    ['packetsPerFlow', 8, { packetsPerFlow: 12 }],
    ['truncation', 8, { truncation: { mode: 'split', durationMicros: 1 } }],
  ]
  it.each(broken)('names %s', (field, index, change) => {
    const check = (): unknown => checkFeatureContract({ ...contracts[index], ...change })
    expect(check).toThrow(FormatError)
    expect(check).toThrow(`featureContract.${field}`)
  })

  it('keeps every row within what a model may have', () => {
    for (const featureSet of PACKET_FEATURE_SETS) {
      const most = maximumPacketsPerFlow(featureSet)
      for (const mode of ['split', 'idle-gap'] as const) {
        expect(featureDimension(featureSet, most, mode)).toBeLessThanOrEqual(MAXIMUM_DIMENSION)
      }
      if (!featureSet.startsWith('samp')) {
        expect(featureDimension(featureSet, most + 2, 'split')).toBeGreaterThan(MAXIMUM_DIMENSION)
      }
    }
  })
})

describe('what a packet was to begin with', () => {
  const contract: FeatureContract = { featureSet: 'size', ...rules }
  it('is the outer headers of TCP and UDP where a contract says nothing', () => {
    expect(packetView(contract)).toEqual({ decapsulation: 'outer', joinFragments: false })
    expect(contractProtocols(contract)).toEqual(['tcp', 'udp'])
    expect(explicitContract(contract)).toMatchObject({
      decapsulation: 'outer',
      joinFragments: false,
      protocols: ['tcp', 'udp'],
    })
  })

  it('is left out where it is usual, so that a contract has one form', () => {
    const usual = { decapsulation: 'outer', joinFragments: false, protocols: ['tcp', 'udp'] }
    expect(JSON.stringify(checkFeatureContract({ ...contract, ...usual }))).toBe(JSON.stringify(contract))
    const other = { decapsulation: 'inner', joinFragments: true, protocols: ['tcp', 'udp', 'icmp'] }
    const read = checkFeatureContract({ ...contract, ...other })
    expect(read).toEqual({ ...contract, ...other })
    expect(checkFeatureContract(JSON.parse(JSON.stringify(read)))).toEqual(read)
  })

  it('what ends a flow, and the VLAN, are left out where they are usual too', () => {
    const summary = contracts.at(-1) as FlowContract
    expect([endsOnClose(contract as FlowContract), endsOnClose(summary)]).toEqual([false, true])
    for (const [usual, value] of [
      [contract, { endOnClose: false, vlanKey: false }],
      [summary, { endOnClose: true, vlanKey: false }],
    ] as const) {
      expect(JSON.stringify(checkFeatureContract({ ...usual, ...value }))).toBe(JSON.stringify(usual))
      const other = { endOnClose: !value.endOnClose, vlanKey: true }
      const read = checkFeatureContract({ ...usual, ...other })
      expect(read).toEqual({ ...usual, ...other })
      expect(() => checkSameContract(usual, read)).toThrow(/endOnClose: .*; vlanKey: /)
      checkSameContract(usual, explicitContract(usual))
    }
  })

  it('must be the same for rows to be', () => {
    checkSameContract(contract, explicitContract(contract))
    const changes: [string, Partial<FlowRules>][] = [
      ['decapsulation: the model expects outer, the rows have inner', { decapsulation: 'inner' }],
      ['joinFragments: the model expects false, the rows have true', { joinFragments: true }],
      ['protocols: the model expects tcp,udp, the rows have tcp', { protocols: ['tcp'] }],
    ]
    for (const [says, change] of changes) {
      expect(() => checkSameContract(contract, { ...contract, ...change })).toThrow(says)
    }
  })

  it.each([
    ['decapsulation', 'innermost'],
    ['joinFragments', 1],
    ['protocols', []],
    ['protocols', 'tcp'],
    ['protocols', ['udp', 'tcp']],
    ['protocols', ['tcp', 'tcp']],
    ['protocols', ['tcp', 'gre']],
  ])('%s %j is refused', (field, value) => {
    expect(() => checkFeatureContract({ ...contract, [field]: value })).toThrow(`featureContract.${field}`)
  })
})

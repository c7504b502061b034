import { describe, expect, it } from 'vitest'
import {
  categoryColumn,
  columnLabel,
  type FeatureContract,
  FLOW_FEATURE_SETS,
  FLOW_SUMMARY_DIMENSION,
  type FlowContract,
  type FlowFeatureSet,
  featureColumns,
  featureDimension,
  hasFixedColumns,
  isFeatureLabel,
} from '../src/index.js'

function contractOf(featureSet: FlowFeatureSet, packetsPerFlow: number, extra: object = {}): FlowContract {
  return {
    featureSet,
    featureSetVersion: 1,
    dimension:
      featureSet === 'flow-summary'
        ? FLOW_SUMMARY_DIMENSION
        : featureDimension(featureSet, packetsPerFlow, 'split'),
    packetsPerFlow,
    sizeMeasure: 'frame',
    flowKey: 'bidirectional-5-tuple',
    idleTimeoutMicros: 1,
    activeTimeoutMicros: null,
    truncation: { mode: 'split', durationMicros: 1 },
    minimumPackets: 2,
    scaler: 'none',
    iatUnit: 'seconds',
    ...extra,
  } as FlowContract
}
const labels = (contract: FeatureContract): string[] => featureColumns(contract).map(columnLabel)

describe('featureColumns', () => {
  it.each(FLOW_FEATURE_SETS)('%s: D columns, each name once', (featureSet) => {
    for (const p of [2, 3, 9]) {
      const contract = contractOf(featureSet, p)
      const names = featureColumns(contract).map(({ name }) => name)
      expect(names).toHaveLength(contract.dimension)
      expect(new Set(names).size).toBe(names.length)
      for (const name of names) expect(name).toMatch(/^[a-z][a-z0-9_]*$/)
    }
  })

  it('say the unit that the contract has', () => {
    expect(labels(contractOf('iat-size', 3))).toEqual([
      'iat1_s',
      'size1_bytes',
      'iat2_s',
      'size2_bytes',
      'size3_bytes',
    ])
    expect(labels(contractOf('iat', 3, { iatUnit: 'microseconds' }))).toEqual(['iat1_us', 'iat2_us'])
    expect(labels(contractOf('size', 2))).toEqual(['size1_bytes', 'size2_bytes'])
    expect(labels(contractOf('samp-size', 2))).toEqual(['window1_bytes', 'window2_bytes'])
    expect(labels(contractOf('samp-num', 2))).toEqual(['window1_packets', 'window2_packets'])
    const stats = labels(contractOf('stats-header', 2, { iatUnit: 'microseconds' }))
    expect(stats.slice(0, 2)).toEqual(['fin_packets', 'syn_packets'])
    expect(stats.slice(7, 13)).toEqual([
      'cwr_packets',
      'ttl1_hops',
      'ttl2_hops',
      'duration_us',
      'rate_packets_per_us',
      'throughput_bytes_per_us',
    ])
    expect(stats.slice(13)).toEqual(
      ['mean', 'sd', 'q1', 'q2', 'q3', 'min', 'max'].map((name) => `size_${name}_bytes`),
    )
    const bits = labels(contractOf('header-bits', 2))
    expect([bits[0], bits[1], bits[4], bits[5], bits[76], bits[77]]).toEqual([
      'p1_direction_bit',
      'p1_version_3_bit',
      'p1_version_0_bit',
      'p1_length_15_bit',
      'p1_tcp_flags_0_bit',
      'p2_direction_bit',
    ])
  })

  it('of a flow summary end with the service, its one category', () => {
    const summary = contractOf('flow-summary', 2)
    expect(labels(summary)).toEqual([
      ...['initiator', 'responder'].flatMap((end) =>
        ['bytes', 'packets', 'size_max', 'size_mean', 'size_sd'].map((name) => `${end}_${name}_log1p`),
      ),
      ...['duration', 'iat_mean', 'iat_max', 'first_iat'].map((name) => `${name}_log10_s`),
      ...['initiator_first_size_log1p', 'responder_first_size_log1p'],
      ...['transport', 'multicast', 'unanswered', 'service'],
    ])
    expect(labels(summary)[categoryColumn(summary) as number]).toBe('service')
    expect(hasFixedColumns(summary)).toBe(true)
    for (const featureSet of FLOW_FEATURE_SETS) {
      if (featureSet !== 'flow-summary') expect(categoryColumn(contractOf(featureSet, 3))).toBeNull()
    }
  })

  it('know nothing of bare rows but their number', () => {
    const contract: FeatureContract = {
      featureSet: 'rows',
      featureSetVersion: 1,
      dimension: 3,
      scaler: 'none',
    }
    expect(labels(contract)).toEqual(['x1', 'x2', 'x3'])
    expect(hasFixedColumns(contract)).toBe(false)
    expect(hasFixedColumns(contractOf('iat-size', 3))).toBe(false)
    expect(hasFixedColumns(contractOf('stats-header', 3))).toBe(true)
  })
})

describe('isFeatureLabel', () => {
  it('knows every column of every feature set', () => {
    for (const featureSet of FLOW_FEATURE_SETS) {
      const all = labels(contractOf(featureSet, 3))
      expect(all.filter((label) => !isFeatureLabel(label))).toEqual([])
    }
  })

  it('and no other name', () => {
    const others = [
      'x1',
      'iat1',
      'size1',
      'bytes',
      'iat_s',
      'iat1_ms',
      'my_iat1_s',
      'iat1_s2',
      'constructor',
      '',
    ]
    expect(others.filter(isFeatureLabel)).toEqual([])
  })
})

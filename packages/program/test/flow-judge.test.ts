/** The three rules, on a model small enough to see through: its calibration rows are the training rows. */

import { createRng, type FlowContract, type Matrix } from '@oddflow/core'
import { calibrateThreshold, checkParameters, fitDetector, type SavedModel } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { describe, expect, it } from 'vitest'
import { createDeviceNumbers, deviceKeyOf, PRIVATE_NETWORKS, parseNetwork } from '../src/flow-judge.js'
import { createFlowJudge } from '../src/index.js'

const contract: FlowContract = {
  featureSet: 'iat-size',
  featureSetVersion: 1,
  dimension: 3,
  packetsPerFlow: 2,
  iatUnit: 'seconds',
  sizeMeasure: 'frame',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 600_000_000,
  activeTimeoutMicros: null,
  truncation: { mode: 'split', durationMicros: 1_000_000 },
  minimumPackets: 2,
  scaler: 'none',
}

function savedModel(): SavedModel {
  const rng = createRng(1)
  const rows: Matrix = {
    rows: 200,
    cols: 3,
    data: Float64Array.from({ length: 600 }, () => rng.nextNormal()),
  }
  const detector = fitDetector(rows, checkParameters({ detector: 'gmm', k: 1 }), createRng(2))
  return {
    detector,
    contract,
    threshold: calibrateThreshold(new Float64Array(100).fill(-20), 0.01),
    onePacketRule: { flows: 5, services: ['udp/1900'] },
    provenance: { oddflowVersion: '0.0.0', seed: 1, dataSha256: '0'.repeat(64), rows: 200 },
  }
}

const record = (fields: Partial<FlowRecord>): FlowRecord => ({ row: null, ...fields }) as FlowRecord

describe('createFlowJudge', () => {
  it('judges a row by its score', () => {
    const { row, judge } = createFlowJudge(savedModel())
    row.set([0, 0, 0])
    expect(judge(record({ row }))).toMatchObject({ novel: false, rule: 'score' })
    row.set([50, 0, 0])
    const { score, novel } = judge(record({ row }))
    expect(novel).toBe(true)
    expect(score).toBeLessThan(-100)
  })

  it('judges a flow of one packet by its service, and knows nothing of other records without a row', () => {
    const { judge } = createFlowJudge(savedModel())
    const one = { noRowReason: 'one-packet', protocol: 17, initiatorPort: 40_000 } as const
    expect(judge(record({ ...one, responderPort: 1900 }))).toEqual({
      score: null,
      novel: false,
      rule: 'one-packet',
    })
    expect(judge(record({ ...one, responderPort: 1901 }))).toEqual({
      score: null,
      novel: true,
      rule: 'one-packet',
    })
    expect(judge(record({ noRowReason: 'too-few-packets' }))).toEqual({
      score: null,
      novel: false,
      rule: 'not-judged',
    })
  })

  it('takes every flow of one packet for novel where no rule was learned', () => {
    const { judge } = createFlowJudge({ ...savedModel(), onePacketRule: null })
    expect(judge(record({ noRowReason: 'one-packet' })).novel).toBe(true)
  })

  it('refuses a model of bare rows', () => {
    const rows = { featureSet: 'rows', featureSetVersion: 1, dimension: 3, scaler: 'none' } as const
    expect(() => createFlowJudge({ ...savedModel(), contract: rows })).toThrow(/trained on feature rows/)
  })
})

it('createDeviceNumbers tells apart what deviceKeyOf does, and captures', () => {
  const words = (last: number): Uint32Array => Uint32Array.of(0, 0, 0, last)
  const macs = [
    [0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 1],
    [1, 0, 0, 0, 0, 0],
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
  ].map((bytes) => Uint8Array.from(bytes))
  const records = [0, 1].flatMap((captureIndex) =>
    macs.flatMap((initiatorMac) =>
      macs.flatMap((responderMac) =>
        // a private address, a public one, and the address that is the MAC address 1 as a number
        [0x0a000001, 0xc6336401, 1].flatMap((initiator) =>
          [0x0a000002, 0xc6336402, 1].map((responder) =>
            record({
              captureIndex,
              initiatorMac,
              responderMac,
              ipVersion: 4,
              initiatorAddress: words(initiator),
              responderAddress: words(responder),
            }),
          ),
        ),
      ),
    ),
  )
  const numberOf = createDeviceNumbers()
  const local = PRIVATE_NETWORKS.map(parseNetwork)
  const numbers = new Map<string, number>()
  for (const each of records) {
    const key = `${each.captureIndex} ${deviceKeyOf(each, local)}`
    const number = numberOf(each)
    expect(number).toBe(numbers.get(key) ?? numbers.size)
    numbers.set(key, number)
  }
  expect(numbers.size).toBeGreaterThan(12)
})

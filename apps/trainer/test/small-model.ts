/** A model fitted on seeded rows of two bunches, in a fraction of a second; and verdicts to write about. */
import { createMatrix, createRng, type IatSizeContract, type OnePacketRule } from '@oddflow/core'
import { type TrainedModel, trainModel } from '@oddflow/program'
import type { FlowFacts, InputVerdict } from '../src/pipeline/verdict-store.js'

export const smallContract: IatSizeContract = {
  featureSet: 'iat-size',
  featureSetVersion: 1,
  dimension: 3,
  packetsPerFlow: 2,
  iatUnit: 'seconds',
  sizeMeasure: 'frame',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 600_000_000,
  activeTimeoutMicros: null,
  truncation: { mode: 'split', durationMicros: 2_500_000 },
  minimumPackets: 2,
  scaler: 'none',
}

export function smallModel(rows = 120, rule: OnePacketRule | null = null, fpr = 0.1): TrainedModel {
  const rng = createRng(7)
  const matrix = createMatrix(rows, 3)
  for (let i = 0; i < matrix.data.length; i++) {
    matrix.data[i] = 10 * (Math.floor(i / 3) % 2) + rng.nextNormal()
  }
  return trainModel(
    { rows: matrix, inputOfRow: new Uint32Array(rows), contract: smallContract, onePacketRule: rule },
    {
      detector: { detector: 'oc-kjl', m: 20, d: 2, k: 2 },
      falsePositiveRate: fpr,
      calibrationShare: 0.25,
      seed: 1,
      oddflowVersion: '0.0.0',
    },
  )
}

export const someFlow: FlowFacts = {
  capture: 'a.pcap',
  protocol: 'tcp',
  source: '192.0.2.1',
  sourcePort: 51324,
  destination: '2001:db8::1',
  destinationPort: 443,
  startMicros: 1_700_000_000_123_456,
  durationMicros: 1_500_000,
  packets: 7,
  bytes: 901,
  piece: 0,
}

export function flowVerdict(
  changes: Partial<InputVerdict> = {},
  flow: Partial<FlowFacts> = {},
): InputVerdict {
  return {
    score: 0.1 + 0.2,
    decision: -1 / 3,
    novel: true,
    rule: 'score',
    input: 'a.pcap',
    row: null,
    flow: { ...someFlow, ...flow },
    ...changes,
  }
}

export function rowVerdict(changes: Partial<InputVerdict> = {}): InputVerdict {
  return {
    score: 1.5,
    decision: 0.5,
    novel: false,
    rule: 'score',
    input: 'r.npy',
    row: 3,
    flow: null,
    ...changes,
  }
}

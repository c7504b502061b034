/** Feature rows made up for tests: two kinds of flows, each around its own times and sizes. */
import { createRng, type FlowContract, type Rng } from '@oddflow/core'
import { flowSummaryContract } from '@oddflow/flows'

/** IAT+SIZE of p packets, split at a second. */
export function iatSizeContract(packetsPerFlow: number): FlowContract {
  return {
    featureSet: 'iat-size',
    featureSetVersion: 1,
    dimension: 2 * packetsPerFlow - 1,
    packetsPerFlow,
    sizeMeasure: 'frame',
    flowKey: 'bidirectional-5-tuple',
    idleTimeoutMicros: 600_000_000,
    activeTimeoutMicros: null,
    truncation: { mode: 'split', durationMicros: 1_000_000 },
    minimumPackets: 2,
    scaler: 'none',
    iatUnit: 'seconds',
  }
}

/** n × D, row-major. */
export function wanderingRows(count: number, dimension: number, rng: Rng): Float64Array {
  const rows = new Float64Array(count * dimension)
  for (let i = 0; i < count; i++) {
    const kind = rng.nextBelow(2)
    for (let j = 0; j < dimension; j++) {
      rows[i * dimension + j] = j % 2 === 0 ? 0.01 * rng.nextFloat() : 80 + 120 * kind + 5 * rng.nextNormal()
    }
  }
  return rows
}

export const wholeFlows = flowSummaryContract()
const SERVICES = [53, 123, 443]

/** Flows to a few services, each around its own numbers. */
export function summaries(count: number, seed: number, change = 0): Float64Array {
  const { dimension } = wholeFlows
  const rng = createRng(seed)
  const rows = new Float64Array(count * dimension)
  for (let i = 0; i < count; i++) {
    const service = rng.nextBelow(SERVICES.length)
    for (let j = 0; j < dimension - 1; j++) {
      rows[i * dimension + j] = 3 + service + change + 0.3 * rng.nextNormal()
    }
    rows[(i + 1) * dimension - 1] = SERVICES[service]
  }
  return rows
}

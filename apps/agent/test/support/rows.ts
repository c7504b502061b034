/** Feature rows made up for tests: two kinds of flows, each around its own times and sizes. */
import type { FlowContract, Rng } from '@oddflow/core'

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

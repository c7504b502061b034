import type { SavedModel } from '../../src/index.js'
import { calibrateThreshold } from '../../src/index.js'

/** The smallest model there is, written by hand: the worked example of docs/model-file.md. */
export const workedExample: SavedModel = {
  detector: {
    kind: 'oc-kjl-qs',
    parameters: {
      detector: 'oc-kjl-qs',
      scaler: 'none',
      bandwidthQuantile: 0.3,
      quantileCompat: 'pairs',
      quantileRows: 5000,
      m: 2,
      d: 1,
      embedding: { kind: 'kjl', centre: false },
      start: { kind: 'quickshift++', beta: 0.9, neighbours: null, coverage: 0.95, maximumClusters: 20 },
      em: { tolerance: 0.001, maximumSteps: 100, regularisation: 0.000001 },
      supportGuard: true,
    },
    scaler: { kind: 'none' },
    embedding: {
      kind: 'kjl',
      bandwidth: 50,
      landmarks: { rows: 2, cols: 3, data: Float64Array.of(0.5, 66, 66, 0.25, 66, 1500) },
      projection: { rows: 1, cols: 2, data: Float64Array.of(1, -1) },
    },
    mixture: {
      covarianceType: 'full',
      weights: Float64Array.of(1),
      means: { rows: 1, cols: 1, data: Float64Array.of(0.75) },
      precisionCholesky: Float64Array.of(4),
    },
    supportGuard: {
      squaredReaches: Float64Array.of(9, 16),
      density: { rows: 2, cols: 2, data: Float64Array.of(-8, -4, 2, -0.125) },
      support: { rows: 1, cols: 2, data: Float64Array.of(-1, -0.5) },
    },
    fitReport: {
      trainingRows: 900,
      dimension: 3,
      landmarks: 2,
      embeddingDimension: 1,
      clustersFound: 1,
      clustersKept: 1,
      iterations: 3,
      converged: true,
      meanLogLikelihood: 0.125,
      regularisation: 0.000001,
      notes: [],
    },
  },
  contract: {
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
  },
  threshold: calibrateThreshold(
    Float64Array.from({ length: 100 }, (_, i) => i / 64 - 1),
    0.01,
  ),
  onePacketRule: { flows: 12, services: ['udp/53'] },
  provenance: { oddflowVersion: '0.1.0', seed: 1, dataSha256: '0'.repeat(64), rows: 1000 },
}

import {
  createRng,
  FLOW_SUMMARY_DIMENSION,
  type FlowSummaryContract,
  type IatSizeContract,
  type Matrix,
  matrixOf,
  type RowsContract,
} from '@oddflow/core'
import {
  type CheckedParameters,
  calibrateThreshold,
  checkParameters,
  checkStoredParameters,
  createScoreWorkspace,
  DETECTORS,
  type DetectorModel,
  type DetectorOptions,
  fitDetector,
  fitHoldingOut,
  type SavedModel,
  scoreSamples,
  thresholdOfHeldOut,
} from '../../src/index.js'

/** Rows around two centres, D = 3. */
export function sampleRows(seed: number, rows = 60): Matrix {
  const rng = createRng(seed)
  const data = Float64Array.from({ length: rows * 3 }, (_, i) => rng.nextNormal() + (i % 6 < 3 ? 0 : 6))
  return matrixOf(rows, 3, data)
}

const flows: Omit<IatSizeContract, 'scaler'> = {
  featureSet: 'iat-size',
  featureSetVersion: 1,
  dimension: 3,
  packetsPerFlow: 2,
  iatUnit: 'seconds',
  sizeMeasure: 'frame',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 600_000_000,
  activeTimeoutMicros: null,
  truncation: { mode: 'split', durationMicros: 123 },
  minimumPackets: 2,
}

export function scores(detector: DetectorModel, rows: Matrix): Float64Array {
  return scoreSamples(detector, rows, new Float64Array(rows.rows), createScoreWorkspace(detector))
}

export type SampleOptions = DetectorOptions & { readonly kernel?: 'linear' }

/** Parameters as an older file may have them: with the linear kernel, which is not an option any more. */
function sampleParameters({ kernel, ...options }: SampleOptions): CheckedParameters {
  const parameters = checkParameters(options)
  if (parameters.detector === 'iforest') return checkStoredParameters({ ...parameters, subsampleRows: 16 })
  if (kernel === undefined) return parameters
  const none = { bandwidthQuantile: null, quantileCompat: null, quantileRows: null, precision: null }
  return checkStoredParameters({ ...parameters, kernel, ...none })
}

/** A small model, fitted for real. */
export function sampleModel(options: SampleOptions = {}, fromFlows = true): SavedModel {
  const name = options.detector ?? 'oc-kjl-qs'
  const takes: readonly string[] = DETECTORS[name].options
  const small = Object.entries({ m: 6, d: 2, k: 3, trees: 4 })
  const given = Object.fromEntries(small.filter(([option]) => takes.includes(option)))
  const parameters = sampleParameters({ ...given, ...options, detector: name })
  const detector = fitDetector(sampleRows(1), parameters, createRng(2))
  const bare: RowsContract = {
    featureSet: 'rows',
    featureSetVersion: 1,
    dimension: 3,
    scaler: parameters.scaler,
  }
  return {
    detector,
    contract: fromFlows ? { ...flows, scaler: parameters.scaler } : bare,
    threshold: calibrateThreshold(scores(detector, sampleRows(3)), 0.05),
    onePacketRule: fromFlows ? { flows: 4, services: ['tcp/443', 'udp/1900'] } : null,
    provenance: { oddflowVersion: '0.1.0', seed: 2, dataSha256: '0123456789abcdef'.repeat(4), rows: 120 },
  }
}

const summaries: Omit<FlowSummaryContract, 'scaler'> = {
  featureSet: 'flow-summary',
  featureSetVersion: 1,
  dimension: FLOW_SUMMARY_DIMENSION,
  sizeMeasure: 'payload',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 600_000_000,
  activeTimeoutMicros: null,
  minimumPackets: 1,
}

/** Rows as wide as flow summaries, of three services in the last column. */
export function summaryRows(seed: number, rows = 90): Matrix {
  const rng = createRng(seed)
  const cols = FLOW_SUMMARY_DIMENSION
  const data = Float64Array.from({ length: rows * cols }, (_, at) => {
    const service = Math.floor(at / cols) % 3
    return at % cols === cols - 1 ? 6_000_000 + service : 3 * service + rng.nextNormal()
  })
  return matrixOf(rows, cols, data)
}

/** As `sampleModel`, of flow summaries of three inputs; the threshold is from held-out inputs where there are scores. */
export function summaryModel(options: SampleOptions = {}): SavedModel {
  const parameters = sampleParameters(options)
  const rows = summaryRows(1)
  const { model, heldOut } = fitHoldingOut(rows, parameters, createRng(2), {
    categoryColumn: rows.cols - 1,
    minimumScale: 0.1,
    inputs: Uint32Array.from({ length: rows.rows }, (_, i) => i % 3),
  })
  return {
    detector: model,
    contract: { ...summaries, scaler: parameters.scaler },
    threshold:
      heldOut === null
        ? calibrateThreshold(scores(model, summaryRows(3)), 0.05)
        : thresholdOfHeldOut(heldOut, 0.05),
    onePacketRule: null,
    provenance: { oddflowVersion: '0.1.0', seed: 2, dataSha256: '0123456789abcdef'.repeat(4), rows: 90 },
  }
}

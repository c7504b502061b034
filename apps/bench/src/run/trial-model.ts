/**
 * The model of a trial as the bytes of its file: what a scorer elsewhere would be given. The threshold is calibrated
 * on the training rows; trials look at scores alone.
 */
import type { Matrix } from '@oddflow/core'
import {
  calibrateThreshold,
  createScoreWorkspace,
  type DetectorModel,
  encodeModelFile,
  type Provenance,
  scoreSamples,
} from '@oddflow/detectors'

/** The same bytes for the same model and provenance on every machine. */
export function encodeTrialModel(
  detector: DetectorModel,
  train: Matrix,
  provenance: Omit<Provenance, 'rows'>,
): Uint8Array {
  const scores = scoreSamples(detector, train, new Float64Array(train.rows), createScoreWorkspace(detector))
  return encodeModelFile({
    detector,
    contract: {
      featureSet: 'rows',
      featureSetVersion: 1,
      dimension: train.cols,
      scaler: detector.parameters.scaler,
    },
    threshold: calibrateThreshold(scores, 0.05),
    onePacketRule: null,
    provenance: { ...provenance, rows: train.rows },
  })
}

/**
 * The data of a report; the same data give the same bytes. Strings may hold anything, the renderer escapes them.
 * Numbers that are not finite are shown as "n/a". Higher scores are more normal.
 */
import type { ModelFact } from '@oddflow/detectors'

/** As many flagged flows as a page shows. */
export const FLAGGED_LIMIT = 200

/** The two sides of a labelled evaluation. */
export type FlowLabel = 'normal' | 'novel'

/** One capture (or file of feature rows) that was scored. */
export interface ReportCapture {
  name: string
  label: FlowLabel
  /** Packets read, or null for feature rows. */
  packets: number | null
  /** All flows of the capture, those of one packet included. */
  flows: number
  /** Flows of a single packet that the one-packet rule decided on: feature sets of single packets have no row for them. */
  onePacketFlows: number
  /** Flows flagged as new, by score or by the one-packet rule. */
  flagged: number
}

/** A receiver operating characteristic: novel is the positive class, points in order of rising FPR. */
export interface ReportRoc {
  /** False-positive rates, 0 to 1. */
  fpr: readonly number[]
  /** True-positive rates, as long as `fpr`. */
  tpr: readonly number[]
  auc: number
  /** The true-positive rate reached at chosen false-positive rates (usually 0.01 and 0.05). */
  tprAtFpr: readonly { fpr: number; tpr: number }[]
  /** Where the model's own threshold stands on the curve. */
  threshold: { fpr: number; tpr: number }
}

export interface ReportScores {
  normal: readonly number[] | Float64Array
  novel: readonly number[] | Float64Array
  threshold: number
}

/** One flow that was flagged as new. */
export interface FlaggedFlow {
  /** Initiator, with port where there is one: "10.0.0.7:51324". */
  source: string
  destination: string
  protocol: string
  /** Microseconds since 1970 in UTC, or null where the capture has no time. */
  startMicros: number | null
  durationMicros: number
  packets: number
  bytes: number
  /** Null where the one-packet rule decided. */
  score: number | null
  rule: 'score' | 'one-packet'
  capture: string
  label: FlowLabel
  /** Null for a feature row. */
  device: string | null
  /** Why it was flagged, in words. */
  reasons: readonly string[]
}

/** The rows to show, the most surprising first, and how many were flagged in all. */
export interface ReportFlagged {
  rows: readonly FlaggedFlow[]
  total: number
  /** Flagged flows of each device in all. */
  ofDevice: Readonly<Record<string, number>>
}

/** One component of the mixture, marginal over the first two dimensions of the embedding. */
export interface ReportEllipse {
  mean: readonly [number, number]
  /** xx, xy, yy. */
  covariance: readonly [number, number, number]
  weight: number
}

/** The embedding's first two dimensions. */
export interface ReportEmbedding {
  points: readonly { x: number; y: number; group: FlowLabel }[]
  ellipses: readonly ReportEllipse[]
  /** Dimensions of the whole embedding, of which two are drawn. */
  dimensions: number
}

/** The whole report. */
export interface ReportData {
  title: string
  subtitle: string
  oddflowVersion: string
  /** One sentence for a person: "OddFlow flagged 41 of 512 flows as new." */
  verdictLine: string
  model: readonly ModelFact[]
  captures: readonly ReportCapture[]
  /** Null where there are no labels, or not both classes. */
  roc: ReportRoc | null
  scores: ReportScores
  flagged: ReportFlagged
  /** Null for detectors without an embedding. */
  embedding: ReportEmbedding | null
  /** Caveats in plain words. */
  notes: readonly string[]
}

/**
 * NormalExamples: what a model stores of normal rows, to explain a new row: landmarks, support vectors or centers,
 * which are training rows; for gmm component means; for pca the mean row; for hbos the middles of the fullest bins.
 *
 * Modes are the components of a mixture; an example belongs to its most responsible one. The *typical* example of a
 * mode has the highest density under its component (in the embedding, if there is one).
 */
import { createMatrix, type Matrix } from '@oddflow/core'
import { squaredDistances } from '@oddflow/linalg'
import { createHistogramViews, modalRow } from '../detectors/hbos.js'
import { embedRows } from '../embedding/embedding.js'
import { type EnsemblePart, unstandardise } from '../ensemble/ensemble-part.js'
import { componentLogDensities, type Mixture } from '../mixture/gaussian-mixture.js'
import type { DetectorModel } from '../model.js'
import { unscaleRow } from '../scaler.js'

interface NormalExamples {
  /** Scaled, N × D. */
  readonly rows: Matrix
  readonly modes: ExampleModes | null
}

interface ExampleModes {
  /** Length k. */
  readonly weights: Float64Array
  /** The mode of each example, length N. */
  readonly modeOf: Uint32Array
  /** The typical example of each mode, length k. */
  readonly typical: Uint32Array
}

/** null for a detector that remembers none. */
export function normalExamples(model: DetectorModel): NormalExamples | null {
  switch (model.kind) {
    case 'iforest':
    // explained by its members (explain/explain-score.ts)
    case 'ensemble':
      return null
    case 'hbos': {
      const data = modalRow(createHistogramViews(model.histograms, 0), 0)
      return { rows: { rows: 1, cols: data.length, data }, modes: null }
    }
    case 'pca': {
      const { mean } = model.principalComponents
      return { rows: { rows: 1, cols: mean.length, data: mean }, modes: null }
    }
    case 'gmm':
      return { rows: model.mixture.means, modes: modesOf(model.mixture, model.mixture.means) }
    case 'kde':
      return { rows: model.kernelDensity.centres, modes: null }
    case 'nearest':
      return { rows: model.nearestLandmark.landmarks, modes: null }
    case 'ocsvm':
      return { rows: model.svm.supportVectors, modes: null }
    case 'oc-kjl-svm':
    case 'oc-nystrom-svm':
      return { rows: model.embedding.landmarks, modes: null }
    default:
      return {
        rows: model.embedding.landmarks,
        modes: modesOf(model.mixture, embedRows(model.embedding, model.embedding.landmarks)),
      }
  }
}

/** The first of the examples nearest to a scaled row. */
export function nearestExample({ rows }: NormalExamples, scaledRow: Float64Array): number {
  const distance = new Float64Array(1)
  let nearest = 0
  let smallest = Number.POSITIVE_INFINITY
  for (let i = 0; i < rows.rows; i++) {
    squaredDistances(scaledRow, 0, rows.data, i * rows.cols, 1, rows.cols, distance, 0)
    if (distance[0]! < smallest) {
      smallest = distance[0]!
      nearest = i
    }
  }
  return nearest
}

/** `points` are the examples in the space of the mixture, one for each. */
function modesOf(mixture: Mixture, points: Matrix): ExampleModes {
  const k = mixture.weights.length
  const modeOf = new Uint32Array(points.rows)
  const typical = new Uint32Array(k)
  const highest = new Float64Array(k).fill(Number.NEGATIVE_INFINITY)
  const densities = createMatrix(1, k).data
  const into = componentLogDensities(mixture)
  for (let i = 0; i < points.rows; i++) {
    into(points.data, i * points.cols, densities, 0)
    for (let j = 0; j < k; j++) {
      if (densities[j]! > densities[modeOf[i]!]!) modeOf[i] = j
      if (densities[j]! > highest[j]!) {
        highest[j] = densities[j]!
        typical[j] = i
      }
    }
  }
  return { weights: mixture.weights, modeOf, typical }
}

/**
 * The rows a model stores as normal, n × D and unscaled: training rows (an ensemble's landmarks), or the means of a
 * mixture in D dimensions. Columns not stored are 0. null for a detector without such rows.
 */
export function rememberedRows(model: DetectorModel): Matrix | null {
  const examples = model.kind === 'ensemble' ? ensembleLandmarks(model.ensemble) : normalExamples(model)
  if (examples === null) return null
  const { rows, cols, data } = examples.rows
  const { dimension } = model.fitReport
  const { categoryColumn } = model.scaler
  const out = createMatrix(rows, dimension)
  for (let i = 0; i < rows; i++) {
    const row = out.data.subarray(i * dimension, (i + 1) * dimension)
    unscaleRow(model.scaler, data, i * cols, cols, row)
    if (categoryColumn !== undefined && 'categories' in examples)
      row[categoryColumn] = examples.categories[i]!
  }
  return out
}

/** Scaled, with the category of each; null if no member has landmarks. */
function ensembleLandmarks(ensemble: EnsemblePart): { rows: Matrix; categories: Float64Array } | null {
  const nearest = ensemble.members.find((member) => member.name === 'nearest')
  if (nearest === undefined) return null
  const { rows, cols, data } = nearest.landmarks
  const scaled = createMatrix(rows, cols)
  for (let i = 0; i < data.length; i += cols) scaled.data.set(unstandardise(ensemble, data, i), i)
  return { rows: scaled, categories: nearest.categories }
}

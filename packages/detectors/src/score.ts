/**
 * Scoring: how normal rows are for a model; higher is more normal.
 *
 * Rows are checked once, at this edge: width, finite numbers, size of `out`. A scorer then works in its own scratch
 * memory without allocating. A row's score has the same bits in any batch and at any place in it.
 */
import { ArgumentError, asMatrix, checkFinite, type Matrix, type MatrixLike } from '@oddflow/core'
import { isNovel } from './calibration/threshold.js'
import type { DetectorDefinition, ModelFact } from './detector.js'
import type { DetectorModel, MixtureModel } from './model.js'
import type { SavedModel } from './model-file/saved-model.js'
import { DETECTORS } from './registry.js'
import type { ScoreParts, Scorer } from './scorer.js'

export type { ModelFact } from './detector.js'
export type { ScoreParts } from './scorer.js'

/** Scratch memory for one model and one caller; keeps only constants between calls. */
export interface ScoreWorkspace {
  readonly model: DetectorModel
  readonly scorer: Scorer
}

/** Options of `createScoreWorkspace`. */
export interface ScoreWorkspaceOptions {
  /** False: uses typed arrays even if WebAssembly SIMD is available. Scores have the same bits. Default true. */
  readonly simd?: boolean
}

/** The model must come from a fit or from `checkModel`. */
export function createScoreWorkspace(
  model: DetectorModel,
  { simd = true }: ScoreWorkspaceOptions = {},
): ScoreWorkspace {
  return { model, scorer: definitionOf(model).createScorer(model, { simd }) }
}

/**
 * out[i] = score of row i, i < rows.rows; returns `out`. Throws ArgumentError if a row is not finite or has another
 * width than the model's, if `out` is too short, or if the workspace belongs to another model.
 */
export function scoreSamples(
  model: DetectorModel,
  rows: Matrix | MatrixLike,
  out: Float64Array,
  workspace: ScoreWorkspace,
): Float64Array {
  const matrix = checkRows(model, rows, workspace)
  checkRoom(out, matrix.rows)
  workspace.scorer.score(matrix, out)
  return out
}

/** For each row, whether its score is novel by the model's threshold. Errors as `scoreSamples`. */
export function novelRows(
  { detector, threshold }: Pick<SavedModel, 'detector' | 'threshold'>,
  rows: Matrix | MatrixLike,
  workspace: ScoreWorkspace = createScoreWorkspace(detector),
): boolean[] {
  const scores = scoreSamples(detector, rows, new Float64Array(rows.rows), workspace)
  return Array.from(scores, (score) => isNovel(score, threshold))
}

/** out[i · d …] = φ′(row i); returns `out`. Errors as `scoreSamples`, and for models without an embedding. */
export function embedSamples(
  model: DetectorModel,
  rows: Matrix | MatrixLike,
  out: Float64Array,
  workspace: ScoreWorkspace,
): Float64Array {
  const matrix = checkRows(model, rows, workspace)
  const { scorer } = workspace
  const embedding = modelEmbedding(model)
  if (scorer.embed === undefined || embedding === null) {
    throw new ArgumentError(`model: ${model.kind} embeds nothing`, 'model')
  }
  checkRoom(out, matrix.rows * embedding.dimensions)
  scorer.embed(matrix, out)
  return out
}

/** Arrays for the score parts of `rows` rows. */
export function createScoreParts(rows: number): ScoreParts {
  return {
    unguarded: new Float64Array(rows),
    support: new Float64Array(rows),
    densityTerm: new Float64Array(rows),
    supportTerm: new Float64Array(rows),
  }
}

/** Whether `scoreParts` works for a model: only for detectors that embed. */
export function hasScoreParts(model: DetectorModel): boolean {
  return 'embedding' in model
}

/** The parts of all rows' scores, to explain them; returns `out`. Errors as `scoreSamples`. */
export function scoreParts(
  model: DetectorModel,
  rows: Matrix | MatrixLike,
  out: ScoreParts,
  workspace: ScoreWorkspace,
): ScoreParts {
  const matrix = checkRows(model, rows, workspace)
  const { scorer } = workspace
  if (scorer.parts === undefined) {
    throw new ArgumentError(`model: a score of ${model.kind} has no parts`, 'model')
  }
  for (const part of [out.unguarded, out.support, out.densityTerm, out.supportTerm]) {
    checkRoom(part, matrix.rows)
  }
  scorer.parts(matrix, out)
  return out
}

/** The embedding dimensions of a model and its mixture, if any; null without an embedding. */
export function modelEmbedding(
  model: DetectorModel,
): { readonly dimensions: number; readonly mixture: MixtureModel | null } | null {
  return definitionOf(model).embedding?.(model) ?? null
}

/**
 * Numbers that a scorer needs, counted as in the paper: m(d + D) + k(1 + d + d²) for an embedded mixture (plus m and
 * its tables, at most 260 numbers, for a support guard), SV·(D + 1) for a one-class SVM. A scaler is not counted.
 */
export function modelSpaceNumbers(model: DetectorModel): number {
  return definitionOf(model).spaceNumbers(model)
}

/** Facts about the detector's parts for people, in reading order. */
export function detectorFacts(model: DetectorModel): ModelFact[] {
  return definitionOf(model).facts(model)
}

/** The same for programs, by name. */
export function detectorFigures(model: DetectorModel): Readonly<Record<string, number>> {
  return definitionOf(model).figures(model)
}

function definitionOf({ kind }: DetectorModel): DetectorDefinition {
  return DETECTORS[kind]
}

function checkRows(model: DetectorModel, rows: Matrix | MatrixLike, workspace: ScoreWorkspace): Matrix {
  if (workspace.model !== model) {
    throw new ArgumentError('workspace: made for another model; call createScoreWorkspace', 'workspace')
  }
  const matrix = asMatrix(rows)
  const expected = model.fitReport.dimension
  if (matrix.cols !== expected && matrix.rows > 0) {
    throw new ArgumentError(`rows: expected ${expected} columns as in training, found ${matrix.cols}`, 'rows')
  }
  checkFinite(matrix, 'rows')
  return matrix
}

function checkRoom(out: Float64Array, needed: number): void {
  if (!(out instanceof Float64Array) || out.length < needed) {
    throw new ArgumentError(`out: expected a Float64Array of at least ${needed} numbers`, 'out')
  }
}

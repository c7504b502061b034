/**
 * Scorer: scores for one model and one caller. It owns its scratch memory, so a call allocates nothing.
 *
 * Rows are already checked: finite, and of the training width.
 */
import type { Matrix } from '@oddflow/core'
import type { ScalerModel } from './scaler.js'
import { scaledWidth, scaleInto } from './scaler.js'

/** The parts of scores; each array has room for all rows. */
export interface ScoreParts {
  /** The unguarded score: the mixture's log-density of φ′(x), or f(φ′(x)) of the linear SVM. */
  readonly unguarded: Float64Array
  /** −‖x − l‖² / r² for the nearest landmark l, with h² for r² if the model has no guard; may be −Infinity. */
  readonly support: Float64Array
  /** The score's two summands: logarithms of tail probabilities. Without a guard, the unguarded score and 0. */
  readonly densityTerm: Float64Array
  readonly supportTerm: Float64Array
}

export interface ScorerOptions {
  /** Whether SIMD kernels may be used if available; scores have the same bits either way. */
  readonly simd: boolean
}

export interface Scorer {
  /** out[i] = score of row i, higher = more normal. */
  score(rows: Matrix, out: Float64Array): void
  /** out[i · d …] = φ′(row i); only with an embedding. */
  embed?(rows: Matrix, out: Float64Array): void
  /** Only where a score has parts. */
  parts?(rows: Matrix, out: ScoreParts): void
}

const TILE_ROWS = 32

/**
 * Makes a scorer from one over scaled rows. It scales a tile of rows at a time, and remaining rows one by one. Numbers
 * that scaling moves out of range become the largest finite numbers. `scoreScaled` must give a row the same bits in any
 * batch. Its scores are made finite here: an overflow becomes the lowest score.
 */
export function createScaledScorer(
  scaler: ScalerModel,
  cols: number,
  scoreScaled: (rows: Matrix, out: Float64Array) => void,
): Scorer {
  if (scaler.kind === 'none' && scaler.categoryColumn === undefined) {
    return {
      score(rows, out) {
        scoreScaled(rows, out)
        keepFinite(out, rows.rows, -Number.MAX_VALUE)
      },
    }
  }
  const width = scaledWidth(scaler, cols)
  const data = new Float64Array(TILE_ROWS * width)
  const tile: Matrix = { rows: TILE_ROWS, cols: width, data }
  const single: Matrix = { rows: 1, cols: width, data: data.subarray(0, width) }
  const scores = new Float64Array(TILE_ROWS)
  return {
    score(rows, out) {
      for (let i = 0; i < rows.rows; ) {
        const part = i + TILE_ROWS <= rows.rows ? tile : single
        scaleInto(scaler, rows.data, i * cols, part.rows, cols, data)
        keepFinite(data, part.data.length, Number.MAX_VALUE)
        scoreScaled(part, scores)
        keepFinite(scores, part.rows, -Number.MAX_VALUE)
        for (let r = 0; r < part.rows; r++, i++) out[i] = scores[r]!
      }
    },
  }
}

/** Infinities become the largest numbers, NaN becomes `otherwise`. */
export function keepFinite(values: Float64Array, length: number, otherwise: number): void {
  for (let i = 0; i < length; i++) {
    const value = values[i]!
    if (value - value === 0) continue
    values[i] = value > 0 ? Number.MAX_VALUE : value < 0 ? -Number.MAX_VALUE : otherwise
  }
}

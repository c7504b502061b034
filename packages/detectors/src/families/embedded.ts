/**
 * Common parts of all detectors with an embedding: its options, its fit (scaler → bandwidth → landmarks and
 * projection), its scorer and its place in a model file.
 */

import type { Matrix } from '@oddflow/core'
import { exponentFactor, type Precision } from '@oddflow/linalg'
import { createSupportGuard } from '../calibration/support-guard.js'
import type { TailFunction } from '../calibration/tail-probability.js'
import { logTail } from '../calibration/tail-probability.js'
import type { FitContext, ModelFact } from '../detector.js'
import { chooseBandwidth, QUANTILE_OF } from '../embedding/bandwidth.js'
import { embedRows, fitEmbedding, rowsInPrecision } from '../embedding/embedding.js'
import {
  createEmbeddingKernel,
  EMBEDDING_TILE_ROWS,
  type EmbeddingKernelOptions,
} from '../embedding/embedding-kernel.js'
import { landmarkNotes } from '../embedding/landmarks.js'
import { type CWriter, double } from '../export-c/c-text.js'
import type { Fields } from '../fields.js'
import { fitScaledRows } from '../fit-rows.js'
import type { EmbeddingModel, ModelFrame, SupportGuardModel } from '../model.js'
import {
  encodeFields,
  type ModelFileParts,
  type ModelFileReader,
  matrixIn,
  type TensorFields,
} from '../model-file/layout.js'
import { BANDWIDTH_OPTIONS, type OptionName, type OptionReader } from '../options.js'
import type {
  BandwidthParameters,
  CommonParameters,
  EmbeddingParameters,
  LandmarkChoice,
  SketchParameters,
} from '../parameters.js'
import type { ScalerModel } from '../scaler.js'
import { scaleInto } from '../scaler.js'
import { keepFinite, type Scorer } from '../scorer.js'

/** The support guard inside a detector: its place in a model file, its size, and its description. */

const GUARD_FIELDS = { density: 'matrix', squaredReaches: 'vector', support: 'matrix' } as const

export function encodeGuard(guard: SupportGuardModel | null): ModelFileParts['tensors'] {
  return guard === null ? {} : encodeFields(guard, GUARD_FIELDS, 'supportGuard.')
}

/** Unchecked; null if the parameters request none. */
export function decodeGuard(file: ModelFileReader, parameters: Fields): Fields | null {
  return parameters.supportGuard === true ? file.fields(GUARD_FIELDS, 'supportGuard.') : null
}

/** Numbers: one for each landmark, and the two tables. */
export function guardSpaceNumbers(guard: SupportGuardModel | null): number {
  return guard === null
    ? 0
    : guard.squaredReaches.length + guard.density.data.length + guard.support.data.length
}

/** `unguarded`: what scores are without one. */
export function guardFact(guard: SupportGuardModel | null, unguarded: string): ModelFact {
  return { label: 'support guard', value: guard === null ? `none: scores are ${unguarded}` : 'on' }
}

export const EMBEDDING_OPTIONS = [
  ...BANDWIDTH_OPTIONS,
  'm',
  'landmarks',
  'd',
  'scaler',
  'precision',
] as const satisfies readonly OptionName[]

export function checkEmbeddingOptions(given: OptionReader, kind: EmbeddingParameters['kind']) {
  const embedding: EmbeddingParameters =
    kind === 'kjl' ? { kind, centre: given.read('centre') } : { kind: 'nystrom' }
  return {
    ...given.readAll(['scaler', 'precision', ...BANDWIDTH_OPTIONS, 'quantileRows', 'm', 'landmarks', 'd']),
    embedding,
  }
}

interface EmbeddedTraining {
  readonly scaler: ScalerModel
  readonly scaled: Matrix
  readonly embedding: EmbeddingModel
  readonly landmarkRows: Uint32Array
  /** n × d. */
  readonly embedded: Matrix
  readonly notes: readonly string[]
}

/** Reports the stages `bandwidth` and `embedding`. */
export function fitEmbedded(
  rows: Matrix,
  parameters: ReturnType<typeof checkEmbeddingOptions>,
  context: FitContext,
): EmbeddedTraining {
  const { rng, report, rowNotes, shared } = context
  report('bandwidth', 0)
  const { scaler, scaled } = fitScaledRows(rows, parameters.scaler, context)
  const { bandwidth, rowsUsed, note } = chooseBandwidth(
    scaled,
    parameters.bandwidthQuantile,
    rng,
    parameters,
    shared,
  )
  report('embedding', 0)
  const { m, d } = parameters
  const { kind } = parameters.embedding
  const centre = parameters.embedding.kind === 'kjl' && parameters.embedding.centre
  const { embedding, landmarkRows, embedded } = shared.once(
    'embedding',
    [scaled, bandwidth, m, parameters.landmarks, d, kind, centre],
    () => {
      const fitted = fitEmbedding(scaled, bandwidth, parameters, rng)
      return { ...fitted, embedded: embedRows(fitted.embedding, scaled) }
    },
  )
  const { landmarks, projection } = embedding
  const notes: string[] = []
  if (rowsUsed < rows.rows) {
    notes.push(`the bandwidth is the quantile over a random ${rowsUsed} of ${rows.rows} rows`)
  }
  if (note !== null) notes.push(note)
  notes.push(...rowNotes)
  notes.push(...landmarkNotes(m, landmarks.rows, rows.rows))
  if (projection.rows < d) {
    const rank = projection.rows
    notes.push(
      `d lowered from ${d} to ${rank}: the gram matrix of the ${landmarks.rows} landmarks has effective rank ${rank}, and ${d - rank} null directions were dropped`,
    )
  }
  return { scaler, scaled, embedding, landmarkRows, embedded, notes }
}

/** An embedding kernel for unscaled rows, at most EMBEDDING_TILE_ROWS at a time. */
interface Embedder {
  readonly dimensions: number
  /** φ′; `nearest` as in EmbeddingKernel. */
  tile(
    rows: Matrix,
    first: number,
    count: number,
    out: Float64Array,
    outStart: number,
    nearest?: Float64Array,
  ): void
  /** Log-densities; only with a mixture. */
  readonly logDensities: Embedder['tile']
}

function createEmbedder(
  scaler: ScalerModel,
  embedding: EmbeddingModel,
  options: EmbeddingKernelOptions,
): Embedder {
  const { cols } = embedding.landmarks
  const kernel = createEmbeddingKernel(embedding, options)
  if (scaler.kind === 'none' && scaler.categoryColumn === undefined) {
    return {
      dimensions: kernel.dimensions,
      tile: (rows, first, count, out, outStart, nearest) =>
        kernel.embed(rows.data, first * cols, count, out, outStart, nearest),
      logDensities: (rows, first, count, out, outStart, nearest) =>
        kernel.logDensities(rows.data, first * cols, count, out, outStart, nearest),
    }
  }
  const scaled = new Float64Array(EMBEDDING_TILE_ROWS * cols)
  return {
    dimensions: kernel.dimensions,
    tile(rows, first, count, out, outStart, nearest) {
      scaleInto(scaler, rows.data, first * rows.cols, count, rows.cols, scaled)
      kernel.embed(scaled, 0, count, out, outStart, nearest)
    },
    logDensities(rows, first, count, out, outStart, nearest) {
      scaleInto(scaler, rows.data, first * rows.cols, count, rows.cols, scaled)
      kernel.logDensities(scaled, 0, count, out, outStart, nearest)
    },
  }
}

/** What models with an embedding share. */
type EmbeddedModel = ModelFrame<CommonParameters & SketchParameters> & {
  readonly embedding: EmbeddingModel
  readonly supportGuard: SupportGuardModel | null
}

/** Writes the unguarded scores of `count` rows to `out`; `nearest` as in EmbeddingKernel. */
type UnguardedScores = Embedder['logDensities']

/**
 * Scores of an embedding: with a support guard the sum of two logarithms of tail probabilities (support-guard.ts),
 * otherwise the unguarded score.
 *
 * If squared distances overflow, the row is far from every landmark: its kernel row is 0 and its support −Infinity,
 * which the guard maps to a number.
 */
export function createEmbeddedScorer(
  { scaler, embedding, supportGuard, parameters: { precision } }: EmbeddedModel,
  options: Pick<EmbeddingKernelOptions, 'simd' | 'mixture'>,
  unguardedBy: (embedder: Embedder) => UnguardedScores,
): Scorer {
  const guard = supportGuard === null ? null : createSupportGuard(supportGuard)
  const nearestWeights =
    guard?.weights ??
    new Float64Array(embedding.landmarks.rows).fill(-exponentFactor(embedding.bandwidth, precision))
  const embedder = createEmbedder(scaler, embedding, { ...options, precision, nearestWeights })
  const unguarded = unguardedBy(embedder)
  const scores = new Float64Array(EMBEDDING_TILE_ROWS)
  const nearest = new Float64Array(EMBEDDING_TILE_ROWS)
  return {
    score(rows, out) {
      for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
        const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
        if (guard === null) {
          unguarded(rows, i, count, out, i)
          continue
        }
        unguarded(rows, i, count, scores, 0, nearest)
        for (let r = 0; r < count; r++) {
          out[i + r] = logTail(guard.density, scores[r]!) + logTail(guard.support, -nearest[r]!)
        }
      }
      keepFinite(out, rows.rows, -Number.MAX_VALUE)
    },
    embed(rows, out) {
      for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
        const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
        embedder.tile(rows, i, count, out, i * embedder.dimensions)
      }
    },
    parts(rows, out) {
      for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
        const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
        unguarded(rows, i, count, scores, 0, nearest)
        for (let r = 0; r < count; r++) {
          const score = scores[r]!
          const support = -nearest[r]!
          out.unguarded[i + r] = score
          out.support[i + r] = support
          out.densityTerm[i + r] = guard === null ? score : logTail(guard.density, score)
          out.supportTerm[i + r] = guard === null ? 0 : logTail(guard.support, support)
        }
      }
    },
  }
}

const embeddingFields = (precision: Precision): TensorFields => ({
  landmarks: matrixIn(precision),
  projection: 'matrix',
})

export function encodeEmbedding(embedding: EmbeddingModel, precision: Precision): ModelFileParts {
  const { kind, bandwidth } = embedding
  return {
    metadata: { embedding: { kind, bandwidth } },
    tensors: encodeFields(embedding, embeddingFields(precision), 'embedding.'),
  }
}

export function decodeEmbedding(file: ModelFileReader, precision: Precision): Fields {
  const head = file.json('embedding') as { kind?: unknown; bandwidth?: unknown } | null
  const tensors = file.fields(embeddingFields(precision), 'embedding.')
  return { kind: head?.kind, bandwidth: head?.bandwidth, ...tensors }
}

/** The embedding in a model's precision; unchanged for f64. Throws DataError as `rowsInPrecision`. */
export function embeddingInPrecision(embedding: EmbeddingModel, precision: Precision): EmbeddingModel {
  if (precision === 'f64') return embedding
  const { landmarks, bandwidth } = embedding
  return { ...embedding, landmarks: rowsInPrecision(landmarks, bandwidth, precision) }
}

/** For unchecked parameters from a file; older files do not have the field. */
export function storedPrecision({ precision }: Fields): Precision {
  return precision === 'f32' ? 'f32' : 'f64'
}

/** m(d + D); landmarks of float32 are half a number each. */
export function embeddingSpaceNumbers(
  { landmarks, projection }: EmbeddingModel,
  precision: Precision,
): number {
  return landmarks.rows * (projection.rows + (precision === 'f32' ? 0.5 : 1) * landmarks.cols)
}

export function bandwidthFact(
  bandwidth: number,
  { bandwidthQuantile, quantileCompat }: Pick<BandwidthParameters, 'bandwidthQuantile' | 'quantileCompat'>,
): ModelFact {
  return {
    label: 'bandwidth h',
    value: `${bandwidth.toPrecision(6)} (quantile ${bandwidthQuantile} of ${QUANTILE_OF[quantileCompat]})`,
  }
}

export function embeddingFacts(
  { bandwidth, landmarks, projection }: EmbeddingModel,
  parameters: BandwidthParameters & {
    readonly landmarks: LandmarkChoice
    readonly embedding: EmbeddingParameters
    readonly precision: Precision
  },
): ModelFact[] {
  const centred = parameters.embedding.kind === 'kjl' && parameters.embedding.centre
  return [
    bandwidthFact(bandwidth, parameters),
    {
      label: 'embedding',
      value: `${landmarks.rows} landmarks${parameters.landmarks === 'random' ? '' : `, ${parameters.landmarks}`}, ${projection.rows} dimensions${centred ? ', centred' : ''}${parameters.precision === 'f32' ? ', float32' : ''}`,
    },
  ]
}

// ---- C

/** Writes $PREFIXembed(x, z): z = φ′(x); returns −‖x − l‖² / r² of the nearest landmark l, or 0 without a guard. */
function writeEmbedding(
  c: CWriter,
  { landmarks, projection, bandwidth }: EmbeddingModel,
  precision: Precision,
  weights: Float64Array | null,
  prefix: string,
): void {
  const { rows: m, cols } = landmarks
  const d = projection.rows
  const points = c.table(`${prefix}landmarks`, 'double', landmarks.data)
  // a landmark's numbers side by side, since landmarks are walked through
  const transposed = Float64Array.from(
    { length: m * d },
    (_, at) => projection.data[(at % d) * m + Math.floor(at / d)]!,
  )
  const outputs = c.table(`${prefix}projection`, 'double', transposed)
  const inverses = weights === null ? null : c.table(`${prefix}inverse_reaches`, 'double', weights)
  const { setUp, value } = kernelValue(c, precision, bandwidth, cols, 'square')
  const isExact = precision === 'f64'
  const needsSquare = isExact || inverses !== null
  if (needsSquare) c.need('squares')
  c.code(`static inline double $${prefix}embed(const double *x, double *z) {
  ${inverses === null ? '' : 'double nearest = INFINITY;\n  int found = 0;\n  '}int i, j;
${needsSquare ? '  double squares[4];\n' : ''}${setUp}  for (i = 0; i < ${d}; i++) z[i] = 0.0;
  for (j = 0; j < ${m}; j++) {
${needsSquare ? `    const double square = $squares(x, ${points}, j, ${m}, ${cols}, squares);\n` : ''}    const double kernel = ${value(`${points} + j * ${cols}`)};
${
  inverses === null
    ? ''
    : `    if (square < nearest) {
      nearest = square;
      found = j;
    }
`
}    for (i = 0; i < ${d}; i++) z[i] += ${outputs}[j * ${d} + i] * kernel;
  }
  return ${inverses === null ? '0.0' : `-(${inverses}[found] * nearest)`};
}
`)
  c.stackBytes += 8 * d
}

/** C text of exp(−‖x − y‖² / h²) for a row y, `square` being ‖x − y‖²; and what goes before the loop over rows. */
export function kernelValue(
  c: CWriter,
  precision: Precision,
  bandwidth: number,
  cols: number,
  square: string,
): { readonly setUp: string; readonly value: (y: string) => string } {
  const factor = double(exponentFactor(bandwidth, precision))
  if (precision === 'f64') {
    c.need('exp')
    return { setUp: '', value: () => `$exp(${square} * ${factor})` }
  }
  c.need('exp32', 'single', 'square32')
  c.stackBytes += 4 * cols
  return {
    setUp: `  float x32[${cols}];\n  int t;\n  for (t = 0; t < ${cols}; t++) x32[t] = $single(x[t]);\n`,
    value: (y) => `$exp32($square32(x32, ${y}, ${cols}), ${factor}f)`,
  }
}

/** C text of log p of a value, by the table of a guard. */
function logTailOf(c: CWriter, table: TailFunction, name: string, value: string): string {
  c.need('log_tail')
  const values = c.table(`${name}_values`, 'double', table.values)
  const logs = c.table(`${name}_logs`, 'double', table.logTails)
  return `$log_tail(${value}, ${values}, ${logs}, ${table.count}, ${double(table.lowerSlope)}, ${double(table.upperScale)})`
}

/** Writes $PREFIXscore_scaled(x). `writeDecision` writes the function of φ′ and returns its name. */
export function writeEmbeddedScore(
  c: CWriter,
  { embedding, supportGuard, parameters }: EmbeddedModel,
  prefix: string,
  writeDecision: () => string,
): void {
  const guard = supportGuard === null ? null : createSupportGuard(supportGuard)
  writeEmbedding(c, embedding, parameters.precision, guard?.weights ?? null, prefix)
  const decision = writeDecision()
  c.need('finite')
  const z = `  double z[${embedding.projection.rows}];\n`
  if (guard === null) {
    c.scoreScaled(prefix, `${decision}(z)`, `${z}  $${prefix}embed(x, z);\n`)
    return
  }
  const density = logTailOf(c, guard.density, `${prefix}density_tail`, `${decision}(z)`)
  const support = logTailOf(c, guard.support, `${prefix}support_tail`, 'support')
  c.scoreScaled(
    prefix,
    `density + ${support}`,
    `${z}  const double support = $${prefix}embed(x, z);\n  const double density = ${density};\n`,
  )
}

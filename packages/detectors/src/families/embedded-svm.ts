/**
 * Embedding, then a linear one-class SVM (paper, figure "OC-KJL vs. OC-KJL-SVM"), which the paper compares its mixtures
 * with. A hyperplane separates little once the embedded rows no longer lie on a sphere, which is the point of the
 * comparison. With a support guard (support-guard.ts) the score is the sum of two logarithms of tail probabilities,
 * otherwise f.
 */

import type { Matrix } from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'
import { checkSupportGuard, fitSupportGuard } from '../calibration/support-guard.js'
import type { DetectorDefinition, FitContext, ModelFact, ModelHead } from '../detector.js'
import { checkEmbedding, checkRowsInPrecision } from '../embedding/embedding.js'
import { EMBEDDING_TILE_ROWS } from '../embedding/embedding-kernel.js'
import { type CWriter, parenthesised } from '../export-c/c-text.js'
import {
  bandwidthAt,
  type Fields,
  failField,
  fieldsAt,
  finiteAt,
  matrixAt,
  numbersAt,
  wholeAt,
} from '../fields.js'
import type { EmbeddingModel, ModelFrame, SupportGuardModel } from '../model.js'
import {
  encodeFields,
  type ModelFileParts,
  type ModelFileReader,
  matrixIn,
  type TensorFields,
} from '../model-file/layout.js'
import {
  fitOneClassSvm,
  type OneClassSvmModel,
  type OneClassSvmReport,
  type SvmKernel,
} from '../one-class-svm/fit.js'
import { createOneClassSvmWorkspace, scoreOneClassSvm } from '../one-class-svm/score.js'
import type { OptionReader } from '../options.js'
import type { CommonParameters, EmbeddingParameters, SketchParameters } from '../parameters.js'
import type { Scorer, ScorerOptions } from '../scorer.js'
import {
  checkEmbeddingOptions,
  createEmbeddedScorer,
  decodeEmbedding,
  decodeGuard,
  EMBEDDING_OPTIONS,
  embeddingFacts,
  embeddingInPrecision,
  embeddingSpaceNumbers,
  encodeEmbedding,
  encodeGuard,
  fitEmbedded,
  guardFact,
  guardSpaceNumbers,
  kernelValue,
  storedPrecision,
  writeEmbeddedScore,
} from './embedded.js'

/** Detectors that embed rows by a sketch and separate them by a linear one-class SVM. */
export const EMBEDDED_SVM_NAMES = ['oc-kjl-svm', 'oc-nystrom-svm'] as const

/** One of EMBEDDED_SVM_NAMES. */
export type EmbeddedSvmName = (typeof EMBEDDED_SVM_NAMES)[number]

/** Checked parameters of a sketch with a linear one-class SVM. */
export interface EmbeddedSvmParameters extends CommonParameters<EmbeddedSvmName>, SketchParameters {
  readonly nu: number
  readonly tolerance: number
}

/** A fitted sketch of the Gaussian kernel with a linear one-class SVM over it. */
export interface EmbeddedSvmModel extends ModelFrame<EmbeddedSvmParameters> {
  readonly embedding: EmbeddingModel
  /** With the linear kernel, over rows of d dimensions. */
  readonly svm: OneClassSvmModel
  /** null: scores are f(φ′(x)), as in the paper. */
  readonly supportGuard: SupportGuardModel | null
}

/** One-class SVMs inside a detector: options, checks and their place in a model file. */

export function svmNotes({ report }: OneClassSvmModel): string[] {
  if (report.stop === 'steps') {
    return [
      `the one-class SVM stopped after ${report.iterations} steps, ${report.violation.toPrecision(3)} short of its optimum`,
    ]
  }
  if (report.stop === 'resolution') {
    return [
      `the one-class SVM is as close to its optimum as float64 can tell, ${report.violation.toPrecision(3)} by its own measure`,
    ]
  }
  return []
}

export function svmFact({ nu, report }: OneClassSvmModel): string {
  const state = report.converged ? '' : ', not converged'
  return `nu ${nu}, ${report.supportVectors} support vectors (${report.boundSupportVectors} at their bound), ${report.iterations} steps${state}`
}

/** SV·(D + 1); support vectors of float32 are half a number each. */
export function svmSpaceNumbers({ supportVectors }: OneClassSvmModel, precision: Precision = 'f64'): number {
  return supportVectors.rows * ((precision === 'f32' ? 0.5 : 1) * supportVectors.cols + 1)
}

const svmFields = (precision: Precision): TensorFields => ({
  supportVectors: matrixIn(precision),
  dualCoefficients: 'vector',
})

export function encodeSvm(svm: OneClassSvmModel, precision: Precision = 'f64'): ModelFileParts {
  const { kernel, nu, offset, report } = svm
  return {
    metadata: { svm: { kernel, nu, offset, report } },
    tensors: encodeFields(svm, svmFields(precision), 'svm.'),
  }
}

export function decodeSvm(file: ModelFileReader, precision: Precision = 'f64'): Fields {
  const { kernel, nu, offset, report } = fieldsAt(file.json('svm'), 'svm')
  return { kernel, nu, offset, report, ...file.fields(svmFields(precision), 'svm.') }
}

/** An SVM of that kernel and ν over rows of `dimension` numbers. */
export function checkSvm(
  value: unknown,
  kernelKind: SvmKernel['kind'],
  nu: number,
  dimension: number,
  precision: Precision = 'f64',
): OneClassSvmModel {
  const svm = fieldsAt(value, 'svm')
  if (svm.nu !== nu) failField('svm.nu', `${nu}`, svm.nu)
  const supportVectors = matrixAt(svm.supportVectors, 'svm.supportVectors')
  if (supportVectors.rows < 1) failField('svm.supportVectors', 'at least one row', supportVectors.rows)
  if (supportVectors.cols !== dimension) {
    failField('svm.supportVectors', `${dimension} columns`, supportVectors.cols)
  }
  const dualCoefficients = numbersAt(svm.dualCoefficients, 'svm.dualCoefficients')
  if (dualCoefficients.length !== supportVectors.rows) {
    failField('svm.dualCoefficients', `${supportVectors.rows} numbers`, dualCoefficients.length)
  }
  for (const v of dualCoefficients) {
    if (!(v > 0 && v <= 1)) failField('svm.dualCoefficients', 'numbers above 0, at most 1', v)
  }
  const report = checkSvmReport(fieldsAt(svm.report, 'svm.report'), supportVectors.rows)
  const kernel = checkKernel(fieldsAt(svm.kernel, 'svm.kernel'), kernelKind)
  if (kernel.kind === 'rbf') {
    checkRowsInPrecision(
      supportVectors,
      'svm.supportVectors',
      kernel.bandwidth,
      'svm.kernel.bandwidth',
      precision,
    )
  }
  return {
    kernel,
    nu,
    supportVectors,
    dualCoefficients,
    offset: finiteAt(svm.offset, 'svm.offset'),
    report,
  }
}

function checkKernel({ kind, bandwidth }: Fields, expected: SvmKernel['kind']): SvmKernel {
  if (kind !== expected) failField('svm.kernel.kind', expected, kind)
  if (expected === 'linear') return { kind: 'linear' }
  return { kind: 'rbf', bandwidth: bandwidthAt(bandwidth, 'svm.kernel.bandwidth') }
}

function checkSvmReport(r: Fields, supportVectors: number): OneClassSvmReport {
  const { precision, stop } = r
  if (precision !== 'float32' && precision !== 'float64') {
    return failField('svm.report.precision', 'float32 or float64', precision)
  }
  if (stop !== 'tolerance' && stop !== 'resolution' && stop !== 'steps') {
    return failField('svm.report.stop', 'tolerance, resolution or steps', stop)
  }
  if (r.supportVectors !== supportVectors) {
    failField('svm.report.supportVectors', `${supportVectors}`, r.supportVectors)
  }
  if (r.converged !== (stop !== 'steps')) {
    failField('svm.report.converged', `${stop !== 'steps'}`, r.converged)
  }
  return {
    precision,
    n: wholeAt(r.n, 'svm.report.n'),
    supportVectors,
    boundSupportVectors: wholeAt(r.boundSupportVectors, 'svm.report.boundSupportVectors'),
    objective: finiteAt(r.objective, 'svm.report.objective'),
    converged: stop !== 'steps',
    stop,
    iterations: wholeAt(r.iterations, 'svm.report.iterations'),
    violation: finiteAt(r.violation, 'svm.report.violation'),
    kernelRows: wholeAt(r.kernelRows, 'svm.report.kernelRows'),
    shrinkings: wholeAt(r.shrinkings, 'svm.report.shrinkings'),
  }
}

function embeddedSvm(
  name: EmbeddedSvmName,
  summary: string,
  embeddingKind: EmbeddingParameters['kind'],
): DetectorDefinition<EmbeddedSvmParameters, EmbeddedSvmModel> {
  return {
    name,
    summary,
    options: [
      ...EMBEDDING_OPTIONS,
      'nu',
      'supportGuard',
      ...(embeddingKind === 'kjl' ? (['centre'] as const) : []),
    ],
    stages: ['bandwidth', 'embedding', 'fit'],
    metadataKeys: ['embedding', 'svm'],

    checkParameters(given: OptionReader): EmbeddedSvmParameters {
      return {
        detector: name,
        ...checkEmbeddingOptions(given, embeddingKind),
        nu: given.read('nu'),
        tolerance: given.readPositiveTolerance(),
        supportGuard: given.read('supportGuard'),
      }
    },

    createScorer(model: EmbeddedSvmModel, { simd }: ScorerOptions): Scorer {
      const { svm } = model
      return createEmbeddedScorer(model, { simd }, (embedder) => {
        const workspace = createOneClassSvmWorkspace(svm)
        const data = new Float64Array(EMBEDDING_TILE_ROWS * embedder.dimensions)
        const scores = new Float64Array(EMBEDDING_TILE_ROWS)
        // rows of a part-filled tile are scored too and ignored: one matrix suffices
        const tile: Matrix = { rows: EMBEDDING_TILE_ROWS, cols: embedder.dimensions, data }
        return (rows, first, count, out, outStart, nearest) => {
          embedder.tile(rows, first, count, data, 0, nearest)
          scoreOneClassSvm(svm, tile, scores, workspace)
          for (let r = 0; r < count; r++) out[outStart + r] = scores[r]!
        }
      })
    },

    checkModel(value: Fields, parameters: EmbeddedSvmParameters, head: ModelHead): EmbeddedSvmModel {
      const embedding = checkEmbedding(value.embedding, parameters, head.dimension)
      const svm = checkSvm(value.svm, 'linear', parameters.nu, embedding.projection.rows)
      const supportGuard = checkSupportGuard(value.supportGuard, embedding, parameters.supportGuard)
      const { scaler, fitReport } = head
      return { kind: name, parameters, scaler, embedding, svm, supportGuard, fitReport }
    },

    encode({ embedding, svm, supportGuard, parameters }: EmbeddedSvmModel): ModelFileParts {
      const a = encodeEmbedding(embedding, parameters.precision)
      const b = encodeSvm(svm)
      return {
        metadata: { ...a.metadata, ...b.metadata },
        tensors: { ...a.tensors, ...b.tensors, ...encodeGuard(supportGuard) },
      }
    },

    decode(file: ModelFileReader, parameters: Fields): Fields {
      return {
        embedding: decodeEmbedding(file, storedPrecision(parameters)),
        svm: decodeSvm(file),
        supportGuard: decodeGuard(file, parameters),
      }
    },

    spaceNumbers({ embedding, svm, supportGuard, parameters }: EmbeddedSvmModel): number {
      return (
        embeddingSpaceNumbers(embedding, parameters.precision) +
        svmSpaceNumbers(svm) +
        guardSpaceNumbers(supportGuard)
      )
    },

    facts({ embedding, svm, supportGuard, parameters }: EmbeddedSvmModel): ModelFact[] {
      return [
        ...embeddingFacts(embedding, parameters),
        { label: 'linear SVM', value: svmFact(svm) },
        guardFact(supportGuard, 'distances from the hyperplane'),
      ]
    },

    figures({ embedding, svm }: EmbeddedSvmModel) {
      return { bandwidth: embedding.bandwidth, supportVectors: svm.supportVectors.rows }
    },

    normalExamples({ embedding }: EmbeddedSvmModel) {
      return { rows: embedding.landmarks }
    },

    embedding({ embedding }: EmbeddedSvmModel) {
      return { dimensions: embedding.projection.rows, mixture: null }
    },
  }
}

export function fitEmbeddedSvm(
  rows: Matrix,
  parameters: EmbeddedSvmParameters,
  context: FitContext,
): EmbeddedSvmModel {
  const trained = fitEmbedded(rows, parameters, context)
  const { scaler, scaled, landmarkRows, embedded, notes } = trained
  const embedding = embeddingInPrecision(trained.embedding, parameters.precision)
  context.report('fit', 0)
  const { nu, tolerance } = parameters
  const svm = fitOneClassSvm(embedded, { kernel: { kind: 'linear' }, nu, tolerance })
  const supportGuard = parameters.supportGuard
    ? fitSupportGuard(scaled, embedding, landmarkRows, scoresOf(svm, embedded))
    : null
  context.report('fit', 1)
  return {
    kind: parameters.detector,
    parameters,
    scaler,
    embedding,
    svm,
    supportGuard,
    fitReport: {
      trainingRows: rows.rows,
      dimension: rows.cols,
      notes: [...notes, ...svmNotes(svm)],
    },
  }
}

function scoresOf(svm: OneClassSvmModel, embedded: Matrix): Float64Array {
  return scoreOneClassSvm(svm, embedded, new Float64Array(embedded.rows), createOneClassSvmWorkspace(svm))
}

// ---- the detectors

export const ocKjlSvm: DetectorDefinition<EmbeddedSvmParameters, EmbeddedSvmModel> = embeddedSvm(
  'oc-kjl-svm',
  'KJL sketch, linear one-class SVM',
  'kjl',
)

export const ocNystromSvm: DetectorDefinition<EmbeddedSvmParameters, EmbeddedSvmModel> = embeddedSvm(
  'oc-nystrom-svm',
  'Nyström embedding, linear one-class SVM',
  'nystrom',
)

// ---- C

/** Writes $PREFIXdecide(x): f of a one-class SVM. */
export function writeSvm(c: CWriter, svm: OneClassSvmModel, precision: Precision, prefix: string): void {
  const { rows: n, cols, data } = svm.supportVectors
  const open = `static inline double $${prefix}decide(const double *x) {\n`
  if (svm.kernel.kind === 'linear') {
    const { normal } = createOneClassSvmWorkspace(svm, { simd: false })
    const table = c.table(`${prefix}normal`, 'double', normal)
    c.code(`${open}  double sum = 0.0;
  int i;
  for (i = 0; i < ${cols}; i++) sum += ${table}[i] * x[i];
  return sum - ${parenthesised(svm.offset)};
}
`)
    return
  }
  const vectors = c.table(`${prefix}vectors`, 'double', data)
  const alphas = c.table(`${prefix}alphas`, 'double', svm.dualCoefficients)
  const square = `$squares(x, ${vectors}, i, ${n}, ${cols}, squares)`
  const { setUp, value } = kernelValue(c, precision, svm.kernel.bandwidth, cols, square)
  const isExact = precision === 'f64'
  if (isExact) c.need('squares')
  c.stackBytes += 32
  c.code(`${open}  double sums[4] = {0.0, 0.0, 0.0, 0.0};
  int i;
${isExact ? '  double squares[4];\n' : ''}${setUp}  for (i = 0; i < ${n}; i++) {
    sums[i % 4] += ${value(`${vectors} + i * ${cols}`)} * ${alphas}[i];
  }
  return sums[0] + sums[1] + (sums[2] + sums[3]) - ${parenthesised(svm.offset)};
}
`)
}

export function writeEmbeddedSvm(c: CWriter, model: EmbeddedSvmModel, prefix: string): void {
  writeEmbeddedScore(c, model, prefix, () => {
    writeSvm(c, model.svm, 'f64', prefix)
    return `$${prefix}decide`
  })
}

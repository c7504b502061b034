/** ocsvm: the one-class SVM that the paper compares its detectors with, with a Gaussian or linear kernel. */

import type { Matrix } from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'
import type { DetectorDefinition, FitContext, ModelFact, ModelHead } from '../detector.js'
import { chooseBandwidth } from '../embedding/bandwidth.js'
import { rowsInPrecision } from '../embedding/embedding.js'
import type { CWriter } from '../export-c/c-text.js'
import { bandwidthFact, storedPrecision } from '../families/embedded.js'
import {
  checkSvm,
  decodeSvm,
  encodeSvm,
  svmFact,
  svmNotes,
  svmSpaceNumbers,
  writeSvm,
} from '../families/embedded-svm.js'
import type { Fields } from '../fields.js'
import { fitScaledRows } from '../fit-rows.js'
import type { ModelFrame } from '../model.js'
import type { ModelFileParts, ModelFileReader } from '../model-file/layout.js'
import { fitOneClassSvm, type OneClassSvmModel, type SvmKernel } from '../one-class-svm/fit.js'
import { createOneClassSvmWorkspace, scoreOneClassSvm } from '../one-class-svm/score.js'
import {
  BANDWIDTH_OPTIONS,
  badOption,
  constant,
  type OptionReader,
  oneOf,
  type ValuesOf,
} from '../options.js'
import type { CommonParameters, QuantileCompat } from '../parameters.js'
import { createScaledScorer, type Scorer, type ScorerOptions } from '../scorer.js'

const OWN = {
  kernel: constant<'rbf' | 'linear'>('rbf', oneOf(['rbf', 'linear'])),
}

/** Checked parameters of a one-class SVM. */
export interface OcsvmParameters extends CommonParameters<'ocsvm'>, ValuesOf<typeof OWN> {
  /** null for the linear kernel, as the next three. */
  readonly precision: Precision | null
  readonly bandwidthQuantile: number | null
  readonly quantileCompat: QuantileCompat | null
  readonly quantileRows: number | null
  readonly nu: number
  readonly tolerance: number
}

/** A fitted one-class SVM: support vectors, dual coefficients and offset. */
export interface OcsvmModel extends ModelFrame<OcsvmParameters> {
  readonly svm: OneClassSvmModel
}

const NO_BANDWIDTH = { bandwidthQuantile: null, quantileCompat: null, quantileRows: null, precision: null }

export const ocsvm: DetectorDefinition<OcsvmParameters, OcsvmModel, typeof OWN> = {
  name: 'ocsvm',
  summary: 'one-class SVM with a Gaussian kernel',
  options: ['scaler', 'precision', ...BANDWIDTH_OPTIONS, 'nu'],
  own: OWN,
  stages: ['bandwidth', 'fit'],
  metadataKeys: ['svm'],

  checkParameters(given: OptionReader): OcsvmParameters {
    const { kernel } = given.readOwn(OWN)
    if (kernel === 'linear') {
      const idle = ([...BANDWIDTH_OPTIONS, 'quantileRows'] as const).find((option) => given.has(option))
      if (given.has('precision'))
        throw badOption('precision', 'none, since a linear kernel has no kernel rows', 'one')
      if (idle !== undefined) throw badOption(idle, 'none, since a linear kernel has no bandwidth', 'one')
    }
    return {
      detector: 'ocsvm',
      scaler: given.read('scaler'),
      kernel,
      ...(kernel === 'linear'
        ? NO_BANDWIDTH
        : { precision: given.read('precision'), ...given.readAll([...BANDWIDTH_OPTIONS, 'quantileRows']) }),
      nu: given.read('nu'),
      tolerance: given.readPositiveTolerance(),
    }
  },

  createScorer({ scaler, svm, fitReport, parameters }: OcsvmModel, { simd }: ScorerOptions): Scorer {
    const workspace = createOneClassSvmWorkspace(svm, { precision: parameters.precision ?? 'f64', simd })
    return createScaledScorer(scaler, fitReport.dimension, (rows, out) => {
      scoreOneClassSvm(svm, rows, out, workspace)
    })
  },

  checkModel(value: Fields, parameters: OcsvmParameters, head: ModelHead): OcsvmModel {
    const svm = checkSvm(
      value.svm,
      parameters.kernel,
      parameters.nu,
      head.dimension,
      parameters.precision ?? 'f64',
    )
    return { kind: 'ocsvm', parameters, scaler: head.scaler, svm, fitReport: head.fitReport }
  },

  encode({ svm, parameters }: OcsvmModel): ModelFileParts {
    return encodeSvm(svm, parameters.precision ?? 'f64')
  },

  decode(file: ModelFileReader, parameters: Fields): Fields {
    return { svm: decodeSvm(file, storedPrecision(parameters)) }
  },

  spaceNumbers({ svm, parameters }: OcsvmModel): number {
    return svmSpaceNumbers(svm, parameters.precision ?? 'f64')
  },

  facts({ svm, parameters }: OcsvmModel): ModelFact[] {
    const single = parameters.precision === 'f32' ? ', float32' : ''
    const fact = { label: `${svm.kernel.kind} SVM`, value: `${svmFact(svm)}${single}` }
    const { bandwidthQuantile, quantileCompat } = parameters
    if (svm.kernel.kind === 'linear' || bandwidthQuantile === null || quantileCompat === null) return [fact]
    return [bandwidthFact(svm.kernel.bandwidth, { bandwidthQuantile, quantileCompat }), fact]
  },

  figures({ svm }: OcsvmModel) {
    const supportVectors = svm.supportVectors.rows
    return svm.kernel.kind === 'rbf'
      ? { bandwidth: svm.kernel.bandwidth, supportVectors }
      : { supportVectors }
  },

  normalExamples({ svm }: OcsvmModel) {
    return { rows: svm.supportVectors }
  },
}

export function fitOcsvm(rows: Matrix, parameters: OcsvmParameters, context: FitContext): OcsvmModel {
  const { rng, report, rowNotes, shared } = context
  report('bandwidth', 0)
  const { bandwidthQuantile, quantileCompat, quantileRows, nu, tolerance } = parameters
  const { scaler, scaled } = fitScaledRows(rows, parameters.scaler, context)
  const notes: string[] = []
  let kernel: SvmKernel = { kind: 'linear' }
  if (bandwidthQuantile !== null && quantileCompat !== null && quantileRows !== null) {
    const rule = { quantileCompat, quantileRows }
    const { bandwidth, rowsUsed, note } = chooseBandwidth(scaled, bandwidthQuantile, rng, rule, shared)
    if (rowsUsed < rows.rows) {
      notes.push(`the bandwidth is the quantile over a random ${rowsUsed} of ${rows.rows} rows`)
    }
    if (note !== null) notes.push(note)
    kernel = { kind: 'rbf', bandwidth }
  }
  report('fit', 0)
  const svm = inPrecision(fitOneClassSvm(scaled, { kernel, nu, tolerance }), parameters.precision)
  report('fit', 1)
  return {
    kind: 'ocsvm',
    parameters,
    scaler,
    svm,
    fitReport: {
      trainingRows: rows.rows,
      dimension: rows.cols,
      notes: [...notes, ...rowNotes, ...svmNotes(svm)],
    },
  }
}

/** Support vectors in the model's precision; coefficients and offset do not change. */
function inPrecision(svm: OneClassSvmModel, precision: Precision | null): OneClassSvmModel {
  const { kernel, supportVectors } = svm
  if (kernel.kind === 'linear' || precision === null) return svm
  return { ...svm, supportVectors: rowsInPrecision(supportVectors, kernel.bandwidth, precision) }
}

// ---- C

export function writeOcsvm(c: CWriter, { svm, parameters }: OcsvmModel, prefix: string): void {
  writeSvm(c, svm, parameters.precision ?? 'f64', prefix)
  c.scoreScaled(prefix, `$${prefix}decide(x)`)
}

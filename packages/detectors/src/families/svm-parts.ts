/** One-class SVMs inside a detector: options, checks and their place in a model file. */
import type { Precision } from '@oddflow/linalg'
import { failField, fieldsAt, finiteAt, matrixAt, numbersAt, wholeAt } from '../check-parts.js'
import type { Fields } from '../model-fields.js'
import { type ModelFileParts, type ModelFileReader, matrixTensor, vectorTensor } from '../model-file/parts.js'
import type { OneClassSvmModel, OneClassSvmReport, SvmKernel } from '../one-class-svm/index.js'
import { checkRowsInPrecision } from '../rounded-rows.js'

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

export function encodeSvm(
  { kernel, nu, offset, report, ...arrays }: OneClassSvmModel,
  precision: Precision = 'f64',
): ModelFileParts {
  return {
    metadata: { svm: { kernel, nu, offset, report } },
    tensors: {
      'svm.dualCoefficients': vectorTensor(arrays.dualCoefficients),
      'svm.supportVectors': matrixTensor(arrays.supportVectors, precision),
    },
  }
}

export function decodeSvm(file: ModelFileReader, precision: Precision = 'f64'): Fields {
  const { kernel, nu, offset, report } = fieldsAt(file.json('svm'), 'svm')
  return {
    kernel,
    nu,
    offset,
    report,
    supportVectors: file.matrix('svm.supportVectors', precision),
    dualCoefficients: file.vector('svm.dualCoefficients'),
  }
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
  const h = finiteAt(bandwidth, 'svm.kernel.bandwidth')
  const inverse = 1 / (h * h)
  if (!(h > 0 && inverse > 0 && Number.isFinite(inverse))) {
    failField('svm.kernel.bandwidth', 'a positive number whose square has an inverse', h)
  }
  return { kind: 'rbf', bandwidth: h }
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

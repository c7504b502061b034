/**
 * A model as one C99 header: constant tables and functions, no allocation and no state. Scores have the bits that
 * `scoreSamples` gives: the same operations in the same order, with core's exp and log.
 *
 * Only numbers of the model reach the header, no text, so a hostile model cannot put code into it.
 *
 * Sections: the header, tables, the scaler, parts that detectors share, the detectors, the C functions of all models.
 */
import { ArgumentError, columnLabel, featureColumns, type Matrix } from '@oddflow/core'
import { exponentFactor, type Precision } from '@oddflow/linalg'
import { HIGHEST_SURPRISE, type SurpriseCurve, TAIL_SURPRISE } from './calibration/held-out.js'
import { createSupportGuard } from './calibration/support-guard.js'
import { LOWEST_LOG_TAIL, type TailFunction } from './calibration/tail-probability.js'
import { type ColumnHistograms, createHistogramViews } from './detectors/hbos.js'
import { createIsolationForestWorkspace } from './detectors/iforest.js'
import { createKernelDensityWorkspace } from './detectors/kde.js'
import { FAR_SCALE } from './detectors/nearest.js'
import { type EnsembleMember, LARGEST_STANDARDISED } from './ensemble/ensemble-part.js'
import { FOREIGN_DISTANCE, LEAST_BIN_WIDTH, runsOf, viewWeights } from './ensemble/members.js'
import { packTypedMixture } from './mixture/covariance-types.js'
import { type Mixture, packMixture } from './mixture/gaussian-mixture.js'
import type { DetectorModel, EmbeddingModel, EnsembleModel, SupportGuardModel } from './model.js'
import type { SavedModel } from './model-file/saved-model.js'
import { createOneClassSvmWorkspace, type OneClassSvmModel } from './one-class-svm/index.js'
import { type ScalerModel, scaledWidth } from './scaler.js'

/** Options of `encodeCHeader`. */
export interface CHeaderOptions {
  /** Prefix of all names in the header; in capitals, of its macros. Default `oddflow`. */
  readonly name?: string
}

/** A model as a C99 header, and the memory that it needs. */
export interface CHeader {
  readonly text: string
  /** Of all constant tables. */
  readonly tableBytes: number
  /** Of the arrays that are on the stack at once. */
  readonly stackBytes: number
}

/** The same model gives the same text. Throws ArgumentError where the name is no identifier. */
export function encodeCHeader(saved: SavedModel, { name = 'oddflow' }: CHeaderOptions = {}): CHeader {
  if (!/^[A-Za-z][A-Za-z0-9_]{0,39}$/.test(name)) {
    throw new ArgumentError(
      `name: expected at most 40 letters, digits and underscores, a letter first, found ${JSON.stringify(name).slice(0, 60)}`,
      'name',
    )
  }
  const { detector, contract, threshold } = saved
  const c = new CWriter(name)
  const cols = detector.fitReport.dimension
  const width = scaledWidth(detector.scaler, cols)
  // embeddings take infinities for what they are
  writeScaler(c, detector.scaler, width, !('embedding' in detector))
  writeDetector(c, detector, width)
  const category = detector.scaler.categoryColumn
  c.stackBytes += 8 * width
  const upper = name.toUpperCase()
  const labels = contract.featureSet === 'rows' || cols > 64 ? [] : featureColumns(contract).map(columnLabel)
  const columns = labels.map((label, i) => ` *   ${String(i).padStart(2)}  ${label}\n`).join('')
  const text = `/*
 * An OddFlow model as C99: detector ${detector.kind}, ${cols} columns.
 *
 *   double row[${upper}_COLUMNS];               one row of features
 *   double score = ${name}_score(row);          higher = more normal; not a number where the row is not finite
 *   if (${name}_is_novel(score)) ...            score <= ${upper}_THRESHOLD
 *
 * ${c.tableBytes} bytes of constant tables, ${c.stackBytes} bytes of arrays on the stack, no allocation, no state.
 * Compile with -std=c99 -ffp-contract=off and without -ffast-math: scores then have the bits of OddFlow's. Link
 * with -lm (floor, sqrt).
${columns === '' ? '' : ` *\n * Columns:\n${columns}`} */
#ifndef ${upper}_MODEL_H
#define ${upper}_MODEL_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "double arithmetic has excess precision here; on 32-bit x86 compile with -msse2 -mfpmath=sse"
#endif
#ifdef __FAST_MATH__
#error "-ffast-math changes the scores"
#endif

#define ${upper}_COLUMNS ${cols}
#define ${upper}_THRESHOLD (${double(threshold.value)})

${c.render()}
static inline double ${name}_score(const double row[${upper}_COLUMNS]) {
  double x[${width}];
  int i;
  for (i = 0; i < ${cols}; i++) {
    if (!(row[i] - row[i] == 0.0)) return row[i] - row[i];
  }
  ${name}_scale(row, x);
  return ${name}_detector(x, ${category === undefined ? '0.0' : `row[${category}]`});
}

static inline int ${name}_is_novel(double score) {
  return !(score > ${upper}_THRESHOLD);
}

#endif
`
  return { text, tableBytes: c.tableBytes, stackBytes: c.stackBytes }
}

// ---- tables

const BYTES = { double: 8, float: 4, int32_t: 4, uint16_t: 2 } as const

/** Numbers as C reads them: the shortest text of the same double. */
function double(value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value)
  return /[.e]/.test(text) ? text : `${text}.0`
}

/** Collects tables and functions; \$ in C text stands for the header's prefix. */
class CWriter {
  tableBytes = 0
  stackBytes = 0
  private readonly needed = new Set<HelperName>()
  private readonly parts: string[] = []

  constructor(private readonly name: string) {}

  table(name: string, type: keyof typeof BYTES, values: ArrayLike<number>): string {
    this.tableBytes += BYTES[type] * values.length
    const lines: string[] = []
    let line = ' '
    for (let i = 0; i < values.length; i++) {
      const text = type === 'double' || type === 'float' ? double(values[i]!) : String(values[i])
      const item = ` ${text}${type === 'float' ? 'f' : ''},`
      if (line.length + item.length > 116) {
        lines.push(line)
        line = ' '
      }
      line += item
    }
    lines.push(line)
    this.parts.push(`static const ${type} $${name}[${values.length}] = {\n${lines.join('\n')}\n};\n`)
    return `$${name}`
  }

  code(text: string): void {
    this.parts.push(text)
  }

  need(...names: readonly HelperName[]): void {
    for (const name of names) {
      if (this.needed.has(name)) continue
      this.need(...HELPERS[name].needs)
      // its caller's four squares
      if (name === 'squares') this.stackBytes += 32
      this.needed.add(name)
    }
  }

  render(): string {
    const helpers = [...this.needed].map((name) => HELPERS[name].code)
    return [...helpers, ...this.parts].join('\n').replaceAll('$', () => `${this.name}_`)
  }
}

// ---- the scaler

function writeScaler(c: CWriter, scaler: ScalerModel, width: number, keepsFinite: boolean): void {
  const { categoryColumn = width } = scaler
  const column = categoryColumn === width ? 'row[j]' : `row[j < ${categoryColumn} ? j : j + 1]`
  let value = column
  if (scaler.kind === 'log' || scaler.kind === 'log-standard') {
    c.need('signed_log')
    value = `$signed_log(${column})`
  }
  if (scaler.kind === 'standard' || scaler.kind === 'log-standard') {
    const mean = c.table('scaler_mean', 'double', scaler.mean)
    const scale = c.table('scaler_scale', 'double', scaler.scale)
    value = `(${value} - ${mean}[j]) / ${scale}[j]`
  }
  if (scaler.kind === 'quantile') {
    c.need('quantile')
    const starts = c.table('scaler_starts', 'int32_t', scaler.starts)
    const knots = c.table('scaler_knots', 'double', scaler.knots)
    const positions = c.table('scaler_positions', 'double', scaler.positions)
    value = `$quantile(${column}, ${knots} + ${starts}[j], ${positions} + ${starts}[j], ${starts}[j + 1] - ${starts}[j])`
  }
  if (keepsFinite && scaler.kind !== 'none') {
    c.need('finite')
    value = `$finite(${value}, DBL_MAX)`
  }
  c.code(`static inline void $scale(const double *row, double *x) {
  int j;
  for (j = 0; j < ${width}; j++) x[j] = ${value};
}
`)
}

// ---- what detectors share

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
function kernelValue(
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
  c.need('exp32', 'square32')
  c.stackBytes += 4 * cols
  return {
    setUp: `  float x32[${cols}];\n  int t;\n  for (t = 0; t < ${cols}; t++) x32[t] = $single(x[t]);\n`,
    value: (y) => `$exp32($square32(x32, ${y}, ${cols}), ${factor}f)`,
  }
}

/** Writes $PREFIXdensity(z): the log-density of a mixture. */
function writeMixture(c: CWriter, mixture: Mixture, prefix: string): void {
  const { rows: k, cols: d } = mixture.means
  c.need('log_sum_exp')
  c.stackBytes += 8 * k
  const loop = (body: string, before = ''): void => {
    c.code(`static inline double $${prefix}density(const double *z) {
  double terms[${k}];
  int j;
${before}  for (j = 0; j < ${k}; j++) {
${body}
  }
  return $log_sum_exp(terms, ${k});
}
`)
  }
  if (mixture.covarianceType === 'full') {
    const { logNormalisers } = packMixture(mixture)
    const factor: number[] = []
    for (let row = 0; row < k * d; row++) {
      for (let t = 0; t <= row % d; t++) factor.push(mixture.precisionCholesky[row * d + t]!)
    }
    const constants = c.table(`${prefix}constants`, 'double', logNormalisers)
    const means = c.table(`${prefix}means`, 'double', mixture.means.data)
    const factors = c.table(`${prefix}factors`, 'double', factor)
    c.need('project')
    c.stackBytes += 8 * d
    loop(
      `    $project(z, ${means} + j * ${d}, ${factors} + j * ${(d * (d + 1)) / 2}, y, ${d});
    double square = 0.0;
    for (i = 0; i < ${d}; i++) square += y[i] * y[i];
    terms[j] = ${constants}[j] - 0.5 * square;`,
      `  double y[${d}];\n  int i;\n`,
    )
    return
  }
  const packed = packTypedMixture(mixture)
  const constants = c.table(`${prefix}constants`, 'double', packed.logNormalisers)
  if (packed.covarianceType === 'spherical') {
    const means = c.table(`${prefix}means`, 'double', packed.means)
    const scales = c.table(`${prefix}scales`, 'double', packed.scales)
    c.need('squared_distance')
    loop(`    const double p = ${scales}[j];
    terms[j] = ${constants}[j] - 0.5 * $squared_distance(z, ${means} + j * ${d}, ${d}) * p * p;`)
  } else if (packed.covarianceType === 'diagonal') {
    const means = c.table(`${prefix}means`, 'double', packed.means)
    const scales = c.table(`${prefix}scales`, 'double', packed.scales)
    loop(
      `    double square = 0.0;
    for (i = 0; i < ${d}; i++) {
      const double y = (z[i] - ${means}[j * ${d} + i]) * ${scales}[j * ${d} + i];
      square += y * y;
    }
    terms[j] = ${constants}[j] - 0.5 * square;`,
      '  int i;\n',
    )
  } else {
    const lower: number[] = []
    for (let i = 0; i < d; i++) for (let t = 0; t <= i; t++) lower.push(packed.factor[i * d + t]!)
    const centre = c.table(`${prefix}centre`, 'double', packed.centre)
    const projected = c.table(`${prefix}projected_means`, 'double', packed.projectedMeans)
    const factor = c.table(`${prefix}factor`, 'double', lower)
    c.need('project', 'squared_distance')
    c.stackBytes += 8 * d
    loop(
      `    terms[j] = ${constants}[j] - 0.5 * $squared_distance(y, ${projected} + j * ${d}, ${d});`,
      `  double y[${d}];\n  $project(z, ${centre}, ${factor}, y, ${d});\n`,
    )
  }
}

/** Writes $PREFIXdecide(x): f of a one-class SVM. */
function writeSvm(c: CWriter, svm: OneClassSvmModel, precision: Precision, prefix: string): void {
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

const parenthesised = (value: number): string => (value < 0 ? `(${double(value)})` : double(value))

/** C text of log p of a value, by the table of a guard. */
function logTailOf(c: CWriter, table: TailFunction, name: string, value: string): string {
  c.need('log_tail')
  const values = c.table(`${name}_values`, 'double', table.values)
  const logs = c.table(`${name}_logs`, 'double', table.logTails)
  return `$log_tail(${value}, ${values}, ${logs}, ${table.count}, ${double(table.lowerSlope)}, ${double(table.upperScale)})`
}

/** Writes $PREFIXscore_scaled of an embedding with a guard or without one; `decision` is C text of the function of φ′. */
function writeEmbeddedScore(
  c: CWriter,
  d: number,
  guardModel: SupportGuardModel | null,
  decision: string,
  prefix: string,
): void {
  const guard = guardModel === null ? null : createSupportGuard(guardModel)
  const open = `static inline double $${prefix}score_scaled(const double *x) {\n  double z[${d}];\n`
  if (guard === null) {
    c.code(`${open}  $${prefix}embed(x, z);\n  return ${decision}(z);\n}\n`)
    return
  }
  const density = logTailOf(c, guard.density, `${prefix}density_tail`, `${decision}(z)`)
  const support = logTailOf(c, guard.support, `${prefix}support_tail`, 'support')
  c.code(`${open}  const double support = $${prefix}embed(x, z);
  const double density = ${density};
  return density + ${support};
}
`)
}

function writeHistograms(c: CWriter, tables: ColumnHistograms, leastWidth: number, prefix: string): string {
  c.need('histograms')
  const low = c.table(`${prefix}low`, 'double', tables.low.data)
  const high = c.table(`${prefix}high`, 'double', tables.high.data)
  const widths = c.table(`${prefix}widths`, 'double', createHistogramViews(tables, leastWidth).widths)
  const surprises = c.table(`${prefix}surprises`, 'uint16_t', tables.surprises)
  const { cols } = tables.low
  const bins = tables.bins + 2
  const name = `$${prefix}view`
  c.code(`static inline double ${name}(const double *x, int table) {
  const int at = table * ${cols};
  return $histograms(x, ${low} + at, ${high} + at, ${widths} + at, ${surprises} + (size_t)at * ${bins}, ${cols}, ${tables.bins});
}
`)
  return name
}

// ---- the detectors

/** Writes $detector(x, service), of a scaled row, which it may change. */
function writeDetector(c: CWriter, model: DetectorModel, width: number): void {
  if (model.kind === 'ensemble') {
    writeEnsemble(c, model, width)
    return
  }
  writeScore(c, model, '')
  c.code(`static inline double $detector(double *x, double service) {
  (void)service;
  return $score_scaled(x);
}
`)
}

/** Writes $PREFIXscore_scaled(x). */
function writeScore(c: CWriter, model: Exclude<DetectorModel, EnsembleModel>, prefix: string): void {
  const one = (result: string): void => {
    c.need('finite')
    c.code(
      `static inline double $${prefix}score_scaled(const double *x) {\n  return $finite(${result}, -DBL_MAX);\n}\n`,
    )
  }
  if ('embedding' in model) {
    const { embedding, supportGuard, parameters } = model
    const weights = supportGuard === null ? null : createSupportGuard(supportGuard).weights
    writeEmbedding(c, embedding, parameters.precision, weights, prefix)
    if ('mixture' in model) writeMixture(c, model.mixture, prefix)
    else writeSvm(c, model.svm, 'f64', prefix)
    const decision = `$${prefix}${'mixture' in model ? 'density' : 'decide'}`
    writeEmbeddedScore(c, embedding.projection.rows, supportGuard, decision, prefix)
    return
  }
  switch (model.kind) {
    case 'ocsvm':
      writeSvm(c, model.svm, model.parameters.precision ?? 'f64', prefix)
      one(`$${prefix}decide(x)`)
      return
    case 'gmm':
      writeMixture(c, model.mixture, prefix)
      one(`$${prefix}density(x)`)
      return
    case 'nearest': {
      const { landmarks } = model.nearestLandmark
      c.need('distance')
      const points = c.table(`${prefix}landmarks`, 'double', landmarks.data)
      one(`0.0 - $distance(x, ${points}, ${landmarks.rows}, ${landmarks.cols})`)
      return
    }
    case 'kde': {
      const { centres } = model.kernelDensity
      const { exponentFactor: factor, logNormaliser } = createKernelDensityWorkspace(model.kernelDensity)
      c.need('kernel_density')
      const points = c.table(`${prefix}centres`, 'double', centres.data)
      one(
        `$kernel_density(x, ${points}, ${centres.rows}, ${centres.cols}, ${double(factor)}) + ${parenthesised(logNormaliser)}`,
      )
      return
    }
    case 'iforest': {
      const forest = model.isolationForest
      const { pathLengths, exponentFactor: factor } = createIsolationForestWorkspace(forest)
      c.need('forest', 'exp')
      const tables = [
        c.table(`${prefix}tree_starts`, 'int32_t', forest.treeStarts),
        c.table(`${prefix}features`, 'int32_t', forest.features),
        c.table(`${prefix}thresholds`, 'double', forest.thresholds),
        c.table(`${prefix}right_children`, 'int32_t', forest.rightChildren),
        c.table(`${prefix}path_lengths`, 'double', pathLengths),
      ]
      one(`-$exp(${double(factor)} * $forest(x, ${tables.join(', ')}, ${forest.treeStarts.length}))`)
      return
    }
    case 'pca': {
      const { mean, components } = model.principalComponents
      const { rows: r, cols } = components
      const means = c.table(`${prefix}mean`, 'double', mean)
      const u = c.table(`${prefix}components`, 'double', components.data)
      c.stackBytes += 8 * (cols + r)
      c.code(`static inline double $${prefix}error(const double *x) {
  double residual[${cols}], coordinates[${r}], error = 0.0;
  int i, t;
  for (t = 0; t < ${cols}; t++) residual[t] = x[t] - ${means}[t];
  for (i = 0; i < ${r}; i++) {
    coordinates[i] = 0.0;
    for (t = 0; t < ${cols}; t++) coordinates[i] += ${u}[i * ${cols} + t] * residual[t];
  }
  for (i = 0; i < ${r}; i++) {
    for (t = 0; t < ${cols}; t++) residual[t] -= coordinates[i] * ${u}[i * ${cols} + t];
  }
  for (t = 0; t < ${cols}; t++) error += residual[t] * residual[t];
  return error;
}
`)
      one(`0.0 - $${prefix}error(x)`)
      return
    }
    case 'hbos': {
      const view = writeHistograms(c, model.histograms, 0, prefix)
      one(`0.0 - ${view}(x, 0)`)
      return
    }
  }
}

function writeEnsemble(c: CWriter, { ensemble, scaler }: EnsembleModel, width: number): void {
  const hasServices = scaler.categoryColumn !== undefined
  c.need('surprise')
  const centre = c.table('centre', 'double', ensemble.centre)
  const scale = c.table('scale_of', 'double', ensemble.scale)
  const sums = ensemble.members.flatMap((member) => {
    const views = writeMember(c, member, width, hasServices)
    const weights = viewWeights(member.name, hasServices)
    return views.map((view, k) =>
      surpriseText(c, member.surprises[k]!, weights[k]!, view, `${member.name}_${k}`),
    )
  })
  c.code(`static inline double $detector(double *x, double service) {
  double sum = 0.0;
  int j;
  (void)service;
  for (j = 0; j < ${width}; j++) {
    const double value = (x[j] - ${centre}[j]) / ${scale}[j];
    x[j] = value > ${double(LARGEST_STANDARDISED)} ? ${double(LARGEST_STANDARDISED)} : value < -${double(LARGEST_STANDARDISED)} ? -${double(LARGEST_STANDARDISED)} : value;
  }
${sums.map((text) => `  sum += ${text};\n`).join('')}  return 0.0 - sum;
}
`)
}

function surpriseText(
  c: CWriter,
  { body, meanExcess }: SurpriseCurve,
  { body: bodyWeight, tail: tailWeight }: { readonly body: number; readonly tail: number },
  view: string,
  name: string,
): string {
  const prefix = cName(name)
  const values = c.table(`${prefix}_knots`, 'double', columnOf(body, 0))
  const surprises = c.table(`${prefix}_surprises_of`, 'double', columnOf(body, 1))
  return `$surprise(${view}, ${values}, ${surprises}, ${body.rows}, ${double(meanExcess)}, ${double(bodyWeight)}, ${double(tailWeight)})`
}

const columnOf = ({ rows, cols, data }: Matrix, column: number): Float64Array =>
  Float64Array.from({ length: rows }, (_, i) => data[i * cols + column]!)

const cName = (name: string): string => name.replaceAll('-', '_')

/** C texts of a member's views of the standardised row x. */
function writeMember(c: CWriter, member: EnsembleMember, width: number, hasServices: boolean): string[] {
  const prefix = `${cName(member.name)}_`
  if (member.name === 'nearest') {
    const { landmarks, categories } = member
    c.need('distance')
    const points = c.table(`${prefix}landmarks`, 'double', landmarks.data)
    const all = `$distance(x, ${points}, ${landmarks.rows}, ${width})`
    if (!hasServices) return [all]
    const { names, starts } = runsOf(categories)
    c.need('index_of')
    const services = c.table(`${prefix}services`, 'double', names)
    const firsts = c.table(`${prefix}service_starts`, 'int32_t', starts)
    c.code(`static inline double $${prefix}view(const double *x, double service) {
  const int run = $index_of(${services}, ${names.length}, service);
  double distance;
  if (run >= 0) {
    return $distance(x, ${points} + ${firsts}[run] * ${width}, ${firsts}[run + 1] - ${firsts}[run], ${width});
  }
  distance = ${all} + ${double(FOREIGN_DISTANCE)};
  return distance < DBL_MAX ? distance : DBL_MAX;
}
`)
    return [`$${prefix}view(x, service)`]
  }
  if (member.name === 'hbos') {
    const view = writeHistograms(c, member.histograms, LEAST_BIN_WIDTH, prefix)
    const all = `${view}(x, 0)`
    if (!hasServices) return [all]
    if (member.own === null) return [all, all]
    c.need('index_of')
    const services = c.table(`${prefix}services`, 'double', member.own.categories)
    const own = writeHistograms(c, member.own.histograms, LEAST_BIN_WIDTH, `${prefix}own_`)
    c.code(`static inline double $${prefix}service_view(const double *x, double service) {
  const int table = $index_of(${services}, ${member.own.categories.length}, service);
  return table < 0 ? ${all} : ${own}(x, table);
}
`)
    return [`$${prefix}service_view(x, service)`, all]
  }
  const { model } = member
  if (model.kind === 'ensemble') throw new Error('an ensemble is no member')
  writeScore(c, model, prefix)
  return [`0.0 - $${prefix}score_scaled(x)`]
}

// ---- the C functions of all models

interface Helper {
  readonly needs: readonly HelperName[]
  readonly code: string
}

type HelperName =
  | 'power'
  | 'exp'
  | 'log'
  | 'signed_log'
  | 'quantile'
  | 'squared_distance'
  | 'squares'
  | 'single'
  | 'square32'
  | 'exp32'
  | 'log_sum_exp'
  | 'project'
  | 'finite'
  | 'distance'
  | 'kernel_density'
  | 'forest'
  | 'histograms'
  | 'index_of'
  | 'log_tail'
  | 'surprise'

// texts that call a function are getters, so that a bundler can leave the table out
const HELPERS: Readonly<Record<HelperName, Helper>> = {
  power: {
    needs: [],
    code: `/* 2^k, -1022 <= k <= 1023 */
static inline double $power(int k) {
  const uint64_t bits = (uint64_t)(k + 1023) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
`,
  },
  exp: {
    needs: ['power'],
    code: `/* fdlibm's method, rounded alike on every machine */
static inline double $exp(double x) {
  double k, high, low, r, t, c, y;
  if (!(x >= -745.1332191019411)) return x < -745.1332191019411 ? 0.0 : x;
  if (x > 709.782712893384) return INFINITY;
  k = floor(x * 1.4426950408889634 + 0.5);
  high = x - k * 0.6931471803691238;
  low = k * 1.9082149292705877e-10;
  r = high - low;
  t = r * r;
  c = r - t * (0.16666666666666602 + t * (-0.0027777777777015593 + t * (0.00006613756321437934
      + t * (-0.0000016533902205465252 + t * 4.1381367970572385e-8))));
  y = 1.0 - (low - (r * c) / (2.0 - c) - high);
  if (k < -1022.0) return y * $power((int)k + 54) * 5.551115123125783e-17;
  if (k > 1023.0) return y * 2.0 * $power(1023);
  return y * $power((int)k);
}
`,
  },
  log: {
    needs: [],
    code: `/* fdlibm's method; x > 0 and finite, or 0 */
static inline double $log(double x) {
  uint64_t bits;
  uint32_t high, carry;
  double k, f, s, z, w, t1, t2, r, half;
  int exponent = 0;
  if (!(x > 0.0)) return -INFINITY;
  if (x < 2.2250738585072014e-308) {
    x *= 18014398509481984.0;
    exponent = -54;
  }
  memcpy(&bits, &x, sizeof bits);
  high = (uint32_t)(bits >> 32);
  exponent += (int)(high >> 20) - 1023;
  high &= 0x000fffffu;
  carry = (high + 0x95f64u) & 0x100000u;
  exponent += (int)(carry >> 20);
  bits = ((uint64_t)(high | (carry ^ 0x3ff00000u)) << 32) | (bits & 0xffffffffu);
  memcpy(&f, &bits, sizeof f);
  f -= 1.0;
  k = exponent;
  if (f == 0.0) return exponent == 0 ? 0.0 : k * 0.6931471803691238 + k * 1.9082149292705877e-10;
  s = f / (2.0 + f);
  z = s * s;
  w = z * z;
  t1 = w * (0.3999999999940942 + w * (0.22222198432149784 + w * 0.15313837699209373));
  t2 = z * (0.6666666666666735 + w * (0.2857142874366239 + w * (0.1818357216161805 + w * 0.14798198605116586)));
  r = t2 + t1;
  half = 0.5 * f * f;
  if (exponent == 0) return f - (half - s * (half + r));
  return k * 0.6931471803691238 - (half - (s * (half + r) + k * 1.9082149292705877e-10) - f);
}
`,
  },
  signed_log: {
    needs: ['log'],
    code: `static inline double $signed_log(double x) {
  const double size = x < 0.0 ? -x : x;
  const double u = 1.0 + size;
  const double value = u == 1.0 ? size : $log(u) * (size / (u - 1.0));
  return x < 0.0 ? -value : value;
}
`,
  },
  quantile: {
    needs: [],
    code: `static inline double $quantile(double x, const double *knots, const double *positions, int count) {
  const int last = count - 1;
  const double range = last > 0 ? knots[last] - knots[0] : 1.0;
  int low = 0, high = last;
  if (!(x > knots[0])) return positions[0] + (x - knots[0]) / range;
  if (!(x < knots[last])) return positions[last] + (x - knots[last]) / range;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (knots[middle] <= x) low = middle;
    else high = middle;
  }
  return positions[low] + (positions[high] - positions[low]) * ((x - knots[low]) / (knots[high] - knots[low]));
}
`,
  },
  squared_distance: {
    needs: [],
    code: `static inline double $squared_distance(const double *x, const double *y, int columns) {
  double sum = 0.0;
  int t;
  for (t = 0; t < columns; t++) {
    const double difference = x[t] - y[t];
    sum += difference * difference;
  }
  return sum;
}
`,
  },
  squares: {
    needs: ['squared_distance'],
    code: `/* to rows j, ..., j + 3 of y where j is a multiple of 4: four sums at once keep a processor busier than one */
static inline double $squares(const double *x, const double *y, int j, int count, int columns, double *squares) {
  const double *a = y + j * columns, *b, *c, *d;
  double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
  int t;
  if (j % 4 != 0) return squares[j % 4];
  if (count - j < 4) {
    for (t = 0; t < count - j; t++) squares[t] = $squared_distance(x, a + t * columns, columns);
    return squares[0];
  }
  b = a + columns;
  c = b + columns;
  d = c + columns;
  for (t = 0; t < columns; t++) {
    const double d0 = x[t] - a[t], d1 = x[t] - b[t], d2 = x[t] - c[t], d3 = x[t] - d[t];
    s0 += d0 * d0;
    s1 += d1 * d1;
    s2 += d2 * d2;
    s3 += d3 * d3;
  }
  squares[0] = s0;
  squares[1] = s1;
  squares[2] = s2;
  squares[3] = s3;
  return s0;
}
`,
  },
  single: {
    needs: [],
    code: `static inline float $single(double value) {
  return value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : (float)value;
}
`,
  },
  square32: {
    needs: ['single'],
    code: `static inline float $square32(const float *x, const double *y, int columns) {
  float sum = 0.0f;
  int t;
  for (t = 0; t < columns; t++) {
    const float difference = x[t] - (float)y[t];
    sum += difference * difference;
  }
  return sum;
}
`,
  },
  exp32: {
    needs: ['power'],
    code: `static inline double $exp32(float square, float factor) {
  const float x = square * factor;
  float k, r, p;
  if (!(x >= -87.0f)) return 0.0;
  k = floorf(x * 1.44269504f + 0.5f);
  r = x - k * 0.693359375f;
  r = r - k * -0.00021219444f;
  p = 0.00019875691f * r + 0.0013981999f;
  p = p * r + 0.0083334519f;
  p = p * r + 0.041665796f;
  p = p * r + 0.16666665f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  return (double)p * $power((int)k);
}
`,
  },
  log_sum_exp: {
    needs: ['exp', 'log'],
    code: `static inline double $log_sum_exp(const double *terms, int count) {
  double largest = -INFINITY, sum = 0.0;
  int j;
  for (j = 0; j < count; j++) {
    if (terms[j] > largest) largest = terms[j];
  }
  if (!(largest - largest == 0.0)) return largest;
  for (j = 0; j < count; j++) {
    const double exponent = terms[j] - largest;
    if (!(exponent < -60.0)) sum += $exp(exponent);
  }
  if (!(sum - sum == 0.0)) return sum;
  return largest + $log(sum);
}
`,
  },
  project: {
    needs: [],
    code: `/* y = W(z - mean), W lower triangular without its zeros */
static inline void $project(const double *z, const double *mean, const double *w, double *y, int d) {
  int i, t;
  for (i = 0; i < d; i++) {
    double sum = 0.0;
    for (t = 0; t <= i; t++) sum += *w++ * (z[t] - mean[t]);
    y[i] = sum;
  }
}
`,
  },
  finite: {
    needs: [],
    code: `static inline double $finite(double value, double otherwise) {
  if (value - value == 0.0) return value;
  return value > 0.0 ? DBL_MAX : value < 0.0 ? -DBL_MAX : otherwise;
}
`,
  },
  distance: {
    needs: ['squares'],
    get code() {
      return `/* to the nearest of count landmarks */
static inline double $distance(const double *x, const double *landmarks, int count, int columns) {
  const double scale = ${double(FAR_SCALE)};
  double smallest = INFINITY, distance, squares[4];
  int j, t;
  for (j = 0; j < count; j++) {
    const double square = $squares(x, landmarks, j, count, columns, squares);
    if (square < smallest) smallest = square;
  }
  if (smallest < INFINITY) return sqrt(smallest);
  /* all squares overflow: of numbers times 2^-540 */
  for (j = 0; j < count; j++) {
    double sum = 0.0;
    for (t = 0; t < columns; t++) {
      const double difference = x[t] * scale - landmarks[j * columns + t] * scale;
      sum += difference * difference;
    }
    if (sum < smallest) smallest = sum;
  }
  distance = sqrt(smallest) / scale;
  return distance < DBL_MAX ? distance : DBL_MAX;
}
`
    },
  },
  kernel_density: {
    needs: ['squares', 'exp', 'log'],
    code: `/* log of the sum of exp(factor * square) over all centres; in two passes, so that no array is needed */
static inline double $kernel_density(const double *x, const double *centres, int count, int columns, double factor) {
  double largest = -INFINITY, sum = 0.0, squares[4];
  int j;
  for (j = 0; j < count; j++) {
    const double term = $squares(x, centres, j, count, columns, squares) * factor;
    if (term > largest) largest = term;
  }
  if (!(largest - largest == 0.0)) return largest;
  for (j = 0; j < count; j++) {
    const double exponent = $squares(x, centres, j, count, columns, squares) * factor - largest;
    if (!(exponent < -60.0)) sum += $exp(exponent);
  }
  return largest + $log(sum);
}
`,
  },
  forest: {
    needs: [],
    code: `/* the sum of path lengths over all trees */
static inline double $forest(const double *x, const int32_t *starts, const int32_t *features,
    const double *thresholds, const int32_t *right_children, const double *path_lengths, int trees) {
  double sum = 0.0;
  int tree;
  for (tree = 0; tree < trees; tree++) {
    int32_t node = starts[tree];
    while (features[node] >= 0) {
      node = x[features[node]] <= thresholds[node] ? node + 1 : right_children[node];
    }
    sum += path_lengths[node];
  }
  return sum;
}
`,
  },
  histograms: {
    needs: [],
    code: `static inline double $histograms(const double *x, const double *low, const double *high, const double *widths,
    const uint16_t *surprises, int columns, int bins) {
  uint32_t sum = 0;
  int j;
  for (j = 0; j < columns; j++, surprises += bins + 2) {
    double bin, last;
    if (x[j] < low[j]) {
      sum += surprises[0];
      continue;
    }
    bin = widths[j] > 0.0 ? floor((x[j] - low[j]) / widths[j]) : x[j] > low[j] ? bins : 0;
    last = x[j] <= high[j] ? bins - 1 : bins;
    sum += surprises[1 + (int)(bin < last ? bin : last)];
  }
  return sum / 2048.0;
}
`,
  },
  index_of: {
    needs: [],
    code: `/* where in ascending numbers a number stands, or -1 */
static inline int $index_of(const double *sorted, int count, double value) {
  int low = 0, high = count - 1;
  while (low <= high) {
    const int middle = (low + high) / 2;
    if (sorted[middle] == value) return middle;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
`,
  },
  log_tail: {
    needs: [],
    get code() {
      return `static inline double $log_tail(double asked, const double *values, const double *logs, int count,
    double slope, double upper_scale) {
  const double lowest = ${double(LOWEST_LOG_TAIL)};
  const double value = asked > lowest ? asked : lowest;
  const int last = count - 1;
  double tail;
  int low = 0, high = last;
  if (!(value >= values[0])) {
    tail = logs[0] - (values[0] - value) * slope;
    return tail > lowest ? tail : lowest;
  }
  if (value >= values[last]) return logs[last] / (1.0 + (value - values[last]) / upper_scale);
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (values[middle] <= value) low = middle;
    else high = middle;
  }
  tail = logs[low] + (logs[high] - logs[low]) * ((value - values[low]) / (values[high] - values[low]));
  return tail < logs[high] ? tail : logs[high];
}
`
    },
  },
  surprise: {
    needs: [],
    get code() {
      return `static inline double $surprise(double value, const double *values, const double *surprises, int count,
    double mean_excess, double body, double tail) {
  const int last = count - 1;
  double range, share;
  int low = 0, high = last;
  if (value > values[last]) {
    const double excess = (value - values[last]) / mean_excess;
    const double most = ${double(HIGHEST_SURPRISE - TAIL_SURPRISE)};
    return body * ${double(TAIL_SURPRISE)} + tail * (excess < most ? excess : most);
  }
  if (!(value > values[0])) return body * surprises[0];
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (values[middle] < value) low = middle;
    else high = middle;
  }
  range = values[high] - values[low];
  share = range < INFINITY ? (value - values[low]) / range
    : (value / 2.0 - values[low] / 2.0) / (values[high] / 2.0 - values[low] / 2.0);
  return body * (surprises[low] + (surprises[high] - surprises[low]) * (share < 1.0 ? share : 1.0));
}
`
    },
  },
}

/** C functions of a model's parts: the scaler, what detectors share, and each detector. */
import type { Matrix } from '@oddflow/core'
import { exponentFactor, type Precision } from '@oddflow/linalg'
import type { SurpriseCurve } from '../calibration/held-out.js'
import { createSupportGuard } from '../calibration/support-guard.js'
import type { TailFunction } from '../calibration/tail-probability.js'
import { type ColumnHistograms, createHistogramViews } from '../detectors/hbos.js'
import { createIsolationForestWorkspace } from '../detectors/iforest.js'
import { createKernelDensityWorkspace } from '../detectors/kde.js'
import { type EnsembleMember, LARGEST_STANDARDISED } from '../ensemble/ensemble-part.js'
import { FOREIGN_DISTANCE, LEAST_BIN_WIDTH, runsOf, viewWeights } from '../ensemble/members.js'
import { packTypedMixture } from '../mixture/covariance-types.js'
import { type Mixture, packMixture } from '../mixture/gaussian-mixture.js'
import type { DetectorModel, EmbeddingModel, EnsembleModel, SupportGuardModel } from '../model.js'
import type { OneClassSvmModel } from '../one-class-svm/fit.js'
import { createOneClassSvmWorkspace } from '../one-class-svm/score.js'
import type { ScalerModel } from '../scaler.js'
import { type CWriter, double } from './c-text.js'

// ---- the scaler

export function writeScaler(c: CWriter, scaler: ScalerModel, width: number, keepsFinite: boolean): void {
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
  if (packed.covarianceType === 'tied') {
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
  } else if (packed.covarianceType === 'spherical') {
    const means = c.table(`${prefix}means`, 'double', packed.means)
    const scales = c.table(`${prefix}scales`, 'double', packed.scales)
    c.need('squared_distance')
    loop(`    const double p = ${scales}[j];
    terms[j] = ${constants}[j] - 0.5 * $squared_distance(z, ${means} + j * ${d}, ${d}) * p * p;`)
  } else {
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
  c.need('finite')
  const guard = guardModel === null ? null : createSupportGuard(guardModel)
  const open = `static inline double $${prefix}score_scaled(const double *x) {\n  double z[${d}];\n`
  if (guard === null) {
    c.code(`${open}  $${prefix}embed(x, z);\n  return $finite(${decision}(z), -DBL_MAX);\n}\n`)
    return
  }
  const density = logTailOf(c, guard.density, `${prefix}density_tail`, `${decision}(z)`)
  const support = logTailOf(c, guard.support, `${prefix}support_tail`, 'support')
  c.code(`${open}  const double support = $${prefix}embed(x, z);
  const double density = ${density};
  return $finite(density + ${support}, -DBL_MAX);
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
export function writeDetector(c: CWriter, model: DetectorModel, width: number): void {
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

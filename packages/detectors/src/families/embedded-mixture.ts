/**
 * Embedding, then a mixture of Gaussians (paper, "Meta Procedures"): oc-kjl, oc-nystrom, oc-kjl-qs and oc-nystrom-qs
 * combine two embeddings with two ways to start EM.
 *
 * Training: scaler → bandwidth → landmarks and projection → embedded rows → clusters → mixture → support guard.
 */

import { type Matrix, plural, type Tensor } from '@oddflow/core'
import { checkSupportGuard, fitSupportGuard } from '../calibration/support-guard.js'
import type { DetectorDefinition, FitContext, ModelFact, ModelHead } from '../detector.js'
import { checkEmbedding } from '../embedding/embedding.js'
import type { CWriter } from '../export-c/c-text.js'
import { type Fields, failField, fieldsAt, finiteAt, wholeAt } from '../fields.js'
import type { CovarianceType, TypedMixture } from '../mixture/covariance-types.js'
import { checkFullMixture, packTypedMixture } from '../mixture/covariance-types.js'
import { fitMixture } from '../mixture/fit-mixture.js'
import { type Mixture, mixtureLogDensities, packMixture } from '../mixture/gaussian-mixture.js'
import type { EmbeddingModel, FitReport, MixtureModel, ModelFrame, SupportGuardModel } from '../model.js'
import {
  type ModelFileParts,
  type ModelFileReader,
  matrixTensor,
  vectorTensor,
} from '../model-file/layout.js'
import { EM_CONSTANTS, type OptionName, type OptionReader } from '../options.js'
import type {
  CommonParameters,
  EmbeddingParameters,
  EmParameters,
  SketchParameters,
  StartParameters,
} from '../parameters.js'
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
  storedPrecision,
  writeEmbeddedScore,
} from './embedded.js'

/** Detectors that embed rows by a sketch and describe them by a Gaussian mixture. */
export const EMBEDDED_MIXTURE_NAMES = ['oc-kjl', 'oc-nystrom', 'oc-kjl-qs', 'oc-nystrom-qs'] as const

/** One of EMBEDDED_MIXTURE_NAMES. */
export type EmbeddedMixtureName = (typeof EMBEDDED_MIXTURE_NAMES)[number]

/** Checked parameters of a sketch with a Gaussian mixture. */
export interface EmbeddedMixtureParameters extends CommonParameters<EmbeddedMixtureName>, SketchParameters {
  readonly start: StartParameters
  readonly em: EmParameters
}

/** What a fit of an embedded mixture used and found. */
export interface EmbeddedMixtureFitReport extends FitReport {
  /** m that was used. */
  readonly landmarks: number
  /** d that was used. */
  readonly embeddingDimension: number
  /** Clusters before and after the coverage rule (for k-means++, both are the non-empty clusters). */
  readonly clustersFound: number
  readonly clustersKept: number
  /** EM steps, whether they converged, and the mean log-likelihood before the last M-step. */
  readonly iterations: number
  readonly converged: boolean
  readonly meanLogLikelihood: number
  /** The final addition to covariance diagonals. */
  readonly regularisation: number
}

/** A fitted sketch of the Gaussian kernel with a Gaussian mixture over it. */
export interface EmbeddedMixtureModel
  extends ModelFrame<EmbeddedMixtureParameters, EmbeddedMixtureFitReport> {
  readonly embedding: EmbeddingModel
  readonly mixture: MixtureModel
  /** null: scores are log-densities, as in the paper. */
  readonly supportGuard: SupportGuardModel | null
}

/** Mixtures in a model file: weights (k), means (k × d), and factors in the shape of their covariance type. */

export function encodeMixture(mixture: MixtureModel | TypedMixture): Readonly<Record<string, Tensor>> {
  const { covarianceType, means, weights, precisionCholesky } = mixture
  const shape = factorShape(covarianceType, means.rows, means.cols)
  return {
    'mixture.means': matrixTensor(means),
    'mixture.precisionCholesky': { dtype: 'F64', shape, data: precisionCholesky },
    'mixture.weights': vectorTensor(weights),
  }
}

export function decodeMixture(file: ModelFileReader, covarianceType: CovarianceType): Fields {
  const means = file.matrix('mixture.means')
  return {
    covarianceType,
    weights: file.vector('mixture.weights'),
    means,
    precisionCholesky: file.shaped(
      'mixture.precisionCholesky',
      factorShape(covarianceType, means.rows, means.cols),
    ),
  }
}

function factorShape(type: CovarianceType, k: number, d: number): number[] {
  switch (type) {
    case 'full':
      return [k, d, d]
    case 'diagonal':
      return [k, d]
    case 'tied':
      return [d, d]
    case 'spherical':
      return [k]
  }
}

const OPTIONS = [...EMBEDDING_OPTIONS, 'supportGuard'] as const satisfies readonly OptionName[]

const QUICKSHIFT_CONSTANTS = [
  'beta',
  'neighbours',
  'coverage',
  'maximumClusters',
  'clusterSearchRows',
  'mixtureStart',
] as const

/** The definition of the detector with that name, embedding and start. */
function embeddedMixture(
  name: EmbeddedMixtureName,
  summary: string,
  embeddingKind: EmbeddingParameters['kind'],
  startKind: StartParameters['kind'],
): DetectorDefinition<EmbeddedMixtureParameters, EmbeddedMixtureModel> {
  return {
    name,
    summary,
    options: [
      ...OPTIONS,
      ...(startKind === 'k-means++' ? (['k'] as const) : []),
      ...(embeddingKind === 'kjl' ? (['centre'] as const) : []),
    ],
    stages: ['bandwidth', 'embedding', 'clusters', 'mixture'],
    metadataKeys: ['embedding'],

    checkParameters(given: OptionReader): EmbeddedMixtureParameters {
      return {
        detector: name,
        ...checkEmbeddingOptions(given, embeddingKind),
        start: checkStart(given, startKind),
        em: given.readAll(EM_CONSTANTS),
        supportGuard: given.read('supportGuard'),
      }
    },

    createScorer(model: EmbeddedMixtureModel, { simd }: ScorerOptions): Scorer {
      const { mixture } = model
      return createEmbeddedScorer(model, { simd, mixture }, ({ logDensities }) => logDensities)
    },

    checkModel(value: Fields, parameters: EmbeddedMixtureParameters, head: ModelHead): EmbeddedMixtureModel {
      const { start } = parameters
      const embedding = checkEmbedding(value.embedding, parameters, head.dimension)
      const mixture = checkFullMixture(
        value.mixture,
        embedding.projection.rows,
        start.kind === 'k-means++' ? start.k : start.maximumClusters,
      )
      const supportGuard = checkSupportGuard(value.supportGuard, embedding, parameters.supportGuard)
      const fitReport = checkReport(value.fitReport, head, embedding)
      return { kind: name, parameters, scaler: head.scaler, embedding, mixture, supportGuard, fitReport }
    },

    encode({ embedding, mixture, supportGuard, parameters }: EmbeddedMixtureModel): ModelFileParts {
      const { metadata, tensors } = encodeEmbedding(embedding, parameters.precision)
      const guard = encodeGuard(supportGuard)
      return { metadata, tensors: { ...tensors, ...encodeMixture(mixture), ...guard } }
    },

    decode(file: ModelFileReader, parameters: Fields): Fields {
      return {
        embedding: decodeEmbedding(file, storedPrecision(parameters)),
        mixture: decodeMixture(file, 'full'),
        supportGuard: decodeGuard(file, parameters),
      }
    },

    spaceNumbers({ embedding, mixture, supportGuard, parameters }: EmbeddedMixtureModel): number {
      const d = embedding.projection.rows
      const components = mixture.weights.length * (1 + d + d * d)
      return (
        embeddingSpaceNumbers(embedding, parameters.precision) + components + guardSpaceNumbers(supportGuard)
      )
    },

    facts({ embedding, mixture, supportGuard, parameters, fitReport }: EmbeddedMixtureModel): ModelFact[] {
      return [
        ...embeddingFacts(embedding, parameters),
        {
          label: 'mixture',
          value: `${plural(mixture.weights.length, 'Gaussian')} (${startOf(parameters, fitReport)}), ${plural(fitReport.iterations, 'EM step')}${fitReport.converged ? '' : ', not converged'}`,
        },
        guardFact(supportGuard, 'log-densities'),
      ]
    },

    figures({ embedding, mixture }: EmbeddedMixtureModel) {
      return { bandwidth: embedding.bandwidth, components: mixture.weights.length }
    },

    normalExamples({ embedding, mixture }: EmbeddedMixtureModel) {
      return { rows: embedding.landmarks, mixture, embedding }
    },

    embedding({ embedding, mixture }: EmbeddedMixtureModel) {
      return { dimensions: embedding.projection.rows, mixture }
    },
  }
}

export function fitEmbeddedMixture(
  rows: Matrix,
  parameters: EmbeddedMixtureParameters,
  context: FitContext,
): EmbeddedMixtureModel {
  const { rng, report } = context
  const trained = fitEmbedded(rows, parameters, context)
  const { scaler, scaled, landmarkRows, embedded } = trained
  const embedding = embeddingInPrecision(trained.embedding, parameters.precision)
  report('clusters', 0)
  const fitted = fitMixture(embedded, parameters.start, parameters.em, rng, {
    onClusters: (fraction) => report('clusters', fraction),
    onEmStep: (step) => report('mixture', step / parameters.em.maximumSteps),
  })
  report('mixture', 1)
  const { mixture, meanLogLikelihoods } = fitted
  const supportGuard = parameters.supportGuard
    ? fitSupportGuard(scaled, trained.embedding, landmarkRows, mixtureLogDensities(mixture, embedded))
    : null
  return {
    kind: parameters.detector,
    parameters,
    scaler,
    embedding,
    mixture,
    supportGuard,
    fitReport: {
      trainingRows: rows.rows,
      dimension: rows.cols,
      landmarks: embedding.landmarks.rows,
      embeddingDimension: embedding.projection.rows,
      clustersFound: fitted.clustersFound,
      clustersKept: fitted.clustersKept,
      iterations: meanLogLikelihoods.length,
      converged: fitted.converged,
      meanLogLikelihood: meanLogLikelihoods[meanLogLikelihoods.length - 1]!,
      regularisation: fitted.regularisation,
      notes: [...trained.notes, ...fitted.notes],
    },
  }
}

/** Only a search finds the number of clusters; k-means++ uses a given one. */
function startOf(
  { start }: EmbeddedMixtureModel['parameters'],
  { clustersFound }: EmbeddedMixtureFitReport,
): string {
  return start.kind === 'k-means++' ? 'started by k-means++' : `${plural(clustersFound, 'cluster')} found`
}

function checkStart(given: OptionReader, kind: StartParameters['kind']): StartParameters {
  if (kind === 'k-means++') return { kind, k: given.read('k') }
  return { kind, ...given.readAll(QUICKSHIFT_CONSTANTS) }
}

function checkReport(
  value: unknown,
  { fitReport }: ModelHead,
  { landmarks, projection }: EmbeddingModel,
): EmbeddedMixtureFitReport {
  const r = fieldsAt(value, 'fitReport')
  const { trainingRows, dimension, notes } = fitReport
  if (r.landmarks !== landmarks.rows) failField('fitReport.landmarks', `${landmarks.rows}`, r.landmarks)
  if (r.embeddingDimension !== projection.rows) {
    failField('fitReport.embeddingDimension', `${projection.rows}`, r.embeddingDimension)
  }
  if (typeof r.converged !== 'boolean') failField('fitReport.converged', 'true or false', r.converged)
  return {
    trainingRows,
    dimension,
    landmarks: landmarks.rows,
    embeddingDimension: projection.rows,
    clustersFound: wholeAt(r.clustersFound, 'fitReport.clustersFound'),
    clustersKept: wholeAt(r.clustersKept, 'fitReport.clustersKept'),
    iterations: wholeAt(r.iterations, 'fitReport.iterations'),
    converged: r.converged as boolean,
    meanLogLikelihood: finiteAt(r.meanLogLikelihood, 'fitReport.meanLogLikelihood'),
    regularisation: finiteAt(r.regularisation, 'fitReport.regularisation'),
    notes,
  }
}

// ---- the detectors

/** KJL sketch, then a mixture with k given (paper, "Meta Procedures"). */
export const ocKjl: DetectorDefinition<EmbeddedMixtureParameters, EmbeddedMixtureModel> = embeddedMixture(
  'oc-kjl',
  'KJL sketch, Gaussian mixture of k components started by k-means++',
  'kjl',
  'k-means++',
)

/** QuickShift++ finds the number of components (paper, "Choice of k"). */
export const ocKjlQs: DetectorDefinition<EmbeddedMixtureParameters, EmbeddedMixtureModel> = embeddedMixture(
  'oc-kjl-qs',
  'KJL sketch, Gaussian mixture started from QuickShift++ clusters',
  'kjl',
  'quickshift++',
)

export const ocNystrom: DetectorDefinition<EmbeddedMixtureParameters, EmbeddedMixtureModel> = embeddedMixture(
  'oc-nystrom',
  'Nyström embedding, Gaussian mixture of k components started by k-means++',
  'nystrom',
  'k-means++',
)

export const ocNystromQs: DetectorDefinition<EmbeddedMixtureParameters, EmbeddedMixtureModel> =
  embeddedMixture(
    'oc-nystrom-qs',
    'Nyström embedding, Gaussian mixture started from QuickShift++ clusters',
    'nystrom',
    'quickshift++',
  )

// ---- C

/** Writes $PREFIXdensity(z): the log-density of a mixture. */
export function writeMixture(c: CWriter, mixture: Mixture, prefix: string): void {
  const { rows: k } = mixture.means
  c.need('log_sum_exp')
  c.stackBytes += 8 * k
  const { body, before } =
    mixture.covarianceType === 'full' ? fullTerms(c, mixture, prefix) : typedTerms(c, mixture, prefix)
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

/** C text that sets terms[j], and what stands before the loop over j. */
interface Terms {
  readonly body: string
  readonly before: string
}

function fullTerms(c: CWriter, mixture: MixtureModel, prefix: string): Terms {
  const { rows: k, cols: d } = mixture.means
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
  return {
    body: `    $project(z, ${means} + j * ${d}, ${factors} + j * ${(d * (d + 1)) / 2}, y, ${d});
    double square = 0.0;
    for (i = 0; i < ${d}; i++) square += y[i] * y[i];
    terms[j] = ${constants}[j] - 0.5 * square;`,
    before: `  double y[${d}];\n  int i;\n`,
  }
}

function typedTerms(c: CWriter, mixture: TypedMixture, prefix: string): Terms {
  const { cols: d } = mixture.means
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
    return {
      body: `    terms[j] = ${constants}[j] - 0.5 * $squared_distance(y, ${projected} + j * ${d}, ${d});`,
      before: `  double y[${d}];\n  $project(z, ${centre}, ${factor}, y, ${d});\n`,
    }
  }
  if (packed.covarianceType === 'spherical') {
    const means = c.table(`${prefix}means`, 'double', packed.means)
    const scales = c.table(`${prefix}scales`, 'double', packed.scales)
    c.need('squared_distance')
    return {
      body: `    const double p = ${scales}[j];
    terms[j] = ${constants}[j] - 0.5 * $squared_distance(z, ${means} + j * ${d}, ${d}) * p * p;`,
      before: '',
    }
  }
  const means = c.table(`${prefix}means`, 'double', packed.means)
  const scales = c.table(`${prefix}scales`, 'double', packed.scales)
  return {
    body: `    double square = 0.0;
    for (i = 0; i < ${d}; i++) {
      const double y = (z[i] - ${means}[j * ${d} + i]) * ${scales}[j * ${d} + i];
      square += y * y;
    }
    terms[j] = ${constants}[j] - 0.5 * square;`,
    before: '  int i;\n',
  }
}

export function writeEmbeddedMixture(c: CWriter, model: EmbeddedMixtureModel, prefix: string): void {
  writeEmbeddedScore(c, model, prefix, () => {
    writeMixture(c, model.mixture, prefix)
    return `$${prefix}density`
  })
}

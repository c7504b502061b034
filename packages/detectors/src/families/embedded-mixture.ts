/**
 * Embedding, then a mixture of Gaussians (paper, "Meta Procedures"): oc-kjl, oc-nystrom, oc-kjl-qs and oc-nystrom-qs
 * are this with one of two embeddings and one of two starts for EM.
 *
 * Training: scaler → bandwidth → landmarks and projection → embedded rows → clusters → mixture → support guard.
 * Scoring: embedded-mixture-scorer.ts.
 */
import { type Matrix, plural } from '@oddflow/core'
import { checkEmbedding, checkFullMixture, failField, fieldsAt, finiteAt, wholeAt } from '../check-parts.js'
import type { DetectorDefinition, FitContext, ModelFact, ModelHead } from '../detector-definition.js'
import type { EmbeddedMixtureName } from '../detector-name.js'
import { fitMixture } from '../fit-mixture.js'
import { mixtureLogDensities } from '../gaussian-mixture.js'
import type { EmbeddedMixtureFitReport, EmbeddedMixtureModel, EmbeddingModel } from '../model.js'
import type { Fields } from '../model-fields.js'
import type { ModelFileParts, ModelFileReader } from '../model-file/parts.js'
import type { OptionReader } from '../option-reader.js'
import type {
  EmbeddedMixtureParameters,
  EmbeddingParameters,
  OptionName,
  StartParameters,
} from '../parameters.js'
import type { Scorer, ScorerOptions } from '../scorer.js'
import { checkSupportGuard, fitSupportGuard } from '../support-guard.js'
import {
  checkEmbeddingOptions,
  decodeEmbedding,
  EMBEDDING_OPTIONS,
  embeddingFacts,
  embeddingInPrecision,
  embeddingSpaceNumbers,
  encodeEmbedding,
  fitEmbedded,
  storedPrecision,
} from './embedded.js'
import { createEmbeddedMixtureScorer } from './embedded-mixture-scorer.js'
import { decodeGuard, encodeGuard, guardFact, guardSpaceNumbers } from './guard-parts.js'
import { decodeFullMixture, encodeFullMixture } from './mixture-parts.js'

const OPTIONS = [
  ...EMBEDDING_OPTIONS,
  'tolerance',
  'maximumSteps',
  'regularisation',
  'supportGuard',
] as const satisfies readonly OptionName[]

const QUICKSHIFT_OPTIONS = [
  'beta',
  'neighbours',
  'coverage',
  'maximumClusters',
  'clusterSearchRows',
  'mixtureStart',
] as const satisfies readonly OptionName[]

/** The definition of the detector of that name, embedding and start. */
export function embeddedMixture(
  name: EmbeddedMixtureName,
  summary: string,
  embeddingKind: EmbeddingParameters['kind'],
  startKind: StartParameters['kind'],
): DetectorDefinition {
  return {
    name,
    summary,
    options: [
      ...OPTIONS,
      ...(startKind === 'k-means++' ? (['k'] as const) : QUICKSHIFT_OPTIONS),
      ...(embeddingKind === 'kjl' ? (['centre'] as const) : []),
    ],
    stages: ['bandwidth', 'embedding', 'clusters', 'mixture'],
    metadataKeys: ['embedding'],

    checkParameters(given: OptionReader): EmbeddedMixtureParameters {
      return {
        detector: name,
        ...checkEmbeddingOptions(given, embeddingKind),
        start: checkStart(given, startKind),
        em: given.em(),
        supportGuard: given.flag('supportGuard'),
      }
    },

    fit(rows: Matrix, parameters: EmbeddedMixtureParameters, context: FitContext): EmbeddedMixtureModel {
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
        kind: name,
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
    },

    createScorer(model: EmbeddedMixtureModel, options: ScorerOptions): Scorer {
      return createEmbeddedMixtureScorer(model, options)
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
      return { metadata, tensors: { ...tensors, ...encodeFullMixture(mixture), ...guard } }
    },

    decode(file: ModelFileReader, parameters: Fields): Fields {
      return {
        embedding: decodeEmbedding(file, storedPrecision(parameters)),
        mixture: decodeFullMixture(file),
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

    embedding({ embedding, mixture }: EmbeddedMixtureModel) {
      return { dimensions: embedding.projection.rows, mixture }
    },
  }
}

/** Only a search finds clusters; k-means++ makes as many as it is told to. */
function startOf(
  { start }: EmbeddedMixtureModel['parameters'],
  { clustersFound }: EmbeddedMixtureFitReport,
): string {
  return start.kind === 'k-means++' ? 'started by k-means++' : `${plural(clustersFound, 'cluster')} found`
}

function checkStart(given: OptionReader, kind: StartParameters['kind']): StartParameters {
  if (kind === 'k-means++') return { kind, k: given.whole('k', 1, 1000) }
  return {
    kind,
    beta: given.fraction('beta'),
    neighbours: given.neighbours(),
    coverage: given.share('coverage'),
    maximumClusters: given.whole('maximumClusters', 1, 1000),
    clusterSearchRows: given.whole('clusterSearchRows', 10, 1_000_000),
    mixtureStart: given.mixtureStart(),
  }
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

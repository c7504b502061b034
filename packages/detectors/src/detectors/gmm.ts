/** gmm: a Gaussian mixture on the (scaled) rows, started by k-means++; the comparison for the embeddings. */

import { DataError, type Matrix, plural } from '@oddflow/core'
import { kMeans } from '../clustering/k-means.js'
import type { DetectorDefinition, FitContext, ModelFact, ModelHead } from '../detector.js'
import type { CWriter } from '../export-c/c-text.js'
import { decodeMixture, encodeMixture, writeMixture } from '../families/embedded-mixture.js'
import { type Fields, failField } from '../fields.js'
import { fitScaledRows } from '../fit-rows.js'
import {
  COVARIANCE_TYPES,
  checkFullMixture,
  checkTypedMixture,
  clusterMemberships,
  mixtureOf,
  momentsOf,
  type TypedMixture,
} from '../mixture/covariance-types.js'
import { fitFromStart, fitMixture } from '../mixture/fit-mixture.js'
import { createLogDensity } from '../mixture/gaussian-mixture.js'
import type { MixtureModel, ModelFrame } from '../model.js'
import type { ModelFileParts, ModelFileReader } from '../model-file/layout.js'
import { choice, EM_CONSTANTS, type OptionReader, type ValuesOf } from '../options.js'
import type { CommonParameters, EmParameters } from '../parameters.js'
import { createScaledScorer, type Scorer } from '../scorer.js'

/** Limits k·D² numbers of full covariances, and D² of a tied one: 160 MB. */
const MAXIMUM_COVARIANCE_NUMBERS = 20_000_000

const OWN = {
  covariance: choice(COVARIANCE_TYPES, {
    group: 'Mixture',
    value: 'type',
    help: "form of the components' covariances",
  }),
}

/** Checked parameters of a Gaussian mixture. */
export interface GmmParameters extends CommonParameters<'gmm'>, EmParameters, ValuesOf<typeof OWN> {
  readonly k: number
}

/** A fitted Gaussian mixture over scaled rows. */
export interface GmmModel extends ModelFrame<GmmParameters> {
  /** In D dimensions. */
  readonly mixture: MixtureModel | TypedMixture
}

export const gmm: DetectorDefinition<GmmParameters, GmmModel, typeof OWN> = {
  name: 'gmm',
  summary: 'Gaussian mixture of k components on the rows themselves',
  options: ['scaler', 'k', 'covariance'],
  own: OWN,
  stages: ['clusters', 'mixture'],
  metadataKeys: ['mixture'],

  checkParameters(given: OptionReader): GmmParameters {
    return {
      detector: 'gmm',
      ...given.readAll(['scaler', 'k']),
      ...given.readOwn(OWN),
      ...given.readAll(EM_CONSTANTS),
    }
  },

  createScorer({ scaler, mixture, fitReport }: GmmModel): Scorer {
    const logDensity = createLogDensity(mixture)
    return createScaledScorer(scaler, fitReport.dimension, (rows, out) => {
      for (let i = 0; i < rows.rows; i++) out[i] = logDensity(rows.data, i * rows.cols)
    })
  },

  checkModel(value: Fields, parameters: GmmParameters, head: ModelHead): GmmModel {
    const { k, covariance } = parameters
    const mixture =
      covariance === 'full'
        ? checkFullMixture(value.mixture, head.dimension, k)
        : checkTypedMixture(value.mixture, covariance, head.dimension, k)
    return { kind: 'gmm', parameters, scaler: head.scaler, mixture, fitReport: head.fitReport }
  },

  encode({ mixture }: GmmModel): ModelFileParts {
    return {
      metadata: { mixture: { covarianceType: mixture.covarianceType } },
      tensors: encodeMixture(mixture),
    }
  },

  decode(file: ModelFileReader, parameters: Fields): Fields {
    const head = file.json('mixture') as { covarianceType?: unknown } | null
    const type = COVARIANCE_TYPES.find((known) => known === head?.covarianceType)
    // another type than the parameters request may have another shape, so the type is checked first
    if (type === undefined || type !== parameters.covariance) {
      const asked = COVARIANCE_TYPES.find((known) => known === parameters.covariance)
      return failField('mixture.covarianceType', asked ?? COVARIANCE_TYPES.join(', '), head?.covarianceType)
    }
    return { mixture: decodeMixture(file, type) }
  },

  spaceNumbers({ mixture }: GmmModel): number {
    return mixture.weights.length + mixture.means.data.length + mixture.precisionCholesky.length
  },

  facts({ mixture }: GmmModel): ModelFact[] {
    return [
      {
        label: 'mixture',
        value: `${plural(mixture.weights.length, 'Gaussian')}, ${mixture.covarianceType} covariances`,
      },
    ]
  },

  figures({ mixture }: GmmModel) {
    return { components: mixture.weights.length }
  },

  normalExamples({ mixture }: GmmModel) {
    return { rows: mixture.means, mixture }
  },
}

export function fitGmm(rows: Matrix, parameters: GmmParameters, context: FitContext): GmmModel {
  const { rng, report, rowNotes } = context
  const { k, covariance, tolerance, maximumSteps, regularisation } = parameters
  const em = { tolerance, maximumSteps, regularisation }
  const matrices = covariance === 'full' ? k : covariance === 'tied' ? 1 : 0
  if (matrices * rows.cols * rows.cols > MAXIMUM_COVARIANCE_NUMBERS) {
    throw new DataError(
      `${covariance} covariances of ${k} components over ${rows.cols} columns take more than ${MAXIMUM_COVARIANCE_NUMBERS} numbers: use covariance diagonal or fewer components`,
      'covariance',
    )
  }
  report('clusters', 0)
  const { scaler, scaled } = fitScaledRows(rows, parameters.scaler, context)
  const onStep = (step: number) => report('mixture', step / maximumSteps)
  let fitted: { readonly mixture: MixtureModel | TypedMixture; readonly notes: readonly string[] }
  if (covariance === 'full') {
    fitted = fitMixture(scaled, { kind: 'k-means++', k }, em, rng, { onEmStep: onStep })
  } else {
    const clustering = kMeans(scaled, k, rng.fork('k-means'))
    const memberships = clusterMemberships(clustering)
    const { mixture, notes } = fitFromStart(
      scaled,
      em,
      (added) => mixtureOf(covariance, momentsOf(covariance, scaled, memberships, added)),
      onStep,
    )
    const lowered =
      clustering.count < k ? [`k lowered from ${k} to ${clustering.count}: no more rows differ`] : []
    fitted = { mixture, notes: [...lowered, ...notes] }
  }
  report('mixture', 1)
  return {
    kind: 'gmm',
    parameters,
    scaler,
    mixture: fitted.mixture,
    fitReport: {
      trainingRows: rows.rows,
      dimension: rows.cols,
      notes: [...rowNotes, ...fitted.notes],
    },
  }
}

// ---- C

export function writeGmm(c: CWriter, { mixture }: GmmModel, prefix: string): void {
  writeMixture(c, mixture, prefix)
  c.scoreScaled(prefix, `$${prefix}density(x)`)
}

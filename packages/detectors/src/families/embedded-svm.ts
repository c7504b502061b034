/**
 * Embedding, then a linear one-class SVM (paper, figure "OC-KJL vs. OC-KJL-SVM"): what the paper compares its mixtures
 * with. A hyperplane can tell little where the embedded rows no longer lie on a sphere, and that is its point. With a
 * support guard (support-guard.ts) the score is the sum of two logarithms of tail probabilities, without one f itself.
 */
import type { Matrix } from '@oddflow/core'
import { exponentFactor } from '@oddflow/linalg'
import { checkEmbedding } from '../check-parts.js'
import type { DetectorDefinition, FitContext, ModelFact, ModelHead } from '../detector-definition.js'
import type { EmbeddedSvmName } from '../detector-name.js'
import { EMBEDDING_TILE_ROWS } from '../embedding-kernel/embedding-kernel.js'
import type { EmbeddedSvmModel } from '../model.js'
import type { Fields } from '../model-fields.js'
import type { ModelFileParts, ModelFileReader } from '../model-file/parts.js'
import {
  createOneClassSvmWorkspace,
  fitOneClassSvm,
  type OneClassSvmModel,
  scoreOneClassSvm,
} from '../one-class-svm/index.js'
import type { OptionReader } from '../option-reader.js'
import type { EmbeddedSvmParameters, EmbeddingParameters } from '../parameters.js'
import type { Scorer, ScorerOptions } from '../scorer.js'
import { checkSupportGuard, createSupportGuard, fitSupportGuard } from '../support-guard.js'
import { logTail } from '../tail-probability.js'
import {
  checkEmbeddingOptions,
  createEmbedder,
  decodeEmbedding,
  EMBEDDING_OPTIONS,
  embedAll,
  embeddingFacts,
  embeddingInPrecision,
  embeddingSpaceNumbers,
  encodeEmbedding,
  fitEmbedded,
  storedPrecision,
} from './embedded.js'
import { decodeGuard, encodeGuard, guardFact, guardSpaceNumbers } from './guard-parts.js'
import { checkSvm, decodeSvm, encodeSvm, svmFact, svmNotes, svmSpaceNumbers } from './svm-parts.js'

export function embeddedSvm(
  name: EmbeddedSvmName,
  summary: string,
  embeddingKind: EmbeddingParameters['kind'],
): DetectorDefinition {
  return {
    name,
    summary,
    options: [
      ...EMBEDDING_OPTIONS,
      'nu',
      'tolerance',
      'supportGuard',
      ...(embeddingKind === 'kjl' ? (['centre'] as const) : []),
    ],
    stages: ['bandwidth', 'embedding', 'fit'],
    metadataKeys: ['embedding', 'svm'],

    checkParameters(given: OptionReader): EmbeddedSvmParameters {
      return {
        detector: name,
        ...checkEmbeddingOptions(given, embeddingKind),
        nu: given.share('nu'),
        tolerance: given.svmTolerance(),
        supportGuard: given.flag('supportGuard'),
      }
    },

    fit(rows: Matrix, parameters: EmbeddedSvmParameters, context: FitContext): EmbeddedSvmModel {
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
        kind: name,
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
    },

    createScorer(
      { scaler, embedding, svm, supportGuard, parameters }: EmbeddedSvmModel,
      { simd }: ScorerOptions,
    ): Scorer {
      const { precision } = parameters
      const guard = supportGuard === null ? null : createSupportGuard(supportGuard)
      const { bandwidth, landmarks } = embedding
      const nearestWeights =
        guard?.weights ?? new Float64Array(landmarks.rows).fill(-exponentFactor(bandwidth, precision))
      const embedder = createEmbedder(scaler, embedding, { precision, simd, nearestWeights })
      const nearest = new Float64Array(EMBEDDING_TILE_ROWS)
      const workspace = createOneClassSvmWorkspace(svm)
      const d = embedder.dimensions
      const data = new Float64Array(EMBEDDING_TILE_ROWS * d)
      const scores = new Float64Array(EMBEDDING_TILE_ROWS)
      // rows of a part-filled tile are scored too, and thrown away: one matrix does for all
      const tile: Matrix = { rows: EMBEDDING_TILE_ROWS, cols: d, data }
      return {
        score(rows, out) {
          for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
            const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
            embedder.tile(rows, i, count, data, 0, guard === null ? undefined : nearest)
            scoreOneClassSvm(svm, tile, scores, workspace)
            for (let r = 0; r < count; r++) {
              out[i + r] =
                guard === null
                  ? scores[r]!
                  : logTail(guard.density, scores[r]!) + logTail(guard.support, -nearest[r]!)
            }
          }
        },
        parts(rows, out) {
          for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
            const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
            embedder.tile(rows, i, count, data, 0, nearest)
            scoreOneClassSvm(svm, tile, scores, workspace)
            for (let r = 0; r < count; r++) {
              const f = scores[r]!
              const support = -nearest[r]!
              out.unguarded[i + r] = f
              out.support[i + r] = support
              out.densityTerm[i + r] = guard === null ? f : logTail(guard.density, f)
              out.supportTerm[i + r] = guard === null ? 0 : logTail(guard.support, support)
            }
          }
        },
        embed(rows, out) {
          embedAll(embedder, rows, out)
        },
      }
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

    embedding({ embedding }: EmbeddedSvmModel) {
      return { dimensions: embedding.projection.rows, mixture: null }
    },
  }
}

function scoresOf(svm: OneClassSvmModel, embedded: Matrix): Float64Array {
  return scoreOneClassSvm(svm, embedded, new Float64Array(embedded.rows), createOneClassSvmWorkspace(svm))
}

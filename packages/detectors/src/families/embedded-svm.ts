/**
 * Embedding, then a linear one-class SVM (paper, figure "OC-KJL vs. OC-KJL-SVM"): what the paper compares its mixtures
 * with. A hyperplane can tell little where the embedded rows no longer lie on a sphere, and that is its point.
 */
import type { Matrix } from '@oddflow/core'
import { checkEmbedding } from '../check-parts.js'
import type { DetectorDefinition, FitContext, ModelFact, ModelHead } from '../detector-definition.js'
import type { EmbeddedSvmName } from '../detector-name.js'
import { EMBEDDING_TILE_ROWS } from '../embedding-kernel/embedding-kernel.js'
import type { EmbeddedSvmModel } from '../model.js'
import type { Fields } from '../model-fields.js'
import type { ModelFileParts, ModelFileReader } from '../model-file/parts.js'
import { createOneClassSvmWorkspace, fitOneClassSvm, scoreOneClassSvm } from '../one-class-svm/index.js'
import type { OptionReader } from '../option-reader.js'
import type { EmbeddedSvmParameters, EmbeddingParameters } from '../parameters.js'
import type { Scorer, ScorerOptions } from '../scorer.js'
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
      }
    },

    fit(rows: Matrix, parameters: EmbeddedSvmParameters, context: FitContext): EmbeddedSvmModel {
      const { scaler, embedding, embedded, notes } = fitEmbedded(rows, parameters, context)
      context.report('fit', 0)
      const { nu, tolerance } = parameters
      const svm = fitOneClassSvm(embedded, { kernel: { kind: 'linear' }, nu, tolerance })
      context.report('fit', 1)
      return {
        kind: name,
        parameters,
        scaler,
        embedding: embeddingInPrecision(embedding, parameters.precision),
        svm,
        fitReport: {
          trainingRows: rows.rows,
          dimension: rows.cols,
          notes: [...notes, ...svmNotes(svm)],
        },
      }
    },

    createScorer({ scaler, embedding, svm, parameters }: EmbeddedSvmModel, { simd }: ScorerOptions): Scorer {
      const { precision } = parameters
      const embedder = createEmbedder(scaler, embedding, { precision, simd })
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
            embedder.tile(rows, i, count, data, 0)
            scoreOneClassSvm(svm, tile, scores, workspace)
            for (let r = 0; r < count; r++) out[i + r] = scores[r]!
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
      return { kind: name, parameters, scaler: head.scaler, embedding, svm, fitReport: head.fitReport }
    },

    encode({ embedding, svm, parameters }: EmbeddedSvmModel): ModelFileParts {
      const a = encodeEmbedding(embedding, parameters.precision)
      const b = encodeSvm(svm)
      return {
        metadata: { ...a.metadata, ...b.metadata },
        tensors: { ...a.tensors, ...b.tensors },
      }
    },

    decode(file: ModelFileReader, parameters: Fields): Fields {
      return { embedding: decodeEmbedding(file, storedPrecision(parameters)), svm: decodeSvm(file) }
    },

    spaceNumbers({ embedding, svm, parameters }: EmbeddedSvmModel): number {
      return embeddingSpaceNumbers(embedding, parameters.precision) + svmSpaceNumbers(svm)
    },

    facts({ embedding, svm, parameters }: EmbeddedSvmModel): ModelFact[] {
      return [...embeddingFacts(embedding, parameters), { label: 'linear SVM', value: svmFact(svm) }]
    },

    figures({ embedding, svm }: EmbeddedSvmModel) {
      return { bandwidth: embedding.bandwidth, supportVectors: svm.supportVectors.rows }
    },

    embedding({ embedding }: EmbeddedSvmModel) {
      return { dimensions: embedding.projection.rows, mixture: null }
    },
  }
}

/**
 * A model learns on from rows that a watched device has shown: a round of the learner of @oddflow/detectors
 * (docs/learning-on.md), which decides what may be learnt.
 *
 * The rows come as they were, novel ones too, and are not said to be normal: the learner keeps one in five from learning
 * before it asks for a verdict, for the threshold (a threshold of what had passed it would climb with every round),
 * learns of the others those that it finds normal, and drops those that are novel. Its guard compares with the model as
 * it was trained, which stays in the file, and has a round undone that lets too much pass.
 *
 * Forgetting is gradual: a row counts half after HALF_LIFE_ROWS more, so that a habit which slowly changes is followed.
 * Landmarks and components stay as many as they were. The same file and rows give the same bytes.
 */
import { matrixOf } from '@oddflow/core'
import { createLearner, decodeModelFile, encodeModelFile, type LearningOptions } from '@oddflow/detectors'

export interface LearningJob {
  /** A model file, of a training or learnt on. */
  readonly file: Uint8Array
  /** n × D, row-major, as they came. */
  readonly rows: Float64Array
  /** Learn only what the model as it was trained finds normal too. */
  readonly shadowAgrees: boolean
  readonly seed: number
}

export interface LearntRows {
  /** The model file that follows; of no use where the guard refused. */
  readonly file: Uint8Array
  readonly learnt: number
  /** Kept from learning, for the threshold. */
  readonly heldBack: number
  /** Not learnt, since novel to the model or, where it is asked, to the trained one. */
  readonly disregarded: number
  /** Whether the guard had the round undone. */
  readonly refused: boolean
}

const HALF_LIFE_ROWS = 1000
const RESERVOIR_ROWS = 500

/** Throws ArgumentError for a model that cannot learn on. */
export function learnOn({ file, rows, shadowAgrees, seed }: LearningJob): LearntRows {
  const saved = decodeModelFile(file)
  const { dimension } = saved.detector.fitReport
  const learning: LearningOptions = {
    roundRows: rows.length / dimension,
    reservoirRows: RESERVOIR_ROWS,
    forgetting: { kind: 'exponential', halfLifeRows: HALF_LIFE_ROWS },
    novel: 'disregard',
    sketch: { kind: 'keep' },
    guard: { lifted: 0.02, moved: 0.1, shadowAgrees },
  }
  const learner = createLearner(saved, saved.learned === undefined ? { learning, seed } : { learning })
  const report = learner.arrive(matrixOf(rows.length / dimension, dimension, rows))
  return {
    file: encodeModelFile(learner.saved()),
    learnt: report.learnt,
    heldBack: report.heldBack,
    disregarded: report.disregarded,
    refused: report.rounds.some(({ refused }) => refused),
  }
}

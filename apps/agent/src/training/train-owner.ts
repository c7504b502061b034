/**
 * A training of an owner: its rows go to a thread, and the model that comes back is written to disk, then used.
 *
 * One that finds the later half of the rows unlike the earlier one (train-rows.ts) changes nothing and is tried again with a
 * quarter more flows; one that fails or takes too long, with twice as many. After one that is in force there is another when
 * the flows that came since do not bear it out (learning-progress.ts), of all rows, those flows too. A training of an owner that
 * is judged with what it has shown is never refused as unsettled: it is the best that there is.
 */
import { createHash } from 'node:crypto'
import type { FlowContract } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import type { Log } from '../log.js'
import type { LearningProgress } from './learning-progress.js'
import type { ModelRecord, ModelStore } from './model-store.js'
import { type Learning, noteOf, type Owner, type OwnerBook, setNote } from './owner-book.js'
import { rowsToLearn, type TrainedRows, type TrainingJob } from './train-rows.js'

export interface OwnerTrainerOptions {
  readonly contract: FlowContract
  readonly book: OwnerBook
  readonly progress: LearningProgress
  readonly store: ModelStore
  readonly train: (job: TrainingJob) => Promise<TrainedRows>
  /** Of a latest half that is unlike the earlier one, beyond what the threshold promises. */
  readonly stableShare: number
  /** A new model is in force. */
  readonly onTrained: (of: Owner) => void
  readonly seed: number
  readonly oddflowVersion: string
  readonly log: Log
}

export interface OwnerTrainer {
  /** Never rejects. */
  train(of: Owner, learning: Learning): Promise<void>
  readonly counts: { accepted: number; unsettled: number; failed: number }
}

export function createOwnerTrainer(options: OwnerTrainerOptions): OwnerTrainer {
  const { contract, book, progress, store, log, seed, oddflowVersion } = options
  const counts = { accepted: 0, unsettled: 0, failed: 0 }
  return {
    counts,
    async train(of, learning) {
      const { reservoir } = learning
      const flows = noteOf(learning, 'flows')
      const isJudgement = progress.isOverdue(learning)
      const falsePositiveRate = progress.rateFor(learning)
      const again = (factor: number): void => {
        setNote(learning, 'nextFlows', Math.ceil(factor * flows))
        learning.isDirty = true
      }
      try {
        const trained = await options.train({
          rows: reservoir.rows().data,
          contract,
          // flow summaries have rows for flows of one packet
          onePacketRule: contract.minimumPackets === 1 ? null : reservoir.onePacketRule(),
          falsePositiveRate,
          seed,
          oddflowVersion,
        })
        // forgotten, or told to learn anew, meanwhile
        if (of.learning !== learning) return
        const { rows, unsettledShare } = trained
        if (unsettledShare > options.stableShare && !isJudgement) {
          counts.unsettled++
          again(1.25)
          // once until a training is accepted: there may be many
          if (of.refused === null) log.warn(refusalText(of, trained, options.stableShare))
          of.refused = { rows, unsettledShare }
          return
        }
        of.refused = null
        const record: ModelRecord = {
          owner: of.name,
          sha256: createHash('sha256').update(trained.file).digest('hex'),
          previous: of.record?.sha256 ?? null,
          source: 'trained',
          pinned: false,
          rows,
          unsettledShare,
          trainedAtMicros: progress.latestMicros,
        }
        await store.write(record, trained.file)
        if (of.learning !== learning) return
        setNote(learning, 'hasModel', 1)
        setNote(learning, 'provingFlows', 0)
        setNote(learning, 'provingNovel', 0)
        if (isJudgement) setNote(learning, 'judged', 1)
        of.isBrokenTold = false
        again(1)
        const saved = decodeModelFile(trained.file)
        book.putInForce(of, { saved, sha256: record.sha256 }, record)
        options.onTrained(of)
        counts.accepted++
        log.info(
          `${of.name}: a model of ${trained.rows} rows is in force${shortfall(saved, contract, progress.rowsFor(learning))}`,
        )
      } catch (error) {
        counts.failed++
        if (isJudgement) setNote(learning, 'judged', 1)
        again(2)
        log.warn(
          `${of.name}: no model was made: ${error instanceof Error ? error.message : error}; trying again`,
        )
      }
    },
  }
}

function refusalText(
  { name, model }: Owner,
  { rows, unsettledShare }: TrainedRows,
  stableShare: number,
): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const meanwhile = model === null ? 'it has no model yet' : 'its model stays as it was'
  return `${name}: a model of ${rows} rows is refused as unsettled: ${percent(unsettledShare)} of the later half is unlike the earlier, ${percent(stableShare)} are allowed; ${meanwhile}, trying again as more flows come`
}

/** What a model promises that does not promise what was asked for. */
function shortfall({ threshold }: SavedModel, contract: FlowContract, rowsFor: number): string {
  const { guaranteed, bound } = threshold.calibration
  if (guaranteed) return ''
  const needed = rowsToLearn(contract, threshold.falsePositiveRate)
  const remedy =
    needed > rowsFor
      ? `models.rowsPerDevice of ${needed} would keep what was asked for`
      : `${needed} rows keep what was asked for, and more are collected`
  return `; its threshold lets up to ${(100 * bound).toPrecision(2)} % of normal flows be flagged; ${remedy}`
}

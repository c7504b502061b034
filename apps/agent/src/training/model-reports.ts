/**
 * What is told of the models that are made here: by `models list`, `devices list`, the counters and the metrics. Plain
 * data of numbers and names; `reportOwner` makes the part on one owner.
 */
import type { OwnModel } from '../page/api.js'
import { type LearningProgress, promisedShare } from './learning-progress.js'
import { isOfNow, noteOf, type Owner } from './owner-book.js'

/**
 * What is told of an owner: what the page shows (page/api.ts), and how far its learning is. Of one that learns, `rows` are
 * those in its reservoir and `rowsNeeded` those with which its threshold keeps what is asked for, as far as there is room; of
 * one that does not, `rows` are those that its model was trained with and `rowsNeeded` is null. What is said of a promise is
 * null without a model.
 */
export interface OwnerReport extends OwnModel {
  /** Flows seen while learning. */
  readonly flows: number
  /** What its training found of the model in force; null without one. What one found that was refused is in `refused`. */
  readonly unsettledShare: number | null
}

export interface ModelsReport {
  readonly owners: { readonly waiting: number; readonly learning: number; readonly withModel: number }
  readonly trainings: TrainingCounts
  /** null where models do not learn on. */
  readonly learning: OnlineReport | null
  readonly reservoirBytes: number
  readonly reservoirBytesMaximum: number
  /** Models found damaged at the start. */
  readonly damaged: number
}

export type TrainingCounts = Readonly<Record<'accepted' | 'unsettled' | 'failed', number>>

export interface OnlineReport {
  /** Of watched devices, by what became of them; `refused` were in rounds that the guard had undone. */
  readonly rows: {
    readonly learnt: number
    readonly heldBack: number
    readonly disregarded: number
    readonly refused: number
    readonly overBudget: number
    readonly crowded: number
  }
  readonly rounds: { readonly accepted: number; readonly refused: number; readonly failed: number }
  readonly shadow: ShadowCounts
}

/** Scored flows of owners whose model has learnt on, by whether it and the model as it was trained find them novel. */
export type ShadowCounts = Readonly<Record<'bothNormal' | 'bothNovel' | 'onlyNow' | 'onlyTrained', number>>

export function reportOwner(of: Owner, progress: LearningProgress): OwnerReport {
  const { learning, record } = of
  const threshold = of.model?.saved.threshold ?? null
  const proving =
    learning === null || !isOfNow(of)
      ? null
      : {
          state: progress.proof(of),
          flows: noteOf(learning, 'provingFlows'),
          needed: progress.provesAfter(learning),
          novel: noteOf(learning, 'provingNovel'),
        }
  return {
    owner: of.name,
    state: of.isWaiting ? 'waiting' : !isOfNow(of) ? 'learning' : record === null ? 'given' : record.source,
    model: of.model?.id ?? null,
    previous: record?.previous?.slice(0, 16) ?? null,
    rows: learning?.reservoir.count ?? record?.rows ?? 0,
    rowsNeeded: learning === null ? null : progress.rowsFor(learning),
    modelRows: record?.rows ?? null,
    falseAlarmShare: threshold === null ? null : promisedShare(threshold),
    keepsPromise: threshold === null ? null : threshold.calibration.guaranteed && proving?.state !== 'broken',
    proving,
    refused: of.refused,
    damage: of.damage,
    flows: learning === null ? 0 : noteOf(learning, 'flows'),
    unsettledShare: record?.unsettledShare ?? null,
  }
}

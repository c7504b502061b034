/**
 * Decider: the verdict on a flow record, and whose word it is: one model's for all, or that of the device's own.
 *
 * All models of an agent share a contract, so there is one flow table and one row.
 */
import type { FlowContract } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { createFlowJudge, deviceKeyOf, type Judgement, type Network, type Rarity } from '@oddflow/program'
import type { Thresholds } from '../budget/thresholds.js'

export interface Decision extends Judgement {
  /** That the score was compared with; null where there is no model to ask. */
  readonly threshold: number | null
  /** The first 16 hexadecimal digits of the model file's SHA-256; null where there is none. */
  readonly model: string | null
  /** What the model said as it was trained, where it has learnt on since. */
  readonly shadow?: ShadowVerdict
}

export interface ShadowVerdict {
  readonly score: number | null
  readonly threshold: number
  readonly novel: boolean
  /** The first 16 digits of its file's SHA-256. */
  readonly model: string
}

export interface Decider {
  readonly contract: FlowContract
  /** D numbers, to which an extractor writes its rows. */
  readonly row: Float64Array
  /** A record's row, where it has one, must be `row`. */
  decide(record: FlowRecord): Decision
  /** The same verdict, which nothing counts: for made traffic. */
  peek(record: FlowRecord): Decision
  /** What judges a device (its key), as decisions name it; null where there is no model yet. */
  modelOf(device: string): ModelInForce | null
  /** How rare the score of a decision is among normal flows; null where nobody knows. */
  rarity(decision: Pick<Decision, 'score' | 'model'>): Rarity | null
}

export type ModelInForce = { readonly model: string; readonly threshold: number }

/** Throws ContractMismatchError for a model that knows nothing of flows. */
export function createModelDecider(
  saved: SavedModel,
  model: string,
  /** Decide on scores; the rule on flows of one packet is the model's. */
  thresholds: Thresholds,
  localNetworks: readonly Network[],
): Decider {
  const { contract, row, judge } = createFlowJudge(saved)
  const decisionOn = ({ score, rule, novel }: Judgement, threshold: number): Decision =>
    score === null
      ? { score, rule, novel, threshold, model }
      : { score, rule, novel: !(score > threshold), threshold, model }
  return {
    contract,
    row,
    decide(record) {
      const judgement = judge(record)
      const { score, rule, novel } = judgement
      if (score !== null) return decisionOn(judgement, thresholds.judge(record, score))
      if (novel && rule === 'one-packet') thresholds.noteOnePacketNovel()
      return decisionOn(judgement, saved.threshold.value)
    },
    peek(record) {
      const judgement = judge(record)
      if (judgement.score === null) return decisionOn(judgement, saved.threshold.value)
      return decisionOn(judgement, thresholds.of(deviceKeyOf(record, localNetworks)))
    },
    modelOf: (device) => ({ model, threshold: thresholds.of(device) }),
    rarity: ({ score }) => (score === null ? null : thresholds.rarity(score)),
  }
}

/**
 * FlowJudge: a verdict on each flow record, under a saved model. The one place where it is said what novel
 * means, so that a file and a live network are judged alike.
 *
 * Three rules give verdicts, and each verdict names the one it was:
 * - `score`: the record has a row; novel iff its score is at or below the model's threshold;
 * - `one-packet`: under feature sets of single packets a flow of one packet has no row; it is novel unless one-packet
 *   flows to the same service were seen in training;
 * - `not-judged`: nothing is known of it (too few packets in time, or a piece of which the authors' rules make no
 *   row), so it is not flagged, and counted.
 *
 * The row is the judge's: a flow extractor is given it to write to, so nothing is copied or allocated a row.
 */
import { ContractMismatchError, type FlowContract, matrixOf } from '@oddflow/core'
import { createScoreWorkspace, isNovel, type SavedModel, scoreSamples } from '@oddflow/detectors'
import { type FlowRecord, judgeOnePacket } from '@oddflow/flows'

export type VerdictRule = 'score' | 'one-packet' | 'not-judged'

export interface Judgement {
  /** Higher is more normal; null where another rule than the score decided. */
  readonly score: number | null
  readonly novel: boolean
  readonly rule: VerdictRule
}

export interface FlowJudge {
  /** The model's: records must be made under it. */
  readonly contract: FlowContract
  /** D numbers, to which an extractor writes its rows (FlowExtractorOptions.row). */
  readonly row: Float64Array
  /** A record's row, where it has one, must be `row`. */
  judge(record: FlowRecord): Judgement
}

/**
 * Bytes of a flow's ends as they are told to people: the contract's size measure, or the lengths in the IP headers where
 * these are more. A scan carries no payload, a capture may hold the beginnings of its packets, and both have bytes.
 */
export function reportedBytes(
  record: Pick<FlowRecord, 'initiatorBytes' | 'initiatorIpBytes' | 'responderBytes' | 'responderIpBytes'>,
): { readonly initiator: number; readonly responder: number } {
  return {
    initiator: Math.max(record.initiatorBytes, record.initiatorIpBytes),
    responder: Math.max(record.responderBytes, record.responderIpBytes),
  }
}

/**
 * Throws ContractMismatchError for a model that was trained on rows and knows nothing of flows.
 * @param given - the row, of judges of one contract that share it; default one of its own.
 */
export function createFlowJudge(
  { contract, detector, threshold, onePacketRule }: SavedModel,
  given?: Float64Array,
): FlowJudge {
  if (contract.featureSet === 'rows') {
    throw new ContractMismatchError(
      'the model was trained on feature rows, not on captures; train on captures, or extract rows in the way its own were made',
    )
  }
  const workspace = createScoreWorkspace(detector)
  const row = given ?? new Float64Array(contract.dimension)
  const matrix = matrixOf(1, contract.dimension, row)
  const score = new Float64Array(1)
  return {
    contract,
    row,
    judge(record) {
      if (record.row !== null) {
        scoreSamples(detector, matrix, score, workspace)
        return { score: score[0]!, novel: isNovel(score[0]!, threshold), rule: 'score' }
      }
      if (record.noRowReason === 'one-packet') {
        const novel = onePacketRule === null || judgeOnePacket(onePacketRule, record)
        return { score: null, novel, rule: 'one-packet' }
      }
      return { score: null, novel: false, rule: 'not-judged' }
    },
  }
}

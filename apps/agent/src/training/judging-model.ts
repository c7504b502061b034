/**
 * JudgingModel: a model in memory, as far as it takes to judge.
 *
 * What it takes to learn on stays on disk: it is several times the model. Of one that has learnt on, the model as it was
 * trained is in the same file (`learned.frozen`), and judges beside it as its shadow.
 */
import type { SavedModel } from '@oddflow/detectors'
import { createFlowJudge, type FlowJudge } from '@oddflow/program'
import type { ModelRecord } from './model-store.js'

/** A model with its name, from disk. */
export interface NamedModel {
  readonly saved: SavedModel
  readonly sha256: string
}

export interface JudgingModel {
  /** The first 16 hexadecimal digits of its file's SHA-256. */
  readonly id: string
  readonly saved: SavedModel
  readonly judge: FlowJudge['judge']
}

/** @param row - D numbers, from which it judges. */
export function createJudgingModel({ saved, sha256 }: NamedModel, row: Float64Array): JudgingModel {
  const { learned: _, ...kept } = saved
  return { id: sha256.slice(0, 16), saved: kept, judge: createFlowJudge(kept, row).judge }
}

/** As it was trained; null of one that has not learnt on. */
export function createShadow(
  { saved }: NamedModel,
  { previous }: ModelRecord,
  row: Float64Array,
): JudgingModel | null {
  const { contract, onePacketRule, provenance, learned } = saved
  if (learned === undefined) return null
  const trained: SavedModel = { ...learned.frozen, contract, onePacketRule, provenance }
  return { id: previous?.slice(0, 16) ?? '', saved: trained, judge: createFlowJudge(trained, row).judge }
}

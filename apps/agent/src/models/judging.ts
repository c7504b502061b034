/**
 * JudgingModel: the part of a model that judges, in memory. The data for updates is several times larger and stays on disk. The file of
 * an updated model also has the trained one (`learned.frozen`), which judges beside it as its shadow.
 */
import type { FlowContract } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { learnedStateOf } from '@oddflow/online'
import { createFlowJudge, deviceKeyOf, type FlowJudge, type Network, scoreRarity } from '@oddflow/program'
import type { Alert } from '../alerts/alert.js'
import { type AlertExplainer, createAlertExplainer, explainNothing } from '../alerts/eve.js'
import type { AgentVerdict, Decider } from '../pipeline/counters.js'
import type { ModelScope, ScopeRegistry } from './model-scopes.js'
import type { ModelRecord } from './model-store.js'
import type { ShadowCounts } from './progress.js'

interface RoomDeciderOptions {
  readonly contract: FlowContract
  readonly row: Float64Array
  readonly registry: ScopeRegistry
  /** By a device's key; undefined for an unknown device. */
  readonly scopeOf: (device: string) => ModelScope | undefined
  readonly localNetworks: readonly Network[]
  readonly base: JudgingModel | null
}

/** Cached explainers; each takes as much memory as its model. */
const MAXIMUM_EXPLAINERS = 4

/**
 * The verdict of the device's own model, else of the base model. If the model was updated, the trained one judges too: the decision has
 * its verdict, and differences are counted.
 */
export function createRoomDecider(options: RoomDeciderOptions) {
  const { contract, row, registry, scopeOf, localNetworks } = options
  let { base } = options
  const shadow = { bothNormal: 0, bothNovel: 0, onlyNow: 0, onlyTrained: 0 }
  const explainers = new Map<string, AlertExplainer>()
  const modelBy = (id: string | null | undefined): JudgingModel | undefined =>
    id === null || id === undefined ? undefined : base?.id === id ? base : registry.modelBy(id)
  const peek = (record: FlowRecord): AgentVerdict => {
    const of = scopeOf(deviceKeyOf(record, localNetworks))
    const model = of?.model ?? base
    if (model === null) return { score: null, rule: 'not-judged', novel: false, threshold: null, model: null }
    const decision = { ...model.judge(record), threshold: model.saved.threshold.value, model: model.id }
    const trained = of?.shadow ?? null
    if (trained === null || decision.score === null) return decision
    const { score, novel } = trained.judge(record)
    return {
      ...decision,
      shadow: { score, threshold: trained.saved.threshold.value, novel, model: trained.id },
    }
  }
  return {
    contract,
    row,
    /** Replaces the base model. */
    setBase(model: JudgingModel): void {
      base = model
    },
    decide(record: FlowRecord): AgentVerdict {
      const decision = peek(record)
      if (decision.shadow !== undefined) {
        const { novel } = decision.shadow
        if (novel === decision.novel) shadow[novel ? 'bothNovel' : 'bothNormal']++
        else shadow[novel ? 'onlyTrained' : 'onlyNow']++
      }
      return decision
    },
    peek,
    modelOf(device: string): ReturnType<Decider['modelOf']> {
      const model = scopeOf(device)?.model ?? base
      return model === null
        ? null
        : { model: model.id, threshold: model.saved.threshold.value, saved: model.saved }
    },
    rarity({ score, model }: Parameters<Decider['rarity']>[0]): ReturnType<Decider['rarity']> {
      const found = modelBy(model)
      return score === null || found === undefined ? null : scoreRarity(found.saved, score)
    },
    explain(alert: Alert): ReturnType<AlertExplainer> {
      const model = modelBy(alert.model)
      if (model === undefined) return explainNothing(alert)
      let explainer = explainers.get(model.id)
      if (explainer === undefined) {
        if (explainers.size >= MAXIMUM_EXPLAINERS) explainers.delete(explainers.keys().next().value as string)
        explainer = createAlertExplainer(model.saved)
        explainers.set(model.id, explainer)
      }
      return explainer(alert)
    },
    shadowCounts: (): ShadowCounts => ({ ...shadow }),
  }
}

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

/** The trained model of an updated one; null for a model without updates. */
export function createShadow(
  { saved }: NamedModel,
  { previous }: ModelRecord,
  row: Float64Array,
): JudgingModel | null {
  const { contract, onePacketRule, provenance } = saved
  const learned = learnedStateOf(saved)
  if (learned === undefined) return null
  const trained: SavedModel = { ...learned.frozen, contract, onePacketRule, provenance }
  return { id: previous?.slice(0, 16) ?? '', saved: trained, judge: createFlowJudge(trained, row).judge }
}

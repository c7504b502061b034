/**
 * The verdict of the room: of the model of the device's owner, else of the base model, else of nobody; and why.
 *
 * Of an owner whose model has learnt on, the model as it was trained judges too: its word stands in the decision, and
 * where the two differ is counted.
 */
import type { FlowContract } from '@oddflow/core'
import type { FlowRecord } from '@oddflow/flows'
import { deviceKeyOf, type Network, scoreRarity } from '@oddflow/program'
import type { Alert } from '../alerts/alert.js'
import { type AlertExplainer, createAlertExplainer, explainNothing } from '../alerts/explain-alert.js'
import type { Decider, Decision } from '../pipeline/decider.js'
import type { JudgingModel } from './judging-model.js'
import type { ShadowCounts } from './model-reports.js'
import type { Owner, OwnerBook } from './owner-book.js'

export interface RoomDecider extends Decider {
  readonly explain: AlertExplainer
  shadowCounts(): ShadowCounts
}

export interface RoomDeciderOptions {
  readonly contract: FlowContract
  readonly row: Float64Array
  readonly book: OwnerBook
  /** Of a device, by its key; undefined where nothing is known of it. */
  readonly ownerOf: (device: string) => Owner | undefined
  readonly localNetworks: readonly Network[]
  readonly base: JudgingModel | null
}

/** Explainers that are kept; one takes as much as its model. */
const MAXIMUM_EXPLAINERS = 4

export function createRoomDecider(options: RoomDeciderOptions): RoomDecider {
  const { contract, row, book, ownerOf, localNetworks, base } = options
  const shadow = { bothNormal: 0, bothNovel: 0, onlyNow: 0, onlyTrained: 0 }
  const explainers = new Map<string, AlertExplainer>()
  const modelBy = (id: string | null | undefined): JudgingModel | undefined =>
    id === null || id === undefined ? undefined : base?.id === id ? base : book.modelBy(id)
  const peek = (record: FlowRecord): Decision => {
    const of = ownerOf(deviceKeyOf(record, localNetworks))
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
    decide(record) {
      const decision = peek(record)
      if (decision.shadow !== undefined) {
        const { novel } = decision.shadow
        if (novel === decision.novel) shadow[novel ? 'bothNovel' : 'bothNormal']++
        else shadow[novel ? 'onlyTrained' : 'onlyNow']++
      }
      return decision
    },
    peek,
    modelOf(device) {
      const model = ownerOf(device)?.model ?? base
      return model === null ? null : { model: model.id, threshold: model.saved.threshold.value }
    },
    rarity({ score, model }) {
      const found = modelBy(model)
      return score === null || found === undefined ? null : scoreRarity(found.saved, score)
    },
    explain(alert: Alert) {
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
    shadowCounts: () => ({ ...shadow }),
  }
}

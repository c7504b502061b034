/**
 * OwnerBook: the owners that are known (a device, a group, or all), whose model is in force, and who learns.
 *
 * It holds the two bounds: an owner that learns has a whole reservoir reserved, of as many as there are `places`, and models
 * are `maximumModels` at most, of those that learn too. Who finds no room waits.
 */

import { createJudgingModel, createShadow, type JudgingModel, type NamedModel } from './judging-model.js'
import type { ModelRecord } from './model-store.js'
import type { RowReservoir } from './row-reservoir.js'

/** What an owner shows while it learns. */
export interface Learning {
  readonly reservoir: RowReservoir
  /** Those of its devices that learn, as far as they are counted. */
  readonly devices: Set<string>
  /** Something came since it was kept. */
  isDirty: boolean
}

export interface Owner {
  readonly name: string
  model: JudgingModel | null
  /** As it was trained, of one that has learnt on. */
  shadow: JudgingModel | null
  /** null where the model was given, or there is none. */
  record: ModelRecord | null
  learning: Learning | null
  isWaiting: boolean
  /** The last training, where it was refused; null after one that was accepted. */
  refused: { readonly rows: number; readonly unsettledShare: number } | null
  /** What became of the model that was found damaged at the start: the one before it judges, or none until it has learnt again. */
  damage: 'previous' | 'lost' | null
  /** It was told that the proof of the model in force is broken. */
  isBrokenTold: boolean
}

/** Numbers of a learning owner that are kept with its rows. */
export type LearningNote =
  | 'firstMicros'
  | 'lastMicros'
  | 'flows'
  | 'nextFlows'
  | 'hasModel'
  // since its model is in force: flows that it has scored, and novel ones among them
  | 'provingFlows'
  | 'provingNovel'

/** 0 where there is none. */
export function noteOf({ reservoir }: Learning, name: LearningNote): number {
  return reservoir.notes.get(name) ?? 0
}

export function setNote({ reservoir }: Learning, name: LearningNote, value: number): void {
  reservoir.notes.set(name, value)
}

/** Whether the model in force is of what is being learnt. */
export function isOfNow({ model, learning }: Owner): boolean {
  return model !== null && (learning === null || noteOf(learning, 'hasModel') === 1)
}

export interface OwnerBook {
  get(name: string): Owner | undefined
  /** Made where there is none. */
  owner(name: string): Owner
  all(): Iterable<Owner>
  remove(of: Owner): void
  putInForce(of: Owner, named: NamedModel, record: ModelRecord | null): void
  /** The model in force with this id. */
  modelBy(id: string): JudgingModel | undefined
  /** Whether there is memory for one more that learns. */
  hasPlace(): boolean
  /** Whether the owner may begin to learn. */
  hasRoom(of: Owner): boolean
  beginLearning(of: Owner, reservoir: RowReservoir): Learning
  endLearning(of: Owner): void
  readonly learners: number
  readonly models: number
}

export interface OwnerBounds {
  /** Reservoirs that there is memory for. */
  readonly places: number
  readonly maximumModels: number
}

/** @param row - from which all models judge. */
export function createOwnerBook({ places, maximumModels }: OwnerBounds, row: Float64Array): OwnerBook {
  const owners = new Map<string, Owner>()
  const byId = new Map<string, JudgingModel>()
  let learners = 0
  const hasPlace = (): boolean => learners < places
  const modelCount = (): number => [...owners.values()].filter(({ model }) => model !== null).length
  const endLearning = (of: Owner): void => {
    if (of.learning !== null) learners--
    of.learning = null
    of.isWaiting = false
    of.refused = null
    of.isBrokenTold = false
  }
  return {
    get: (name) => owners.get(name),
    owner(name) {
      let found = owners.get(name)
      if (found === undefined) {
        found = {
          name,
          model: null,
          shadow: null,
          record: null,
          learning: null,
          isWaiting: false,
          refused: null,
          damage: null,
          isBrokenTold: false,
        }
        owners.set(name, found)
      }
      return found
    },
    all: () => owners.values(),
    remove(of) {
      endLearning(of)
      owners.delete(of.name)
      if (of.model !== null) byId.delete(of.model.id)
    },
    putInForce(of, named, record) {
      if (of.model !== null) byId.delete(of.model.id)
      of.model = createJudgingModel(named, row)
      byId.set(of.model.id, of.model)
      of.damage = null
      of.shadow = record === null ? null : createShadow(named, record, row)
      of.record = record
    },
    modelBy: (id) => byId.get(id),
    hasPlace,
    hasRoom: (of) => hasPlace() && (of.model !== null || modelCount() + learners < maximumModels),
    beginLearning(of, reservoir) {
      learners++
      of.isWaiting = false
      of.learning = { reservoir, devices: new Set(), isDirty: false }
      return of.learning
    },
    endLearning,
    get learners() {
      return learners
    },
    get models() {
      return modelCount()
    },
  }
}

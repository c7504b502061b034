import { ArgumentError, OddFlowError } from '@oddflow/core'
import type { FurtherRoutes } from '../devices/control-socket.js'
import { isRandomised } from '../devices/device.js'
import { createJudgingModel, createShadow, type JudgingModel, type NamedModel } from './judging.js'
import type { ModelManager } from './model-manager.js'
import type { ModelRecord } from './model-store.js'
import type { RowReservoir } from './row-reservoir.js'

/** Requests about models on the control socket: `/models`. */

/**
 * GET lists the owners; POST `{ rollback: [owner, …] }` goes back, and says of each why not, or null. Rejects where what
 * is asked for is no list, or none of it can be kept.
 */
export function modelRoutes(room: ModelManager): FurtherRoutes {
  return {
    '/models': async (body) => {
      if (body === null) return { owners: room.owners() }
      const { rollback } = body as { rollback?: unknown }
      if (!Array.isArray(rollback) || !rollback.every((owner) => typeof owner === 'string')) {
        throw new ArgumentError('rollback: expected a list of owners')
      }
      const results: { owner: string; refused: string | null }[] = []
      const failures: OddFlowError[] = []
      for (const owner of rollback as string[]) {
        try {
          results.push({ owner, refused: await room.rollback(owner) })
        } catch (error) {
          // one that cannot be kept undoes no other
          if (!(error instanceof OddFlowError)) throw error
          failures.push(error)
          results.push({ owner, refused: error.message })
        }
      }
      if (failures.length > 0 && failures.length === results.length) throw failures[0]
      return { results }
    },
  }
}

/**
 * ScopeRegistry: the known scopes (a device, a group, or all), their active models, and which of them learn.
 *
 * A scope that learns reserves a whole reservoir, of at most `places`; models are at most `maximumModels`, those to come included. A scope
 * that finds no room waits, or takes the place of one that is judged already, came and went within an hour, was idle for a day, or has
 * a private (randomised) address where its own is public.
 */

/** What an owner shows while it learns. */
export interface Learning {
  readonly reservoir: RowReservoir
  /** Those of its devices that learn, as far as they are counted. */
  readonly devices: Set<string>
  /** Its devices are watched or wait for approval, and their normal flows tighten its promise. */
  isWatched: boolean
  /** Something came since it was kept. */
  isDirty: boolean
  /** Its rows were kept. */
  isOnDisk: boolean
}

export interface ModelScope {
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
  /** The broken proof of the active model was reported. */
  isBrokenTold: boolean
}

/** Numbers of a learning owner that are kept with its rows. */
type LearningNote =
  | 'firstMicros'
  // when the device that it began with was first seen
  | 'seenMicros'
  | 'lastMicros'
  | 'flows'
  | 'nextFlows'
  | 'hasModel'
  // since its model is active: scored flows, and novel ones among them
  | 'provingFlows'
  | 'provingNovel'
  // novel flows of watched devices that were learnt, and when the last was
  | 'novelTaken'
  | 'novelTakenMicros'
  // 1 since it was judged with what it had shown
  | 'judged'

const HOUR_MICROS = 3_600_000_000
/** One that was seen for less than an hour is gone after so long. */
const GONE_MICROS = HOUR_MICROS / 6
/** Any is after so long. */
const IDLE_MICROS = 24 * HOUR_MICROS

/** 0 where there is none. */
export function noteOf({ reservoir }: Learning, name: LearningNote): number {
  return reservoir.notes.get(name) ?? 0
}

export function setNote({ reservoir }: Learning, name: LearningNote, value: number): void {
  reservoir.notes.set(name, value)
}

/** Whether the active model was trained on the rows being collected. */
export function isOfNow({ model, learning }: ModelScope): boolean {
  return model !== null && (learning === null || noteOf(learning, 'hasModel') === 1)
}

export class ScopeRegistry {
  learners = 0
  models = 0
  readonly #scopes = new Map<string, ModelScope>()
  readonly #byId = new Map<string, JudgingModel>()
  readonly #places: number
  readonly #maximumModels: number
  readonly #row: Float64Array

  /**
   * @param places - reservoirs that there is memory for.
   * @param row - from which all models judge.
   */
  constructor(places: number, maximumModels: number, row: Float64Array) {
    this.#places = places
    this.#maximumModels = maximumModels
    this.#row = row
  }

  get(name: string): ModelScope | undefined {
    return this.#scopes.get(name)
  }

  /** Made where there is none. */
  scope(name: string): ModelScope {
    const known = this.#scopes.get(name)
    if (known !== undefined) return known
    const made: ModelScope = {
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
    this.#scopes.set(name, made)
    return made
  }

  all(): Iterable<ModelScope> {
    return this.#scopes.values()
  }

  remove(of: ModelScope): void {
    this.endLearning(of)
    if (!this.#scopes.delete(of.name) || of.model === null) return
    this.#byId.delete(of.model.id)
    this.models--
  }

  putInForce(of: ModelScope, named: NamedModel, record: ModelRecord | null): void {
    if (of.model === null) this.models++
    else this.#byId.delete(of.model.id)
    of.model = createJudgingModel(named, this.#row)
    this.#byId.set(of.model.id, of.model)
    of.damage = null
    of.shadow = record === null ? null : createShadow(named, record, this.#row)
    of.record = record
  }

  /** The active model with this id. */
  modelBy(id: string): JudgingModel | undefined {
    return this.#byId.get(id)
  }

  /** Whether there is memory for one more that learns. */
  hasPlace(): boolean {
    return this.learners < this.#places
  }

  /** Whether the scope may begin to learn. */
  hasRoom({ model }: ModelScope): boolean {
    return this.hasPlace() && (model !== null || this.models + this.learners < this.#maximumModels)
  }

  /** The scope that has to give its place to this one, and why; null where there is none. */
  whoMakesRoom(of: ModelScope, nowMicros: number): { scope: ModelScope; why: string } | null {
    // a model that stays makes no room for another one
    const mustFree = of.model === null && this.models + this.learners >= this.#maximumModels
    let found: { scope: ModelScope; why: string; rank: number; lastMicros: number } | null = null
    for (const scope of this.#scopes.values()) {
      const { learning } = scope
      if (learning === null || scope === of || (mustFree && scope.model !== null)) continue
      const reason = whyGivesPlace(scope, learning, of, nowMicros)
      if (reason === null) continue
      const [rank, why] = reason
      const lastMicros = noteOf(learning, 'lastMicros')
      if (found === null || rank < found.rank || (rank === found.rank && lastMicros < found.lastMicros))
        found = { scope, why, rank, lastMicros }
    }
    return found
  }

  beginLearning(of: ModelScope, reservoir: RowReservoir): Learning {
    this.learners++
    of.isWaiting = false
    of.learning = { reservoir, devices: new Set(), isWatched: false, isDirty: false, isOnDisk: false }
    return of.learning
  }

  endLearning(of: ModelScope): void {
    if (of.learning !== null) this.learners--
    of.learning = null
    of.isWaiting = false
    of.refused = null
    of.isBrokenTold = false
  }
}

function whyGivesPlace(
  { name, model }: ModelScope,
  learning: Learning,
  to: ModelScope,
  nowMicros: number,
): [rank: number, why: string] | null {
  const [seen, last] = [noteOf(learning, 'seenMicros'), noteOf(learning, 'lastMicros')]
  const idleMicros = nowMicros - last
  if (learning.isWatched && model !== null) return [0, 'it is judged already']
  if (last - seen < HOUR_MICROS && idleMicros >= GONE_MICROS) return [1, 'it came and went']
  if (idleMicros >= IDLE_MICROS) return [2, `it was not seen for ${Math.floor(idleMicros / HOUR_MICROS)} h`]
  return isRandomised(name) && !isRandomised(to.name) ? [3, 'its address is a private one'] : null
}

/**
 * Whose model judges a device: its own, its group's, or the one of all. A scope is named by the device's key, by the group, or `all`;
 * devices of no group are `other`.
 */
export type ModelsPer = 'device' | 'group' | 'all'

export const NO_GROUP = 'other'
export const EVERYONE = 'all'

export interface ScopeRule {
  readonly per: ModelsPer
  /** Devices' keys by the name of their group; empty but for `group`. */
  readonly groups: ReadonlyMap<string, readonly string[]>
}

/** The owner of a device. */
export function createScopeOf({ per, groups }: ScopeRule): (device: string) => string {
  if (per === 'device') return (device) => device
  if (per === 'all') return () => EVERYONE
  const groupOf = createGroupOf(groups)
  return (device) => groupOf(device) ?? NO_GROUP
}

export function createGroupOf(groups: ScopeRule['groups']): (device: string) => string | null {
  const groupOf = new Map<string, string>()
  for (const [group, devices] of groups) for (const device of devices) groupOf.set(device, group)
  return (device) => groupOf.get(device) ?? null
}

/** Without an extension. */
export function scopeFileName(per: ModelsPer, owner: string): string {
  return `${per}-${owner.replaceAll(':', '-')}`
}

import { ArgumentError, type FlowContract, OddFlowError } from '@oddflow/core'
import type { Routes } from '../devices/control-socket.js'
import { createDevice, type Device, isRandomised } from '../devices/device.js'
import type { Log } from '../log.js'
import { createJudgingModel, createShadow, type JudgingModel, type NamedModel } from './judging.js'
import type { ModelManager } from './model-manager.js'
import type { ModelRecord, ModelStore } from './model-store.js'
import { decodeRowReservoir, type ReservoirShape, type RowReservoir } from './row-reservoir.js'

/**
 * `/models` of the control socket. GET lists the owners; POST `{ rollback: [owner, …] }` rolls back, and answers with null or the reason
 * for each. Rejects if the body is invalid, or if no rollback can be written.
 */
export function modelRoutes(room: ModelManager): Routes {
  return {
    '/models': async (body) => {
      if (body === undefined) return { owners: room.owners() }
      const { rollback } = (body ?? {}) as { rollback?: unknown }
      if (!Array.isArray(rollback) || !rollback.every((owner) => typeof owner === 'string')) {
        throw new ArgumentError('rollback: expected a list of owners')
      }
      const results: { owner: string; refused: string | null }[] = []
      const failures: OddFlowError[] = []
      for (const owner of rollback as string[]) {
        try {
          results.push({ owner, refused: await room.rollback(owner) })
        } catch (error) {
          // a failure does not stop the others
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

/** What a scope has shown while it learns. */
export interface Learning {
  readonly reservoir: RowReservoir
  /** Its learning devices, up to a limit. */
  readonly devices: Set<string>
  /** None of its devices learns any more: only normal flows are collected, to tighten its promise. */
  isWatched: boolean
  /** Changed since it was saved. */
  isDirty: boolean
  /** Its rows were saved. */
  isOnDisk: boolean
}

export interface ModelScope {
  readonly name: string
  model: JudgingModel | null
  /** The trained model, if the active one was updated. */
  shadow: JudgingModel | null
  /** null if there is no model, or it was given. */
  record: ModelRecord | null
  learning: Learning | null
  isWaiting: boolean
  /** The last training if it was refused, else null. */
  refused: { readonly rows: number; readonly unsettledShare: number } | null
  /** The model was damaged at the start: `previous` judges instead, or none until it is retrained. */
  damage: 'previous' | 'lost' | null
  /** The broken proof of the active model was reported. */
  isBrokenTold: boolean
}

/** Numbers of a learning scope that are saved with its rows. */
type LearningNote =
  | 'firstMicros'
  // when its first device was first seen
  | 'seenMicros'
  | 'lastMicros'
  | 'flows'
  | 'nextFlows'
  | 'hasModel'
  // scored flows since its model is active, and the novel ones of them
  | 'provingFlows'
  | 'provingNovel'
  // learned novel flows of watched devices, and the time of the last one
  | 'novelTaken'
  | 'novelTakenMicros'
  // 1 after a training at the end of judgeHours
  | 'judged'

const HOUR_MICROS = 3_600_000_000
/** A scope that was seen for less than an hour is gone after this time. */
const GONE_MICROS = HOUR_MICROS / 6
/** Any other scope is idle after this time. */
const IDLE_MICROS = 24 * HOUR_MICROS

/** 0 if there is none. */
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

/**
 * ScopeRegistry: the known scopes (a device, a group, or all), their active models, and which of them learn.
 *
 * A learning scope reserves one of `places` reservoirs; there are at most `maximumModels` models, future ones included. A scope without
 * room waits, or takes the place of one that is judged already, came and went within an hour, was idle for a day, or has a private
 * (randomised) address while its own is public.
 */
export class ScopeRegistry {
  learners = 0
  models = 0
  readonly #scopes = new Map<string, ModelScope>()
  readonly #byId = new Map<string, JudgingModel>()
  readonly #places: number
  readonly #maximumModels: number
  readonly #row: Float64Array

  /**
   * @param places - number of reservoirs.
   * @param row - the row that all models judge.
   */
  constructor(places: number, maximumModels: number, row: Float64Array) {
    this.#places = places
    this.#maximumModels = maximumModels
    this.#row = row
  }

  get(name: string): ModelScope | undefined {
    return this.#scopes.get(name)
  }

  /** Creates a missing scope. */
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

  /** Whether there is memory for one more learning scope. */
  hasPlace(): boolean {
    return this.learners < this.#places
  }

  /** Whether the scope may begin to learn. */
  hasRoom({ model }: ModelScope): boolean {
    return this.hasPlace() && (model !== null || this.models + this.learners < this.#maximumModels)
  }

  /** The scope that must give its place to this one, and why; or null. */
  whoMakesRoom(of: ModelScope, nowMicros: number): { scope: ModelScope; why: string } | null {
    // a scope that keeps its model makes no room for another
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

/** A scope is named by the device's key, by the group (`other` without one), or `all`. */
export type ModelsPer = 'device' | 'group' | 'all'

export const NO_GROUP = 'other'
export const EVERYONE = 'all'

export interface ScopeRule {
  readonly per: ModelsPer
  /** Devices' keys by the name of their group; empty unless `per` is group. */
  readonly groups: ReadonlyMap<string, readonly string[]>
}

/** The name of a device's scope. */
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

/** Whether the rows of a device are for its scope's model. @param hasBase - whether a model judges devices without their own model. */
export function mustLearn(
  { name, model, record, damage }: ModelScope,
  device: Device,
  hasBase: boolean,
): boolean {
  if (device.state !== 'learning') {
    // without a model nothing would judge it
    return device.state !== 'paused' && model === null && (damage === 'lost' || !hasBase)
  }
  // a model improves until its device is watched
  if (model === null || (record !== null && name === device.key)) return true
  const { learningSinceMicros, firstSeenMicros } = device
  const trainedAt = record?.trainedAtMicros ?? Number.NEGATIVE_INFINITY
  return learningSinceMicros > firstSeenMicros && learningSinceMicros >= trainedAt
}

/**
 * Loads the models of an earlier run for scopes without a given one. Resolves to the number of damaged ones; rejects as the store does.
 * Damaged models, those of another feature contract, and a missing folder with models of watched devices are reported.
 */
export async function recallModels(
  registry: ScopeRegistry,
  store: ModelStore,
  contract: FlowContract,
  known: readonly Device[],
  scopeOf: (device: string) => string,
  hasBase: boolean,
  log: Pick<Log, 'warn'>,
): Promise<number> {
  const { models, lost, goneFolder } = await store.readAll(log)
  const unjudged = known.filter(
    ({ key, state }) =>
      state === 'watching' && !hasBase && (registry.get(scopeOf(key))?.model ?? null) === null,
  )
  if (goneFolder !== null && unjudged.length > 0) {
    const which = unjudged.length === 1 ? 'one watched device' : `${unjudged.length} watched devices`
    log.warn(
      `${goneFolder}: is missing, with the models of ${which}. Until new models are trained, no flows are judged there. Restore the folder, or check "oddflow-agent devices list"`,
    )
  }
  for (const { record, saved, isPrevious } of models) {
    const of = registry.scope(record.owner)
    if (of.model !== null) continue
    if (JSON.stringify(saved.contract) !== JSON.stringify(contract)) {
      log.warn(`the model of ${record.owner} was made under another feature contract, and is not used`)
      of.damage = 'lost'
      continue
    }
    registry.putInForce(of, { saved, sha256: record.sha256 }, record)
    if (isPrevious) of.damage = 'previous'
  }
  for (const { owner } of lost) registry.scope(owner).damage = 'lost'
  return lost.length + models.filter(({ isPrevious }) => isPrevious).length
}

/** The devices with a model, for a lost table of devices. All are watched: rows on disk do not show which were learning. */
export async function devicesOfModels(store: ModelStore, log: Pick<Log, 'warn'>): Promise<Device[]> {
  const { models, lost } = await store.readAll(log)
  const devices: Device[] = []
  for (const { owner, trainedAtMicros } of [...models.map(({ record }) => record), ...lost]) {
    const device = createDevice(owner, owner, trainedAtMicros)
    device.state = 'watching'
    devices.push(device)
  }
  return devices
}

/** Loads the rows of an earlier run: of learning devices, and of watched ones that had too few for a proven model. */
export async function recallRows(
  registry: ScopeRegistry,
  store: ModelStore,
  shape: ReservoirShape,
  known: readonly Device[],
  scopeOf: (device: string) => string,
  hasBase: boolean,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  for (const device of known) {
    const of = registry.scope(scopeOf(device.key))
    const isJudged = device.state === 'ready' || device.state === 'watching'
    if (of.learning !== null || !registry.hasPlace() || !(isJudged || mustLearn(of, device, hasBase)))
      continue
    const decode = (bytes: Uint8Array): RowReservoir => decodeRowReservoir(bytes, shape)
    const reservoir = await store.readRows(of.name, decode, log)
    if (reservoir !== null) registry.beginLearning(of, reservoir).isOnDisk = true
  }
}

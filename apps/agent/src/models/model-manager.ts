/**
 * ModelManager: models that are made on the gateway, one for each scope (a device, a group, or all).
 *
 *     rows of a learning device → reservoir → (enough, for long enough) → a process trains → settled? → active → proven?
 *
 * The agent collects the rows of a learning device, also while its model proves itself. When the device is watched and its model is
 * proven, they are dropped; before that, almost only normal rows are added. A scope without a model is judged by the base model, if there
 * is one. Active means written to disk, then used. There is one training at a time. Time is the packets'.
 */
import type { FlowContract } from '@oddflow/core'
import { type FlowRecord, serviceName } from '@oddflow/flows'
import type { Network } from '@oddflow/program'
import type { BudgetSettings, DeviceSettings, LearningSettings, ModelsSettings } from '../config/settings.js'
import { type Device, isEstablished } from '../devices/device.js'
import { createTurns } from '../files/state-file.js'
import { pairOf } from '../incidents/incident-rows.js'
import type { Log } from '../log.js'
import { createJudgingModel, createRoomDecider, type NamedModel } from './judging.js'
import {
  isOfNow,
  type Learning,
  type ModelScope,
  mustLearn,
  noteOf,
  recallModels,
  recallRows,
  ScopeRegistry,
  setNote,
} from './model-scopes.js'
import type { ModelStore } from './model-store.js'
import { createLearningProgress, type LearningProgress, reportScope, type ScopeReport } from './progress.js'
import { type ReservoirShape, RowReservoir, reservoirBytes } from './row-reservoir.js'
import { createScopeTrainer, FEWEST_ROWS, type TrainedRows, type TrainingJob } from './train.js'
import { createScopeUpdater, type LearningJob, type LearntRows } from './update.js'

export interface ModelManagerOptions {
  readonly contract: FlowContract
  readonly scopeOf: (device: string) => string
  readonly localNetworks: readonly Network[]
  readonly devices: DeviceSettings
  readonly budget: BudgetSettings | null
  /** Rows and reservoirs of learning scopes, and models, at most; each learning scope reserves one reservoir of `memoryBytes`. */
  readonly limits: Pick<ModelsSettings, 'rowsPerDevice' | 'memoryBytes' | 'maximum'>
  /** Judges devices without their own model; or null. */
  readonly base: NamedModel | null
  /** Models that were trained elsewhere, by owner. */
  readonly given: ReadonlyMap<string, NamedModel>
  readonly store: ModelStore
  readonly train: (job: TrainingJob) => Promise<TrainedRows>
  /** null: models stay as they were trained. */
  readonly learning: LearningSettings | null
  readonly learnOn: (job: LearningJob) => Promise<LearntRows>
  /** Rows of an owner that a person answered as an attack. */
  readonly attackRows: (owner: string) => readonly Float64Array[]
  readonly seed: number
  readonly oddflowVersion: string
  readonly log: Log
  /** Reports damaged files of the state folder. */
  readonly faults: Pick<Log, 'warn'>
}

const TICKS_BETWEEN_SAVES = 600
const TICKS_BETWEEN_SWEEPS = 60
/** Limits on learning novel flows of a watched device, by time and by rows: each was an alert. */
const NOVEL_TAKEN_MICROS = 24 * 3_600_000_000
const ROWS_PER_NOVEL = 50
/** A device with this number of flows may take the place of another. */
const SEEN_FLOWS = 10
/** Between two lines of the log on devices that wait. */
const WAITING_TOLD_MICROS = 3_600_000_000
/** Counted learning devices of a scope. */
const MAXIMUM_COUNTED = 4096

/** `known`: the devices of an earlier run. Rejects as the store does. */
export async function openModelManager(
  options: ModelManagerOptions,
  known: readonly Device[],
): Promise<ModelManager> {
  const manager = new ModelManager(options)
  await manager.recall(known)
  return manager
}

export type ModelsReport = ReturnType<ModelManager['report']>

export class ModelManager {
  readonly decider: ReturnType<typeof createRoomDecider>
  readonly #options: ModelManagerOptions
  readonly #row: Float64Array
  readonly #shape: ReservoirShape
  /** Number of reservoirs. */
  readonly #places: number
  readonly #registry: ScopeRegistry
  readonly #progress: LearningProgress
  readonly #hasBase: boolean
  /** null: models stay as they were trained. */
  readonly #updater: ReturnType<typeof createScopeUpdater> | null
  readonly #trainer: ReturnType<typeof createScopeTrainer>
  /** Models found damaged at the start. */
  #damaged = 0
  /** Time of the packets as if their clock had never been set, but for a constant. */
  #steadyMicros = 0
  #ticks = 0
  #waitingToldMicros = Number.NEGATIVE_INFINITY
  /** The training, update or rollback under way. */
  #working: Promise<void> | null = null
  /** Changes of files, one after another. */
  readonly #inTurn = createTurns()

  constructor(options: ModelManagerOptions) {
    const { contract, limits, scopeOf, learning, base, given, seed } = options
    const { dimension } = contract
    const row = new Float64Array(dimension)
    this.#options = options
    this.#row = row
    this.#shape = { dimension, capacity: limits.rowsPerDevice, seed }
    this.#places = Math.floor(limits.memoryBytes / reservoirBytes(this.#shape))
    this.#hasBase = base !== null
    const registry = new ScopeRegistry(this.#places, limits.maximum, row)
    const progress = createLearningProgress(options.devices, options.budget, limits.rowsPerDevice, contract)
    this.#registry = registry
    this.#progress = progress
    this.#updater = learning === null ? null : createScopeUpdater({ ...options, learning, registry })
    this.#trainer = createScopeTrainer({
      ...options,
      registry,
      progress,
      onTrained: ({ name }) => this.#updater?.rows.drop(name),
    })
    this.decider = createRoomDecider({
      ...options,
      row,
      registry,
      scopeOf: (device) => registry.get(scopeOf(device)),
      base: base === null ? null : createJudgingModel(base, row),
    })
    for (const [name, named] of given) registry.putInForce(registry.scope(name), named, null)
  }

  /** Takes over what an earlier run has kept, before the first flow. */
  async recall(known: readonly Device[]): Promise<void> {
    const { contract, store, scopeOf, faults } = this.#options
    const registry = this.#registry
    this.#damaged = await recallModels(registry, store, contract, known, scopeOf, this.#hasBase, faults)
    await recallRows(registry, store, this.#shape, known, scopeOf, this.#hasBase, faults)
    // the learning time of a device is known before the first packet
    for (const { lastSeenMicros } of known) this.#progress.advance(lastSeenMicros)
  }

  /** Replaces the models given at the start; scopes and contract must be the same. */
  replaceGiven(base: NamedModel | null, given: ReadonlyMap<string, NamedModel>): void {
    if (base !== null) this.decider.setBase(createJudgingModel(base, this.#row))
    for (const [name, named] of given) {
      const of = this.#registry.get(name)
      if (of !== undefined && of.model?.id !== named.sha256.slice(0, 16))
        this.#registry.putInForce(of, named, null)
    }
  }

  /** Takes the verdict on a record of a device, after the table of devices. */
  note(record: FlowRecord, device: Device, novel: boolean): void {
    this.#progress.note(record)
    const of = this.#scopeOf(device.key)
    const isLearner = mustLearn(of, device, this.#hasBase)
    if (device.state !== 'learning' && !isLearner) {
      this.#noteWatched(of, record, device, novel)
      return
    }
    const { learning } = of
    const isAgain =
      learning !== null &&
      of.name === device.key &&
      device.learningSinceMicros > Math.max(device.firstSeenMicros, noteOf(learning, 'firstMicros'))
    if (isAgain) this.#registry.endLearning(of)
    if (of.learning === null) {
      if (!isLearner || !this.#findRoom(of, device)) return
      const begun = this.#registry.beginLearning(of, new RowReservoir(this.#shape))
      setNote(begun, 'firstMicros', Math.max(record.startMicros, device.learningSinceMicros))
      setNote(begun, 'seenMicros', device.firstSeenMicros)
    }
    this.#noteLearning(of, of.learning as unknown as Learning, record, device, novel)
  }

  #noteWatched(of: ModelScope, record: FlowRecord, device: Device, novel: boolean): void {
    this.#endWith(of, device.key)
    if (of.learning !== null) {
      if (device.state !== 'paused') this.#noteLearning(of, of.learning, record, device, novel)
      return
    }
    if (device.state !== 'watching' || of.record?.pinned !== false || record.row === null) return
    const micros = record.startMicros + record.durationMicros + this.#steadyMicros
    this.#updater?.rows.add(of.name, device.key, record.row, micros)
  }

  #noteLearning(
    of: ModelScope,
    learning: Learning,
    record: FlowRecord,
    device: Device,
    novel: boolean,
  ): void {
    const { reservoir, devices } = learning
    const micros = record.startMicros + record.durationMicros
    setNote(learning, 'lastMicros', Math.max(noteOf(learning, 'lastMicros'), micros))
    setNote(learning, 'flows', noteOf(learning, 'flows') + 1)
    learning.isWatched = device.state !== 'learning' && devices.size === 0
    if (device.state === 'learning' && devices.size < MAXIMUM_COUNTED) devices.add(device.key)
    learning.isDirty = true
    if (record.row !== null) {
      // novel flows of a watched device were alerts: few of them may widen its model
      if (!novel || device.state === 'learning' || isNovelTaken(learning, micros))
        reservoir.add(record.row, record.startMicros, pairOf(record))
      if (noteOf(learning, 'hasModel') === 1) {
        setNote(learning, 'provingFlows', noteOf(learning, 'provingFlows') + 1)
        if (novel) setNote(learning, 'provingNovel', noteOf(learning, 'provingNovel') + 1)
        this.#warnOfProof(of)
      }
    } else if (record.noRowReason === 'one-packet') {
      reservoir.addOnePacket(serviceName(record.protocol, record.initiatorPort, record.responderPort))
    }
  }

  /** Once for each proof. */
  #warnOfProof(of: ModelScope): void {
    if (of.isBrokenTold || this.#progress.proof(of) !== 'broken') return
    of.isBrokenTold = true
    const { proving, falseAlarmShare } = reportScope(of, this.#progress)
    this.#options.log.warn(
      `${of.name}: false alarms exceed the limit: ${proving?.novel} of ${proving?.flows} later flows are novel, ${(100 * (falseAlarmShare ?? 0)).toPrecision(2)} % were promised; retraining`,
    )
  }

  /** Ends learning when the last learning device of the scope is watched or gone, and the model needs no more rows. */
  #endWith(of: ModelScope, device: string): void {
    of.learning?.devices.delete(device)
    if (of.learning === null || of.learning.devices.size > 0) return
    // an updated model improves by its updates
    if (!(this.#updater === null ? this.#progress.isTight(of) : isOfNow(of))) return
    this.#stopLearning(of)
  }

  #stopLearning(of: ModelScope): void {
    this.#registry.endLearning(of)
    this.#afterSaving((store) => store.removeRows(of.name))
  }

  /** Whether the scope has room to learn; another scope may have to make it. Otherwise it waits. */
  #findRoom(of: ModelScope, device: Device): boolean {
    const { log } = this.#options
    const wasWaiting = of.isWaiting
    const mayTake = isEstablished(device) || device.flows >= SEEN_FLOWS
    const giving =
      this.#registry.hasRoom(of) || !mayTake
        ? null
        : this.#registry.whoMakesRoom(of, this.#progress.latestMicros)
    if (giving !== null) {
      const { scope, why } = giving
      // a judged scope has its rows in its model
      const waits = scope.learning?.isWatched !== true || scope.model === null
      this.#stopLearning(scope)
      scope.isWaiting = waits
      log.info(`${scope.name}: stops learning to make room for ${of.name}: ${why}`)
    }
    of.isWaiting = !this.#registry.hasRoom(of)
    const { latestMicros } = this.#progress
    if (of.isWaiting && !wasWaiting && latestMicros - this.#waitingToldMicros >= WAITING_TOLD_MICROS) {
      this.#waitingToldMicros = latestMicros
      log.warn(
        `${of.name}: waits for a place to learn: ${this.#registry.learners} are learning and there are ${this.#registry.models} models (models.memory, models.maximum); "devices list" shows all that wait`,
      )
    }
    return !of.isWaiting
  }

  #scopeOf(device: string): ModelScope {
    return this.#registry.scope(this.#options.scopeOf(device))
  }

  /** undefined for an unknown device. */
  #knownScopeOf(device: string): ModelScope | undefined {
    return this.#registry.get(this.#options.scopeOf(device))
  }

  #afterSaving(work: (store: ModelStore) => Promise<void>): void {
    this.#inTurn(() => work(this.#options.store)).catch(() => undefined)
  }

  /** Removes the flows between these addresses (addressPair) that began in this time from all rows. */
  unlearn = (pairs: ReadonlySet<number>, fromMicros: number, toMicros: number): void => {
    for (const { learning } of this.#registry.all())
      if (learning !== null && learning.reservoir.removeFlows(pairs, fromMicros, toMicros) > 0)
        learning.isDirty = true
  }

  /** Whether the device's model is proven, or was judged (progress.ts); null if it needs no proof. */
  isProven = (device: string): boolean | null => {
    const of = this.#knownScopeOf(device)
    if (of === undefined) return false
    const { learning } = of
    if (learning !== null && this.#progress.isJudged(learning)) return true
    if (!isOfNow(of)) return false
    return learning === null ? null : this.#progress.proof(of) === 'kept'
  }

  /** Whether a model judges the device. */
  isJudged(device: string): boolean {
    const of = this.#knownScopeOf(device)
    if (this.#hasBase || (of?.model ?? null) !== null) return true
    if (of === undefined || of.learning === null || of.damage !== null) return false
    // with too few flows a device is judged by its contacts only; with enough flows, no model could be made
    return this.#progress.isJudged(of.learning) && of.learning.reservoir.count < FEWEST_ROWS
  }

  /** The packets' clock was set: learning times must not change. */
  clockSet(byMicros: number): void {
    this.#steadyMicros -= byMicros
    this.#progress.clockSet(byMicros)
    this.#waitingToldMicros += byMicros
    for (const of of this.#registry.all()) {
      // changes the record in place: a running update compares it
      const record = of.record as { trainedAtMicros: number } | null
      if (record !== null) record.trainedAtMicros += byMicros
      if (of.learning === null) continue
      of.learning.isDirty = true
      of.learning.reservoir.clockSet(byMicros)
      for (const note of ['firstMicros', 'seenMicros', 'lastMicros', 'novelTakenMicros'] as const) {
        setNote(of.learning, note, noteOf(of.learning, note) + byMicros)
      }
    }
  }

  /** Packets came up to this time. */
  advance(nowMicros: number): void {
    this.#progress.advance(nowMicros)
  }

  /** The table of devices has dropped a device. */
  forget = (device: string): void => {
    const of = this.#registry.get(device)
    if (of !== undefined) this.#forget(of)
  }

  /** Scopes of devices are removed with the device; groups stay. */
  #forget(of: ModelScope): void {
    if (this.#options.scopeOf(of.name) !== of.name || this.#options.given.has(of.name)) return
    const isKept = of.record !== null || of.learning?.isOnDisk === true || of.damage !== null
    this.#updater?.rows.drop(of.name)
    this.#trainer.failures.delete(of.name)
    this.#registry.remove(of)
    // addresses of a flood have no files
    if (isKept) this.#afterSaving((store) => store.remove(of.name))
  }

  /** Begins a training or an update if one is due and none is running. */
  trainDue(): void {
    const updater = this.#updater
    if (this.#working !== null || (this.#registry.learners === 0 && updater === null)) return
    const all = [...this.#registry.all()]
    const due = all.find(this.#progress.isDue)
    const full = updater === null ? undefined : all.find(({ name }) => updater.rows.isFull(name))
    if (due !== undefined) void this.#work(this.#trainer.train(due, due.learning as Learning))
    else if (updater !== null && full !== undefined) void this.#work(updater.teach(full))
  }

  async #work<T>(work: Promise<T>): Promise<T> {
    this.#working = work.then(
      () => undefined,
      () => undefined,
    )
    try {
      return await work
    } finally {
      this.#working = null
    }
  }

  /** @param isKnown - whether a device is still on the table. */
  tick(isKnown: (device: string) => boolean): void {
    this.#ticks++
    this.trainDue()
    if (this.#ticks % TICKS_BETWEEN_SWEEPS === 0) {
      for (const of of this.#registry.all()) if (!isKnown(of.name)) this.#forget(of)
    }
    if (this.#ticks % TICKS_BETWEEN_SAVES === 0) void this.save()
  }

  /** Restores the previous model. Returns the reason if it cannot; null if it did. */
  async rollback(name: string): Promise<string | null> {
    // finish pending writes first, and start none during the rollback
    while (this.#working !== null) await this.#working
    return this.#work(this.#rollBack(name))
  }

  async #rollBack(name: string): Promise<string | null> {
    const of = this.#registry.get(name)
    if (of?.record === undefined || of.record === null) return `${name} has no model that was made here`
    const back = of.record.previous === null ? null : await this.#options.store.rollback(name)
    if (back === null) return `${name} has no previous model`
    this.#updater?.rows.drop(name)
    this.#registry.putInForce(of, { saved: back.saved, sha256: back.record.sha256 }, back.record)
    return null
  }

  /** Saves the rows; to be called now and then, and at the end. */
  save(): Promise<void> {
    return this.#inTurn(() => this.#saveRows()).catch(({ message }: Error) =>
      this.#options.log.warn(`rows of learning devices are not saved: ${message}`),
    )
  }

  async #saveRows(): Promise<void> {
    for (const { name, learning } of this.#registry.all()) {
      if (learning === null || !learning.isDirty) continue
      learning.isDirty = false
      try {
        learning.isOnDisk = true
        await this.#options.store.writeRows(name, learning.reservoir.encode())
      } catch (error) {
        // the next save retries
        learning.isDirty = true
        throw error
      }
    }
  }

  owners(): ScopeReport[] {
    return [...this.#registry.all()].map((of) => reportScope(of, this.#progress))
  }

  /** The scope of a device; null for an unknown device. */
  scopeReport = (device: string): ScopeReport | null => {
    const of = this.#knownScopeOf(device)
    return of === undefined ? null : reportScope(of, this.#progress)
  }

  /** Failed trainings of learning scopes, and the number of scopes that wait for a place. */
  warnings(): readonly string[] {
    const [first, ...others] = [...this.#trainer.failures]
      .filter(([name]) => (this.#registry.get(name)?.learning ?? null) !== null)
      .map(([, why]) => why)
    const more = others.length === 0 ? '' : `; ${others.length} more have failed too`
    const failed = first === undefined ? [] : [`${first}${more}`]
    const { waiting } = this.report().owners
    if (waiting === 0) return failed
    const who = waiting === 1 ? 'one device or group waits' : `${waiting} devices or groups wait`
    return [...failed, `${who} for a place to learn (models.memory, models.maximum)`]
  }

  report() {
    const all = [...this.#registry.all()]
    return {
      owners: {
        waiting: all.filter(({ isWaiting }) => isWaiting).length,
        learning: this.#registry.learners,
        withModel: this.#registry.models,
      },
      trainings: { ...this.#trainer.counts },
      /** null without learning.online. */
      learning: this.#updater?.report(this.decider.shadowCounts()) ?? null,
      reservoirBytes: all.reduce((sum, { learning }) => sum + (learning?.reservoir.bytes ?? 0), 0),
      reservoirBytesMaximum: this.#places * reservoirBytes(this.#shape),
      /** Models found damaged at the start. */
      damaged: this.#damaged,
    }
  }

  /** Resolves when no training is running. */
  async idle(): Promise<void> {
    await this.#working
  }
}

function isNovelTaken(learning: Learning, micros: number): boolean {
  const taken = noteOf(learning, 'novelTaken')
  if (micros - noteOf(learning, 'novelTakenMicros') < NOVEL_TAKEN_MICROS) return false
  if (taken > 0 && (taken + 1) * ROWS_PER_NOVEL > learning.reservoir.count) return false
  setNote(learning, 'novelTakenMicros', micros)
  setNote(learning, 'novelTaken', taken + 1)
  return true
}

/**
 * ModelManager: models that are made on the gateway, one for each owner (a device, a group, or all).
 *
 *     rows of a learning device → reservoir → (enough, for long enough) → a process trains → settled? → in force → proven?
 *
 * Here it is put together, and one training after another is started; each step is a file of its own:
 *
 *     owner-registry         whose models there are, who learns, and the bounds of both
 *     learning-progress  what is enough
 *     train-owner        a training, and what comes of it
 *     teach-owner        a round of learning on (`learning`), from the rows of watched devices
 *     room-decider       verdicts and their reasons
 *     recall-owners      what an earlier run has left
 *
 * While a device is learning its rows go on being collected, also while its model proves itself; what it showed is let go when it is ready, or later where
 * its model has not proved itself yet: until then those go on being collected that the model finds normal, and hardly any others. Until an owner has a
 * model of its own the base model judges, where there is one, else nobody. In force means written to disk, then used.
 *
 * Bounded: reservoirs by `memoryBytes`, whole places being reserved as an owner begins; owners that find none wait, and are
 * counted. Models by `maximumModels`. One training at a time.
 *
 * Time is the packets'. The room has no clock: `tick` is called every second or so.
 */

import type { FlowContract } from '@oddflow/core'
import { type FlowRecord, serviceName } from '@oddflow/flows'
import type { Network } from '@oddflow/program'
import type { AlertExplainer } from '../alerts/eve.js'
import type { BudgetSettings, DeviceSettings, LearningSettings } from '../config/settings.js'
import { createDevice, type Device, isEstablished } from '../devices/device.js'
import type { Log } from '../log.js'
import type { Decider } from '../pipeline/counters.js'
import { createJudgingModel, createRoomDecider, type NamedModel } from './judging.js'
import {
  createScopeRegistry,
  isOfNow,
  type Learning,
  type ModelScope,
  noteOf,
  type ScopeRegistry,
  setNote,
} from './model-scopes.js'
import type { ModelStore } from './model-store.js'
import {
  createLearningProgress,
  type ModelsReport,
  mustLearn,
  reportScope,
  type ScopeReport,
} from './progress.js'
import {
  createRowReservoir,
  decodeRowReservoir,
  type ReservoirShape,
  type RowReservoir,
  reservoirBytes,
} from './row-reservoir.js'
import { createScopeTrainer, FEWEST_ROWS, type TrainedRows, type TrainingJob } from './train.js'
import { createScopeUpdater, type LearningJob, type LearntRows } from './update.js'

/**
 * What an earlier run has left in the state folder, taken up again: models that are in force, and rows of those that were
 * learning. What is damaged or of another feature contract is reported; a watched owner that has no model by that learns again.
 */

/**
 * Of owners that have no model yet. Where the folder of models is gone, watched devices that no other model judges are
 * reported. How many models were damaged; rejects as the store does.
 */
async function recallModels(
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
      `${goneFolder}: is gone, and with it the models of ${which}, which learn again and are not judged meanwhile. Restore the folder, or check "oddflow-agent devices list"`,
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

/**
 * The devices with a model, for when the table of devices is lost: all are watched. Rows on disk do not show which were
 * learning, because watched devices collect rows too.
 */
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

/** Of those devices that learn, and of watched ones whose rows are there still: they were too few when they were judged. */
async function recallRows(
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

interface LearningLimits {
  readonly rowsPerScope: number
  /** Of all reservoirs together. */
  readonly memoryBytes: number
  readonly trainWithinSeconds: number
  readonly maximumModels: number
}

export interface ModelManagerOptions {
  readonly contract: FlowContract
  readonly scopeOf: (device: string) => string
  readonly localNetworks: readonly Network[]
  readonly devices: DeviceSettings
  readonly budget: BudgetSettings | null
  readonly limits: LearningLimits
  /** Judges those that have no model yet; null: nobody does. */
  readonly base: NamedModel | null
  /** Models that were trained elsewhere, by owner. */
  readonly given: ReadonlyMap<string, NamedModel>
  readonly store: ModelStore
  readonly train: (job: TrainingJob) => Promise<TrainedRows>
  /** null: models stay as they were trained. */
  readonly learning: LearningSettings | null
  readonly learnOn: (job: LearningJob) => Promise<LearntRows>
  /** Of an owner: rows that a person said to be of an attack. */
  readonly attackRows: (owner: string) => readonly Float64Array[]
  readonly seed: number
  readonly oddflowVersion: string
  readonly log: Log
  /** Reports what is damaged in the state folder. */
  readonly faults: Pick<Log, 'warn'>
}

export interface ModelManager extends Decider {
  readonly explain: AlertExplainer
  /** Models of the same owners and contract as those that were given at the start take their place. */
  replaceGiven(base: NamedModel | null, given: ReadonlyMap<string, NamedModel>): void
  /** A verdict was given on a record of this device, which the table has counted. */
  note(record: FlowRecord, device: Device, novel: boolean): void
  /** A flow that was noted is one that no model is to learn. */
  unlearn(device: string, row: Float64Array): void
  /** The table knows a device no more. */
  forget(device: string): void
  /** Whether the device's model has shown that it keeps its promise, or was judged (progress.ts); null where that is not asked of it. */
  isProven(device: string): boolean | null
  /** The packets' clock was set by so much: nobody has learnt for longer or shorter. */
  clockSet(byMicros: number): void
  /** Packets have come up to this time. */
  advance(nowMicros: number): void
  /** Begins a training where one is due and none is under way. */
  trainDue(): void
  /** @param isKnown - whether a device is still on the table. */
  tick(isKnown: (device: string) => boolean): void
  /** The model before takes the place of the one in force. Why it cannot be done; null where it was. */
  rollback(owner: string): Promise<string | null>
  owners(): ScopeReport[]
  /** Whether a model judges the device. */
  isJudged(device: string): boolean
  /** Of the owner that a device has; null where nothing is known of it. */
  scopeReport(device: string): ScopeReport | null
  /** Why owners that learn have no model of their last training, and how many wait for a place to learn. */
  warnings(): readonly string[]
  report(): ModelsReport
  /** Keeps what was learnt; to be called now and then, and at the end. */
  save(): Promise<void>
  /** Ends when no training is under way. */
  idle(): Promise<void>
}

const TICKS_BETWEEN_SAVES = 600
const TICKS_BETWEEN_SWEEPS = 60
/** Of the novel flows of a watched device one in so long is learnt, and one for so many rows: each of them was an alert. */
const NOVEL_TAKEN_MICROS = 24 * 3_600_000_000
const ROWS_PER_NOVEL = 50
/** A device that has had so many flows may take the place of another one. */
const SEEN_FLOWS = 10
/** Between two lines of the log on devices that wait. */
const WAITING_TOLD_MICROS = 3_600_000_000
/** Devices of an owner that learn together and are counted. */
const MAXIMUM_COUNTED = 4096

function withMore(first: string, others: number): string {
  return others === 0 ? first : `${first}; so it is with ${others} more`
}

/** `known`: the devices of an earlier run. Rejects as the store does. */
export async function openModelManager(
  options: ModelManagerOptions,
  known: readonly Device[],
): Promise<ModelManager> {
  const { contract, limits, store, log, scopeOf, seed } = options
  const row = new Float64Array(contract.dimension)
  const shape = { dimension: contract.dimension, capacity: limits.rowsPerScope, seed }
  const places = Math.floor(limits.memoryBytes / reservoirBytes(shape))
  const registry = createScopeRegistry({ places, maximumModels: limits.maximumModels }, row)
  const progress = createLearningProgress(options.devices, options.budget, limits.rowsPerScope, contract)
  const teacher =
    options.learning === null
      ? null
      : createScopeUpdater({
          ...options,
          learning: options.learning,
          dimension: contract.dimension,
          maximumDevices: options.devices.maximum,
          registry,
        })
  const trainer = createScopeTrainer({
    ...options,
    registry,
    progress,
    stableShare: options.devices.stableShare,
    onTrained: ({ name }) => teacher?.rows.drop(name),
  })
  const decider = createRoomDecider({
    contract,
    row,
    registry,
    scopeOf: (device) => registry.get(scopeOf(device)),
    localNetworks: options.localNetworks,
    base: options.base === null ? null : createJudgingModel(options.base, row),
  })
  for (const [name, named] of options.given) registry.putInForce(registry.scope(name), named, null)
  const hasBase = options.base !== null
  const damaged = await recallModels(registry, store, contract, known, scopeOf, hasBase, options.faults)
  await recallRows(registry, store, shape, known, scopeOf, hasBase, options.faults)
  // how long a device has learned is known before the first packet comes
  for (const { lastSeenMicros } of known) progress.advance(lastSeenMicros)

  /** Time of the packets as if their clock had never been set, but for a constant. */
  let steadyMicros = 0
  let ticks = 0
  let waitingToldMicros = Number.NEGATIVE_INFINITY
  let working: Promise<void> | null = null
  let saving: Promise<void> = Promise.resolve()

  /** The last device that learnt for its owner is watched, or gone, and its model needs no more rows. */
  const endWith = (of: ModelScope, device: string): void => {
    of.learning?.devices.delete(device)
    if (of.learning === null || of.learning.devices.size > 0) return
    // a model that learns on is made better by that
    if (!(teacher === null ? progress.isTight(of) : isOfNow(of))) return
    registry.endLearning(of)
    saving = saving.then(() => store.removeRows(of.name))
  }
  /** Once of each proof. */
  const tellOfProof = (of: ModelScope): void => {
    if (of.isBrokenTold || progress.proof(of) !== 'broken') return
    of.isBrokenTold = true
    const { proving, falseAlarmShare } = reportScope(of, progress)
    log.warn(
      `${of.name}: false alarms exceed the limit: ${proving?.novel} of ${proving?.flows} later flows are novel, ${(100 * (falseAlarmShare ?? 0)).toPrecision(2)} % were promised; retraining`,
    )
  }
  /** Owners by device go with their device; groups stay. */
  const forget = (of: ModelScope): void => {
    if (scopeOf(of.name) !== of.name || options.given.has(of.name)) return
    const isKept = of.record !== null || of.learning?.isOnDisk === true || of.damage !== null
    teacher?.rows.drop(of.name)
    trainer.failures.delete(of.name)
    registry.remove(of)
    // of a flood of addresses there is nothing
    if (isKept) saving = saving.then(() => store.remove(of.name)).catch(() => undefined)
  }
  /** Whether the owner has room to learn, which another one may have to make; it waits where not. */
  const findRoom = (of: ModelScope, device: Device): boolean => {
    const wasWaiting = of.isWaiting
    const giving =
      registry.hasRoom(of) || !(isEstablished(device) || device.flows >= SEEN_FLOWS)
        ? null
        : registry.whoMakesRoom(of, progress.latestMicros)
    if (giving !== null) {
      const { scope, why } = giving
      // what a judged one has shown is in its model
      const waits = scope.learning?.isWatched !== true || scope.model === null
      registry.endLearning(scope)
      scope.isWaiting = waits
      saving = saving.then(() => store.removeRows(scope.name)).catch(() => undefined)
      log.info(`${scope.name}: gives its place for learning to ${of.name}: ${why}`)
    }
    of.isWaiting = !registry.hasRoom(of)
    if (of.isWaiting && !wasWaiting && progress.latestMicros - waitingToldMicros >= WAITING_TOLD_MICROS) {
      waitingToldMicros = progress.latestMicros
      log.warn(
        `${of.name}: waits for a place to learn: ${registry.learners} are learning and there are ${registry.models} models (models.memory, models.maximum); "devices list" shows all that wait`,
      )
    }
    return !of.isWaiting
  }
  const isNovelTaken = (learning: Learning, micros: number): boolean => {
    const taken = noteOf(learning, 'novelTaken')
    if (micros - noteOf(learning, 'novelTakenMicros') < NOVEL_TAKEN_MICROS) return false
    if (taken > 0 && (taken + 1) * ROWS_PER_NOVEL > learning.reservoir.count) return false
    setNote(learning, 'novelTakenMicros', micros)
    setNote(learning, 'novelTaken', taken + 1)
    return true
  }
  const noteLearning = (
    of: ModelScope,
    learning: Learning,
    record: FlowRecord,
    device: Device,
    novel: boolean,
  ): void => {
    const { reservoir, devices } = learning
    const micros = record.startMicros + record.durationMicros
    setNote(learning, 'lastMicros', Math.max(noteOf(learning, 'lastMicros'), micros))
    setNote(learning, 'flows', noteOf(learning, 'flows') + 1)
    learning.isWatched = device.state !== 'learning' && devices.size === 0
    if (device.state === 'learning' && devices.size < MAXIMUM_COUNTED) devices.add(device.key)
    learning.isDirty = true
    if (record.row !== null) {
      // of what a watched device does that is new, and was alerted, hardly anything may make its model wider
      if (!novel || device.state === 'learning' || isNovelTaken(learning, micros)) reservoir.add(record.row)
      if (noteOf(learning, 'hasModel') === 1) {
        setNote(learning, 'provingFlows', noteOf(learning, 'provingFlows') + 1)
        if (novel) setNote(learning, 'provingNovel', noteOf(learning, 'provingNovel') + 1)
        tellOfProof(of)
      }
    } else if (record.noRowReason === 'one-packet') {
      reservoir.addOnePacket(serviceName(record.protocol, record.initiatorPort, record.responderPort))
    }
  }
  const trainDue = (): void => {
    if (working !== null || (registry.learners === 0 && teacher === null)) return
    const begin = (work: Promise<void>): void => {
      working = work.finally(() => {
        working = null
      })
    }
    const all = [...registry.all()]
    const due = all.find(progress.isDue)
    if (due !== undefined) {
      begin(trainer.train(due, due.learning as Learning))
      return
    }
    const full = teacher === null ? undefined : all.find(({ name }) => teacher.rows.isFull(name))
    if (full !== undefined && teacher !== null) begin(teacher.teach(full))
  }
  const rollBack = async (name: string): Promise<string | null> => {
    const of = registry.get(name)
    if (of?.record === undefined || of.record === null) return `${name} has no model that was made here`
    if (of.record.previous === null) return `${name} has no model before the one in force`
    const back = await store.rollback(name)
    if (back === null) return `${name} has no model before the one in force`
    teacher?.rows.drop(name)
    registry.putInForce(of, { saved: back.saved, sha256: back.record.sha256 }, back.record)
    return null
  }
  const save = async (): Promise<void> => {
    for (const { name, learning } of registry.all()) {
      if (learning === null || !learning.isDirty) continue
      learning.isDirty = false
      try {
        learning.isOnDisk = true
        await store.writeRows(name, learning.reservoir.encode())
      } catch (error) {
        // to be kept the next time, whether more comes or not
        learning.isDirty = true
        throw error
      }
    }
  }
  const keep = (): Promise<void> => {
    saving = saving.then(save).catch((error: unknown) => {
      log.warn(`rows of learning devices are not saved: ${error instanceof Error ? error.message : error}`)
    })
    return saving
  }

  return {
    ...decider,
    replaceGiven(base, given) {
      if (base !== null) decider.setBase(createJudgingModel(base, row))
      for (const [name, named] of given) {
        const of = registry.get(name)
        if (of !== undefined && of.model?.id !== named.sha256.slice(0, 16))
          registry.putInForce(of, named, null)
      }
    },
    unlearn(device, row) {
      registry.scope(scopeOf(device)).learning?.reservoir.remove(row)
    },
    note(record, device, novel) {
      progress.note(record)
      const of = registry.scope(scopeOf(device.key))
      const isLearner = mustLearn(of, device, hasBase)
      if (device.state !== 'learning' && !isLearner) {
        endWith(of, device.key)
        if (of.learning !== null && device.state !== 'paused')
          noteLearning(of, of.learning, record, device, novel)
        const isLearningOn =
          device.state === 'watching' && of.learning === null && of.record?.pinned === false
        if (isLearningOn && record.row !== null) {
          const micros = record.startMicros + record.durationMicros
          teacher?.rows.add(of.name, device.key, record.row, micros + steadyMicros)
        }
        return
      }
      const isAnew =
        of.learning !== null &&
        of.name === device.key &&
        device.learningSinceMicros > Math.max(device.firstSeenMicros, noteOf(of.learning, 'firstMicros'))
      if (isAnew) registry.endLearning(of)
      if (of.learning === null) {
        if (!isLearner) return
        if (!findRoom(of, device)) return
        const firstMicros = Math.max(record.startMicros, device.learningSinceMicros)
        const begun = registry.beginLearning(of, createRowReservoir(shape))
        setNote(begun, 'firstMicros', firstMicros)
        setNote(begun, 'seenMicros', device.firstSeenMicros)
      }
      noteLearning(of, of.learning as Learning, record, device, novel)
    },
    isProven(device) {
      const of = registry.get(scopeOf(device))
      if (of === undefined) return false
      const { learning } = of
      if (learning !== null && progress.isJudged(learning)) return true
      if (!isOfNow(of)) return false
      return learning === null ? null : progress.proof(of) === 'kept'
    },
    clockSet(byMicros) {
      steadyMicros -= byMicros
      progress.clockSet(byMicros)
      waitingToldMicros += byMicros
      for (const of of registry.all()) {
        // the same record: a round of learning that is under way knows by it that nothing has changed
        const record = of.record as { trainedAtMicros: number } | null
        if (record !== null) record.trainedAtMicros += byMicros
        if (of.learning === null) continue
        of.learning.isDirty = true
        for (const note of ['firstMicros', 'seenMicros', 'lastMicros', 'novelTakenMicros'] as const) {
          setNote(of.learning, note, noteOf(of.learning, note) + byMicros)
        }
      }
    },
    advance: progress.advance,
    forget(device) {
      const of = registry.get(device)
      if (of !== undefined) forget(of)
    },
    trainDue,
    tick(isKnown) {
      ticks++
      trainDue()
      if (ticks % TICKS_BETWEEN_SWEEPS === 0) {
        for (const of of registry.all()) if (!isKnown(of.name)) forget(of)
      }
      if (ticks % TICKS_BETWEEN_SAVES === 0) void keep()
    },
    async rollback(name) {
      // what is being written of it comes first, and nothing is while it goes back
      while (working !== null) await working
      let done: () => void = () => undefined
      working = new Promise<void>((resolve) => {
        done = resolve
      })
      try {
        return await rollBack(name)
      } finally {
        working = null
        done()
      }
    },
    isJudged(device) {
      const of = registry.get(scopeOf(device))
      if (hasBase || (of?.model ?? null) !== null) return true
      if (of === undefined || of.learning === null || of.damage !== null) return false
      // one of too few flows by its contacts alone, as it was said when it became ready; of one that has enough no model could be made
      return progress.isJudged(of.learning) && of.learning.reservoir.count < FEWEST_ROWS
    },
    owners: () => [...registry.all()].map((of) => reportScope(of, progress)),
    warnings() {
      const [first, ...others] = [...trainer.failures]
        .filter(([name]) => (registry.get(name)?.learning ?? null) !== null)
        .map(([, why]) => why)
      const failed = first === undefined ? [] : [withMore(first, others.length)]
      const waiting = [...registry.all()].filter(({ isWaiting }) => isWaiting).length
      if (waiting === 0) return failed
      const who = waiting === 1 ? 'one device or group waits' : `${waiting} devices or groups wait`
      return [...failed, `${who} for a place to learn (models.memory, models.maximum)`]
    },
    scopeReport(device) {
      const of = registry.get(scopeOf(device))
      return of === undefined ? null : reportScope(of, progress)
    },
    report() {
      const all = [...registry.all()]
      return {
        owners: {
          waiting: all.filter(({ isWaiting }) => isWaiting).length,
          learning: registry.learners,
          withModel: registry.models,
        },
        trainings: { ...trainer.counts },
        learning: teacher?.report(decider.shadowCounts()) ?? null,
        reservoirBytes: all.reduce((sum, { learning }) => sum + (learning?.reservoir.bytes ?? 0), 0),
        reservoirBytesMaximum: places * reservoirBytes(shape),
        damaged,
      }
    },
    save: keep,
    async idle() {
      await working
    },
  }
}

/**
 * ModelRoom: models that are made on the gateway, one for each owner (a device, a group, or all).
 *
 *     rows of a learning device → reservoir → (enough, for long enough) → a thread trains → settled? → in force
 *
 * Enough is what the threshold's promise takes: with half of the rows held out, 1/rate of them (or as many rows as there
 * are places for: then the model says what it promises instead).
 *
 * While a device is learning its rows go on being collected after that, and with twice the flows there is another training:
 * one that its first model does not know well gets a better one. What it showed is let go when it is ready.
 *
 * Until an owner has a model of its own the base model judges, where there is one, else nobody. A training that finds
 * the later half of the rows unlike the earlier one (train-rows.ts) changes nothing and is tried again with a quarter
 * more flows; one that fails or takes too long, with twice as many. In force means written to disk, then used.
 *
 * Where it is asked for (`learning`), models that were made here learn on from the rows of watched devices (online-rows.ts,
 * learn-on.ts), a round in the same thread when there are rows enough. The model as it was trained goes on judging as the
 * shadow: its score stands in the alert, and where the two differ is counted. It stays on disk, and a rollback goes to it.
 *
 * Bounded: reservoirs by `memoryBytes`, whole places being reserved as an owner begins; owners that find none wait, and are
 * counted. Models by `maximumModels`. One training at a time.
 *
 * Time is the packets'. The room has no clock: `tick` is called every second or so.
 */
import { createHash } from 'node:crypto'
import { type FlowContract, OddFlowError } from '@oddflow/core'
import { budgetRate, decodeModelFile, rowsNeeded, type SavedModel } from '@oddflow/detectors'
import { type FlowRecord, serviceName } from '@oddflow/flows'
import { createFlowJudge, type FlowJudge } from '@oddflow/program'
import type { Alert } from '../alerts/alert.js'
import { deviceKeyOf } from '../alerts/device-of.js'
import { type AlertExplainer, createAlertExplainer, explainNothing } from '../alerts/explain-alert.js'
import type { Network } from '../alerts/local-networks.js'
import { modelRarity } from '../budget/thresholds.js'
import type { Device } from '../devices/device.js'
import type { Log } from '../log.js'
import type { Decider } from '../pipeline/decider.js'
import type { BudgetSettings, DeviceSettings, LearningSettings } from '../settings.js'
import type { LearningJob, LearntRows } from './learn-on.js'
import type { ModelRecord, ModelStore } from './model-store.js'
import { createOnlineRows } from './online-rows.js'
import { createRowReservoir, decodeRowReservoir, type RowReservoir, reservoirBytes } from './row-reservoir.js'
import { LEAST_ROWS, type TrainedRows, type TrainingJob } from './train-rows.js'

export interface LearningLimits {
  readonly rowsPerOwner: number
  /** Of all reservoirs together. */
  readonly memoryBytes: number
  readonly trainWithinSeconds: number
  readonly maximumModels: number
}

/** A model with its name, from disk. */
export interface NamedModel {
  readonly saved: SavedModel
  readonly sha256: string
}

export interface ModelRoomOptions {
  readonly contract: FlowContract
  readonly ownerOf: (device: string) => string
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
  readonly seed: number
  readonly oddflowVersion: string
  readonly log: Log
}

/** What is told of an owner. */
export interface OwnerReport {
  readonly owner: string
  readonly state: 'waiting' | 'learning' | 'trained' | 'learnt-on' | 'given'
  /** Of the model in force. */
  readonly model: string | null
  readonly previous: string | null
  /** Rows in the reservoir of one that learns, rows that its model was trained with of one that does not. */
  readonly rows: number
  /** Of one that learns: rows with which its threshold keeps what is asked for, as far as there is room; else null. */
  readonly rowsNeeded: number | null
  /** Share of normal flows that the model in force flags at most, on average; null without a model. */
  readonly falseAlarmShare: number | null
  /** Whether that is within what was asked for; null without a model. */
  readonly keepsPromise: boolean | null
  /** Flows seen while learning. */
  readonly flows: number
  /** What the last training found; null before one. */
  readonly unsettledShare: number | null
}

export interface ModelsReport {
  readonly owners: { readonly waiting: number; readonly learning: number; readonly withModel: number }
  readonly trainings: { readonly accepted: number; readonly unsettled: number; readonly failed: number }
  /** null where models do not learn on. */
  readonly learning: OnlineReport | null
  readonly reservoirBytes: number
  readonly reservoirBytesMaximum: number
  /** Models found damaged at the start. */
  readonly damaged: number
}

export interface OnlineReport {
  /** Of watched devices, by what became of them; `refused` were in rounds that the guard had undone. */
  readonly rows: {
    readonly learnt: number
    readonly heldBack: number
    readonly disregarded: number
    readonly refused: number
    readonly overBudget: number
    readonly crowded: number
  }
  readonly rounds: { readonly accepted: number; readonly refused: number; readonly failed: number }
  /** Scored flows of owners whose model has learnt on, by whether it and the model as it was trained find them novel. */
  readonly shadow: {
    readonly bothNormal: number
    readonly bothNovel: number
    readonly onlyNow: number
    readonly onlyTrained: number
  }
}

export interface ModelRoom extends Decider {
  readonly explain: AlertExplainer
  /** A verdict was given on a record of this device, which the table has counted. */
  note(record: FlowRecord, device: Device): void
  /** Whether the device's owner has a model and is not learning. */
  isTrained(device: string): boolean
  /** Begins a training where one is due and none is under way. */
  trainDue(): void
  /** @param isKnown - whether a device is still on the table. */
  tick(isKnown: (device: string) => boolean): void
  /** The model before takes the place of the one in force. Why it cannot be done; null where it was. */
  rollback(owner: string): Promise<string | null>
  owners(): OwnerReport[]
  /** Of the owner that a device has; null where nothing is known of it. */
  ownerReport(device: string): OwnerReport | null
  report(): ModelsReport
  /** Keeps what was learnt; to be called now and then, and at the end. */
  save(): Promise<void>
  /** Ends when no training is under way. */
  idle(): Promise<void>
}

interface JudgingModel {
  readonly id: string
  readonly saved: SavedModel
  readonly judge: FlowJudge['judge']
}

interface Learning {
  readonly reservoir: RowReservoir
  readonly devices: Set<string>
  isDirty: boolean
}

interface Owner {
  readonly name: string
  model: JudgingModel | null
  /** As it was trained, of one that has learnt on. */
  shadow: JudgingModel | null
  /** null where the model was given, or there is none. */
  record: ModelRecord | null
  learning: Learning | null
  isWaiting: boolean
  unsettledShare: number | null
}

/** Where no budget says otherwise, as `oddflow train`. */
const FALSE_POSITIVE_RATE = 0.01
const MICROS_PER_HOUR = 3_600_000_000
const MICROS_PER_DAY = 24 * MICROS_PER_HOUR
const TICKS_BETWEEN_SAVES = 600
const TICKS_BETWEEN_SWEEPS = 60
/** Devices of an owner that learn together and are counted. */
const MAXIMUM_COUNTED = 4096
/** Explainers that are kept; one takes as much as its model. */
const MAXIMUM_EXPLAINERS = 4

/** `known`: the devices of an earlier run. Rejects as the store does. */
export async function openModelRoom(options: ModelRoomOptions, known: readonly Device[]): Promise<ModelRoom> {
  const { contract, limits, store, log, ownerOf } = options
  const row = new Float64Array(contract.dimension)
  const shape = { dimension: contract.dimension, capacity: limits.rowsPerOwner, seed: options.seed }
  const places = Math.floor(limits.memoryBytes / reservoirBytes(shape))
  const owners = new Map<string, Owner>()
  const byId = new Map<string, JudgingModel>()
  const explainers = new Map<string, AlertExplainer>()
  const counts = { accepted: 0, unsettled: 0, failed: 0, damaged: 0 }
  const online =
    options.learning === null
      ? null
      : createOnlineRows({
          ...options.learning,
          dimension: contract.dimension,
          maximumDevices: options.devices.maximum,
        })
  const taught = { learnt: 0, heldBack: 0, disregarded: 0, refused: 0 }
  const rounds = { accepted: 0, refused: 0, failed: 0 }
  const shadow = { bothNormal: 0, bothNovel: 0, onlyNow: 0, onlyTrained: 0 }
  let learners = 0
  let ticks = 0
  let training: Promise<void> | null = null
  let saving: Promise<void> = Promise.resolve()
  let latestMicros = 0
  const network = { flows: 0, firstMicros: Number.POSITIVE_INFINITY }

  const judging = ({ saved: { learned: _, ...saved }, sha256 }: NamedModel): JudgingModel => {
    // what it takes to learn on stays on disk: it is several times the model
    const model = { id: sha256.slice(0, 16), saved, judge: createFlowJudge(saved, row).judge }
    byId.set(model.id, model)
    return model
  }
  const shadowOf = ({ saved }: NamedModel, { previous }: ModelRecord): JudgingModel | null => {
    if (saved.learned === undefined) return null
    const { contract, onePacketRule, provenance, learned } = saved
    const trained: SavedModel = { ...learned.frozen, contract, onePacketRule, provenance }
    return { id: previous?.slice(0, 16) ?? '', saved: trained, judge: createFlowJudge(trained, row).judge }
  }
  const base = options.base === null ? null : judging(options.base)

  const owner = (name: string): Owner => {
    let found = owners.get(name)
    if (found === undefined) {
      found = {
        name,
        model: null,
        shadow: null,
        record: null,
        learning: null,
        isWaiting: false,
        unsettledShare: null,
      }
      owners.set(name, found)
    }
    return found
  }
  const putInForce = (of: Owner, named: NamedModel, record: ModelRecord | null): void => {
    if (of.model !== null) {
      byId.delete(of.model.id)
      explainers.delete(of.model.id)
    }
    of.model = judging(named)
    of.shadow = record === null ? null : shadowOf(named, record)
    of.record = record
    of.unsettledShare = record?.unsettledShare ?? null
  }
  const beginLearning = (of: Owner, reservoir: RowReservoir): Learning => {
    learners++
    of.isWaiting = false
    of.learning = { reservoir, devices: new Set(), isDirty: false }
    return of.learning
  }
  const endLearning = (of: Owner): void => {
    if (of.learning !== null) learners--
    of.learning = null
    of.isWaiting = false
  }
  const modelCount = (): number => [...owners.values()].filter(({ model }) => model !== null).length
  const mustLearn = (of: Owner, device: Device): boolean => {
    if (device.state !== 'learning') return false
    // what a device shows until it is watched makes its model better
    if (of.model === null || (of.record !== null && of.name === device.key)) return true
    const { learningSinceMicros, firstSeenMicros } = device
    const trainedAt = of.record?.trainedAtMicros ?? Number.NEGATIVE_INFINITY
    return learningSinceMicros > firstSeenMicros && learningSinceMicros >= trainedAt
  }

  for (const [name, named] of options.given) putInForce(owner(name), named, null)
  const kept = await store.readAll((message) => {
    counts.damaged++
    log.warn(`${message}; its owner learns anew`)
  })
  for (const { record, saved } of kept) {
    const of = owner(record.owner)
    if (of.model !== null) continue
    if (JSON.stringify(saved.contract) !== JSON.stringify(contract)) {
      log.warn(`the model of ${record.owner} was made under another feature contract; it learns anew`)
      continue
    }
    putInForce(of, { saved, sha256: record.sha256 }, record)
  }
  for (const device of known) {
    const of = owner(ownerOf(device.key))
    if (of.learning !== null || learners >= places || !mustLearn(of, device)) continue
    const bytes = await store.readRows(of.name)
    if (bytes === null) continue
    try {
      beginLearning(of, decodeRowReservoir(bytes, shape))
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      log.warn(`rows of ${of.name}: ${error.message}; it learns anew`)
    }
  }

  const note = (learning: Learning, name: string): number => learning.reservoir.notes.get(name) ?? 0
  const rateFor = (learning: Learning): number => {
    const { budget } = options
    if (budget === null) return FALSE_POSITIVE_RATE
    const perDay = (flows: number, micros: number): number =>
      (Math.max(1, flows) * MICROS_PER_DAY) / Math.max(1, micros)
    const own = perDay(note(learning, 'flows'), note(learning, 'lastMicros') - note(learning, 'firstMicros'))
    if (budget.per === 'network') {
      const all = perDay(network.flows, latestMicros - network.firstMicros)
      return budgetRate(budget.falseAlertsPerDay, Math.max(own, all))
    }
    return budgetRate(budget.falseAlertsPerDay * Math.max(1, learning.devices.size), own)
  }
  /** Whether the model in force is of what is being learnt. */
  const isOfNow = ({ model, learning }: Owner): boolean =>
    model !== null && (learning === null || note(learning, 'hasModel') === 1)
  /** The last device that learnt for its owner is watched, or gone. */
  const endWith = (of: Owner, device: string): void => {
    of.learning?.devices.delete(device)
    if (of.learning === null || of.learning.devices.size > 0 || !isOfNow(of)) return
    endLearning(of)
    saving = saving.then(() => store.removeRows(of.name))
  }
  const rowsFor = (learning: Learning): number =>
    Math.min(limits.rowsPerOwner, Math.max(LEAST_ROWS, 2 * rowsNeeded(rateFor(learning))))
  const isDue = ({ learning }: Owner): boolean => {
    if (learning === null || learning.reservoir.count < LEAST_ROWS) return false
    const { learnFlows, learnHours } = options.devices
    return (
      note(learning, 'flows') >= Math.max(learnFlows, note(learning, 'nextFlows')) &&
      note(learning, 'lastMicros') - note(learning, 'firstMicros') >= learnHours * MICROS_PER_HOUR &&
      learning.reservoir.count >= rowsFor(learning)
    )
  }
  const reportOf = (of: Owner): OwnerReport => {
    const calibration = of.model?.saved.threshold.calibration ?? null
    return {
      owner: of.name,
      state: of.isWaiting
        ? 'waiting'
        : !isOfNow(of)
          ? 'learning'
          : of.record === null
            ? 'given'
            : of.record.source,
      model: of.model?.id ?? null,
      previous: of.record?.previous?.slice(0, 16) ?? null,
      rows: of.learning?.reservoir.count ?? of.record?.rows ?? 0,
      rowsNeeded: of.learning === null ? null : rowsFor(of.learning),
      falseAlarmShare: calibration?.bound ?? null,
      keepsPromise: calibration?.guaranteed ?? null,
      flows: of.learning === null ? 0 : note(of.learning, 'flows'),
      unsettledShare: of.unsettledShare,
    }
  }
  const trainFor = async (of: Owner, learning: Learning): Promise<void> => {
    const { reservoir } = learning
    const flows = note(learning, 'flows')
    const falsePositiveRate = rateFor(learning)
    const again = (factor: number): void => {
      reservoir.notes.set('nextFlows', Math.ceil(factor * flows))
      learning.isDirty = true
    }
    try {
      const trained = await options.train({
        rows: reservoir.rows().data,
        contract,
        onePacketRule: reservoir.onePacketRule(),
        falsePositiveRate,
        seed: options.seed,
        oddflowVersion: options.oddflowVersion,
      })
      // forgotten, or told to learn anew, meanwhile
      if (of.learning !== learning) return
      of.unsettledShare = trained.unsettledShare
      if (trained.unsettledShare > options.devices.stableShare) {
        counts.unsettled++
        again(1.25)
        return
      }
      const record: ModelRecord = {
        owner: of.name,
        sha256: createHash('sha256').update(trained.file).digest('hex'),
        previous: of.record?.sha256 ?? null,
        source: 'trained',
        pinned: false,
        rows: trained.rows,
        unsettledShare: trained.unsettledShare,
        trainedAtMicros: latestMicros,
      }
      await store.write(record, trained.file)
      if (of.learning !== learning) return
      reservoir.notes.set('hasModel', 1)
      again(2)
      online?.drop(of.name)
      putInForce(of, { saved: decodeModelFile(trained.file), sha256: record.sha256 }, record)
      counts.accepted++
      const { calibration } = of.model?.saved.threshold ?? { calibration: null }
      const promise =
        calibration === null || calibration.guaranteed
          ? ''
          : `; its threshold lets up to ${(100 * calibration.bound).toPrecision(2)} % of normal flows be flagged; models.rowsPerDevice of ${2 * calibration.rowsNeeded} would keep what was asked for`
      log.info(`${of.name}: a model of ${trained.rows} rows is in force${promise}`)
    } catch (error) {
      counts.failed++
      again(2)
      log.warn(
        `${of.name}: no model was made: ${error instanceof Error ? error.message : error}; trying again`,
      )
    }
  }
  /** A round of learning on; the model in force is then the one that follows. */
  const learnOnFor = async (of: Owner, { shadowAgrees }: LearningSettings): Promise<void> => {
    const { record } = of
    const rows = online?.take(of.name)
    if (record === null || rows === undefined) return
    try {
      const file = await store.readFile(record)
      const learnt = await options.learnOn({ file, rows, shadowAgrees, seed: options.seed })
      // trained anew, or forgotten, meanwhile
      if (of.record !== record || owners.get(of.name) !== of) return
      if (learnt.refused) {
        rounds.refused++
        taught.refused += rows.length / contract.dimension
        return
      }
      const next: ModelRecord = {
        ...record,
        sha256: createHash('sha256').update(learnt.file).digest('hex'),
        previous: record.source === 'trained' ? record.sha256 : record.previous,
        source: 'learnt-on',
        rows: record.rows + learnt.learnt,
      }
      await store.write(next, learnt.file)
      putInForce(of, { saved: decodeModelFile(learnt.file), sha256: next.sha256 }, next)
      rounds.accepted++
      for (const key of ['learnt', 'heldBack', 'disregarded'] as const) taught[key] += learnt[key]
    } catch (error) {
      rounds.failed++
      log.warn(`${of.name}: nothing was learnt on: ${error instanceof Error ? error.message : error}`)
    }
  }
  const trainDue = (): void => {
    if (training !== null || (learners === 0 && online === null)) return
    const begin = (work: Promise<void>): void => {
      training = work.finally(() => {
        training = null
      })
    }
    const all = [...owners.values()]
    const due = all.find(isDue)
    if (due !== undefined) {
      begin(trainFor(due, due.learning as Learning))
      return
    }
    const { learning } = options
    const full = online === null ? undefined : all.find(({ name }) => online.isFull(name))
    if (full !== undefined && learning !== null) begin(learnOnFor(full, learning))
  }
  const save = async (): Promise<void> => {
    for (const { name, learning } of owners.values()) {
      if (learning === null || !learning.isDirty) continue
      learning.isDirty = false
      await store.writeRows(name, learning.reservoir.encode())
    }
  }
  const keep = (): Promise<void> => {
    saving = saving.then(save).catch((error: unknown) => {
      log.warn(`what devices have shown is not kept: ${error instanceof Error ? error.message : error}`)
    })
    return saving
  }

  return {
    contract,
    row,
    decide(record) {
      const of = owners.get(ownerOf(deviceKeyOf(record, options.localNetworks)))
      const model = of?.model ?? base
      if (model === null)
        return { score: null, rule: 'not-judged', novel: false, threshold: null, model: null }
      const decision = { ...model.judge(record), threshold: model.saved.threshold.value, model: model.id }
      const trained = of?.shadow ?? null
      if (trained === null || decision.score === null) return decision
      const { score, novel } = trained.judge(record)
      if (novel === decision.novel) shadow[novel ? 'bothNovel' : 'bothNormal']++
      else shadow[novel ? 'onlyTrained' : 'onlyNow']++
      return {
        ...decision,
        shadow: { score, threshold: trained.saved.threshold.value, novel, model: trained.id },
      }
    },
    rarity({ score, model }) {
      const found = model === null ? undefined : byId.get(model)
      return score === null || found === undefined ? null : modelRarity(found.saved.threshold)
    },
    explain(alert: Alert) {
      const model = alert.model === null ? undefined : byId.get(alert.model)
      if (model === undefined) return explainNothing(alert)
      let explainer = explainers.get(model.id)
      if (explainer === undefined) {
        if (explainers.size >= MAXIMUM_EXPLAINERS) explainers.delete(explainers.keys().next().value as string)
        explainer = createAlertExplainer(model.saved)
        explainers.set(model.id, explainer)
      }
      return explainer(alert)
    },
    note(record, device) {
      const micros = record.startMicros + record.durationMicros
      latestMicros = Math.max(latestMicros, micros)
      network.flows++
      network.firstMicros = Math.min(network.firstMicros, record.startMicros)
      const of = owner(ownerOf(device.key))
      if (device.state !== 'learning') {
        endWith(of, device.key)
        const isLearningOn =
          device.state === 'watching' && of.learning === null && of.record?.pinned === false
        if (isLearningOn && record.row !== null) online?.add(of.name, device.key, record.row, micros)
        return
      }
      if (of.learning === null) {
        if (!mustLearn(of, device)) return
        of.isWaiting =
          learners >= places || (of.model === null && modelCount() + learners >= limits.maximumModels)
        if (of.isWaiting) return
        beginLearning(of, createRowReservoir(shape)).reservoir.notes.set('firstMicros', record.startMicros)
      }
      const learning = of.learning as Learning
      const { notes } = learning.reservoir
      notes.set('lastMicros', Math.max(note(learning, 'lastMicros'), micros))
      notes.set('flows', note(learning, 'flows') + 1)
      if (learning.devices.size < MAXIMUM_COUNTED) learning.devices.add(device.key)
      learning.isDirty = true
      if (record.row !== null) learning.reservoir.add(record.row)
      else if (record.noRowReason === 'one-packet') {
        learning.reservoir.addOnePacket(
          serviceName(record.protocol, record.initiatorPort, record.responderPort),
        )
      }
    },
    isTrained(device) {
      const of = owners.get(ownerOf(device))
      return of !== undefined && isOfNow(of)
    },
    trainDue,
    tick(isKnown) {
      ticks++
      trainDue()
      if (ticks % TICKS_BETWEEN_SWEEPS === 0) {
        for (const of of owners.values()) {
          // owners by device go with their device; groups stay
          if (ownerOf(of.name) !== of.name || isKnown(of.name) || options.given.has(of.name)) continue
          endLearning(of)
          online?.drop(of.name)
          owners.delete(of.name)
          if (of.model !== null) byId.delete(of.model.id)
          saving = saving.then(() => store.remove(of.name)).catch(() => undefined)
        }
      }
      if (ticks % TICKS_BETWEEN_SAVES === 0) void keep()
    },
    async rollback(name) {
      // what is being written of it comes first
      await training
      const of = owners.get(name)
      if (of?.record === undefined || of.record === null) return `${name} has no model that was made here`
      if (of.record.previous === null) return `${name} has no model before the one in force`
      const back = await store.rollback(name)
      if (back === null) return `${name} has no model before the one in force`
      online?.drop(name)
      putInForce(of, { saved: back.saved, sha256: back.record.sha256 }, back.record)
      return null
    },
    owners: () => [...owners.values()].map(reportOf),
    ownerReport(device) {
      const of = owners.get(ownerOf(device))
      return of === undefined ? null : reportOf(of)
    },
    report() {
      let waiting = 0
      let bytes = 0
      for (const of of owners.values()) {
        if (of.isWaiting) waiting++
        bytes += of.learning?.reservoir.bytes ?? 0
      }
      const { accepted, unsettled, failed, damaged } = counts
      return {
        owners: { waiting, learning: learners, withModel: modelCount() },
        trainings: { accepted, unsettled, failed },
        learning:
          online === null
            ? null
            : {
                rows: { ...taught, overBudget: online.overBudget, crowded: online.crowded },
                rounds: { ...rounds },
                shadow: { ...shadow },
              },
        reservoirBytes: bytes,
        reservoirBytesMaximum: places * reservoirBytes(shape),
        damaged,
      }
    },
    save: keep,
    async idle() {
      await training
    },
  }
}

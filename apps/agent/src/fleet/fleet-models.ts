/**
 * FleetModels: what this gateway makes of the models that a fleet offers it (packages/program/src/fleet-models.ts).
 *
 *     offer → signed, for us, newer? → canary? → download → size, hash, contract → made attacks → flows of before → shadow → in use → proven
 *
 * In shadow a model judges beside the one in use; while it proves itself the one before judges beside it. In both it may flag
 * at most MOST_FALSE_ALARMS of the flows that the other one finds normal. Otherwise it is refused, or the gateway goes back to the
 * last good model. All of this works without the server.
 *
 * What a server sends may be hostile. A verdict on a version is kept only where the signature says that the model is the
 * operator's; what the server could have changed (no model, another hash) is reported and tried again.
 *
 * State: `fleet-model.json` (versions and what is used) and `fleet-models/SHA256….oddflow`. In use means written to disk, then used.
 */
import { createHash, type KeyObject } from 'node:crypto'
import { join } from 'node:path'
import { checkSameContract, DataError, type FlowContract, FormatError, OddFlowError } from '@oddflow/core'
import { decodeModelFile, novelRows } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import {
  decodeOffer,
  type FleetTarget,
  type GatewayModelState,
  isCanary,
  LEAST_JUDGED_FLOWS,
  MAXIMUM_FLEET_MODEL_BYTES,
  MOST_FALSE_ALARMS,
  type ModelFile,
  type ModelManifest,
  type ModelStage,
  readManifest,
  targetText,
} from '@oddflow/program'
import type { FileSystem } from '../files/file-system.js'
import { checkVersion, readTwice, writeBytes, writeStateTwice } from '../files/state-file.js'
import type { Log } from '../log.js'
import { createJudgingModel, type JudgingModel } from '../models/judging.js'
import { createRowReservoir } from '../models/row-reservoir.js'
import type { AgentVerdict } from '../pipeline/counters.js'

/** Flows of before by which a new model is judged, a sample. */
const KEPT_ROWS = 1000
const KEPT_ROW_BYTES = 1_048_576

interface VersionOfModel {
  readonly version: number
  readonly sha256: string
}

/** What is kept of the fleet's models; null stands for the model of the configuration. */
interface FleetModelRecord {
  /** Of the manifests that this gateway acted on. */
  readonly highest: number
  /** That version is in shadow: after a restart it begins again. */
  readonly isPending: boolean
  readonly inUse: VersionOfModel | null
  readonly lastGood: VersionOfModel | null
  readonly isProven: boolean
  /** The last version that was refused, or gone back from. */
  readonly refused: { readonly version: number; readonly reason: string; readonly wasUsed: boolean } | null
}

const NOTHING: FleetModelRecord = {
  highest: 0,
  isPending: false,
  inUse: null,
  lastGood: null,
  isProven: true,
  refused: null,
}

export interface FleetModelStore {
  read(log: Pick<Log, 'warn'>): Promise<FleetModelRecord>
  write(record: FleetModelRecord): Promise<void>
  /** Rejects where the file is not there, damaged, or of another contract. */
  readModel(sha256: string, contract: FlowContract): Promise<ModelFile>
  writeModel(sha256: string, bytes: Uint8Array): Promise<void>
  removeOthers(kept: readonly (string | undefined)[]): Promise<void>
}

const KIND = 'oddflow-agent-fleet-model'
const VERSION = 1
export const FLEET_STATE_FILE = 'fleet-model.json'
export const FLEET_MODELS_FOLDER = 'fleet-models'

export function createFleetModelStore(files: FileSystem, stateFolder: string): FleetModelStore {
  const path = join(stateFolder, FLEET_STATE_FILE)
  const folder = join(stateFolder, FLEET_MODELS_FOLDER)
  const nameOf = (sha256: string): string => `${sha256.slice(0, 16)}.oddflow`
  return {
    async read(log) {
      const found = await readTwice(files, path, decodeRecord)
      if (found.is === 'none') return NOTHING
      if (found.is === 'whole') return found.value
      if (found.is === 'copy') {
        log.warn(`${path}: ${found.reason}; its copy is used`)
        return found.value
      }
      log.warn(`${path}: ${found.reason}; the model of the configuration is used until the fleet offers one`)
      return NOTHING
    },
    write: (record) => writeStateTwice(files, path, { kind: KIND, version: VERSION, ...record }),
    async readModel(sha256, contract) {
      const name = join(folder, nameOf(sha256))
      const bytes = await files.read(name, MAXIMUM_FLEET_MODEL_BYTES)
      if (bytes === null) throw new DataError(`${name}: is not there`)
      return modelOf(bytes, sha256, contract)
    },
    async writeModel(sha256, bytes) {
      await files.makeFolder(folder)
      await writeBytes(files, join(folder, nameOf(sha256)), bytes)
    },
    async removeOthers(kept) {
      if ((await files.isFolder(folder)) !== true) return
      const names = kept.map((sha256) => nameOf(sha256 ?? ''))
      for (const name of await files.list(folder)) {
        if (!names.includes(name)) await files.remove(join(folder, name)).catch(() => undefined)
      }
    },
  }
}

const SHA256 = /^[0-9a-f]{64}$/

/** Throws FormatError for what is no record of ours. */
function decodeRecord(value: unknown): FleetModelRecord {
  const { kind, version, highest, isPending, inUse, lastGood, isProven, refused } = (value ?? {}) as Record<
    string,
    unknown
  >
  if (kind === KIND) checkVersion('fleet-model', VERSION, version)
  const isVersion = (each: unknown): boolean =>
    each === null ||
    (Number.isSafeInteger((each as VersionOfModel | undefined)?.version) &&
      SHA256.test(String((each as VersionOfModel).sha256)))
  const isSound =
    kind === KIND &&
    Number.isSafeInteger(highest) &&
    typeof isPending === 'boolean' &&
    isVersion(inUse) &&
    isVersion(lastGood) &&
    typeof isProven === 'boolean' &&
    (refused === null || Number.isSafeInteger((refused as { version?: unknown } | undefined)?.version))
  if (!isSound) throw new FormatError('fleet-model', 'is no record of models of a fleet')
  return { highest, isPending, inUse, lastGood, isProven, refused } as FleetModelRecord
}

/** Throws DataError, FormatError or ContractMismatchError. */
function modelOf(bytes: Uint8Array, sha256: string, contract: FlowContract): ModelFile {
  const found = createHash('sha256').update(bytes).digest('hex')
  if (found !== sha256) throw new DataError(`expected the SHA-256 ${sha256}, found ${found}`)
  const saved = decodeModelFile(bytes)
  checkSameContract(contract, saved.contract)
  return { saved, sha256, sizeBytes: bytes.length }
}

/** What was in use when the agent ended, read before anything is opened. */
export interface KeptFleetModel {
  readonly record: FleetModelRecord
  /** null: the model of the configuration. */
  readonly inUse: ModelFile | null
}

/** Where the model in use is damaged, the last good one takes its place, or the model of the configuration. */
export async function readKeptFleetModel(
  store: FleetModelStore,
  contract: FlowContract,
  log: Pick<Log, 'warn'>,
): Promise<KeptFleetModel> {
  const record = await store.read(log)
  for (const of of [record.inUse, record.lastGood]) {
    if (of === null) continue
    try {
      const inUse = await store.readModel(of.sha256, contract)
      return of === record.inUse
        ? { record, inUse }
        : { record: { ...record, inUse: of, lastGood: null, isProven: true }, inUse }
    } catch (error) {
      log.warn(`the fleet's model version ${of.version}: ${(error as Error).message}; an earlier one is used`)
    }
  }
  return { record: { ...record, inUse: null, lastGood: null, isProven: true }, inUse: null }
}

export interface FleetModelsOptions {
  readonly gateway: string
  readonly group: string | null
  /** Pinned: that of the operator. */
  readonly publicKey: KeyObject
  /** Of the agent's rows; a record that is noted has its row here. */
  readonly row: Float64Array
  readonly configured: ModelFile
  readonly contract: FlowContract
  readonly kept: KeptFleetModel
  readonly store: FleetModelStore
  /** Takes the place of the model in use. */
  readonly use: (model: ModelFile) => void
  /** Why a model notices nothing; null where it does, or the agent is to stop. */
  readonly selfTest: (model: ModelFile) => Promise<string | null>
  readonly wallMicros: () => number
  readonly log: Pick<Log, 'info' | 'warn'>
  /** To every output. */
  readonly tell: (summary: string) => void
}

export interface FleetModels {
  readonly targets: readonly FleetTarget[]
  /**
   * What stands on the server now, for each target that has an offer. `fetch` gives a model's bytes, or null. Rejects where
   * `fetch` or the disk fails; nothing has changed then.
   */
  offered(
    offers: readonly Uint8Array[],
    fetch: (target: FleetTarget, sha256: string) => Promise<Uint8Array | null>,
  ): Promise<void>
  /** A verdict on a flow. */
  note(record: FlowRecord, decision: Pick<AgentVerdict, 'novel' | 'model'>): void
  /** A second is over. */
  tick(): void
  /** For the fleet. */
  state(): GatewayModelState
  /** For /healthz. */
  warnings(): readonly string[]
  /** Another model of the configuration from now on. */
  configure(model: ModelFile): void
  /** The fleet's model in use; null: that of the configuration. */
  readonly inUse: ModelFile | null
  /** Calls its argument when the stage has changed. */
  onChange(changed: () => void): void
  /** Ends when nothing is being written. */
  idle(): Promise<void>
}

/** A model under trial. */
interface Trial {
  readonly version: number
  readonly sha256: string
  readonly shadowSeconds: number
  /** In shadow: the new one. In use: the one before. */
  readonly beside: JudgingModel
  readonly model: ModelFile
  readonly isInUse: boolean
  seconds: number
  flows: number
  falseAlarms: number
}

export function createFleetModels(options: FleetModelsOptions): FleetModels {
  const { gateway, group, publicKey, row, contract, store, log } = options
  let { configured } = options
  const targets: FleetTarget[] = [
    { kind: 'gateway', name: gateway },
    ...(group === null ? [] : [{ kind: 'group' as const, name: group }]),
  ]
  const dimension = contract.dimension
  const kept = createRowReservoir({
    dimension,
    capacity: Math.max(LEAST_JUDGED_FLOWS, Math.min(KEPT_ROWS, Math.floor(KEPT_ROW_BYTES / (8 * dimension)))),
    seed: 1,
  })
  let { record, inUse } = options.kept
  let trial: Trial | null = null
  /** Of what stands on the server: nothing is kept of it. */
  let problem: { version: number; reason: string } | null = null
  let waiting: number | null = null
  let told = ''
  let changed = (): void => undefined
  let working: Promise<void> = Promise.resolve()

  const inForce = (): ModelFile => inUse ?? configured
  const stage = (): { stage: ModelStage; version: number; reason: string | null } => {
    const { highest, isPending, refused } = record
    if (trial?.isInUse === false) return { stage: 'shadow', version: trial.version, reason: null }
    if (problem !== null) return { stage: 'refused', ...problem }
    if (trial !== null) {
      // what came after it is not hidden while it proves itself, which can take long on a quiet network
      return refused?.version === highest && refused !== null
        ? { stage: 'refused', version: highest, reason: refused.reason }
        : { stage: 'proving', version: trial.version, reason: null }
    }
    if (isPending) return { stage: 'waiting', version: highest, reason: null }
    if (waiting !== null) return { stage: 'waiting', version: waiting, reason: null }
    if (refused?.version === highest && refused !== null) {
      const { version, reason, wasUsed } = refused
      return { stage: wasUsed ? 'rolled-back' : 'refused', version, reason }
    }
    return { stage: highest === 0 ? 'none' : 'in-use', version: highest, reason: null }
  }
  /** Says what has changed since the last time. */
  const say = (): void => {
    const now = stage()
    const text = JSON.stringify([now, record.inUse])
    if (text === told) return
    const isFirst = told === ''
    told = text
    changed()
    if (isFirst && now.reason === null) return
    const what = `model version ${now.version} of the fleet`
    const { stage: is, reason } = now
    if (is === 'shadow') log.info(`${what} judges in shadow`)
    else if (is === 'waiting') log.info(`${what} is offered to other gateways first`)
    else if (is === 'none') return
    else {
      const summary =
        is === 'refused'
          ? `${what} is refused: ${reason}`
          : is === 'rolled-back'
            ? `${what} was in use and is refused now: ${reason}`
            : `${what} is in use${is === 'in-use' ? '' : ', and has to prove itself'}`
      if (reason === null) log.info(summary)
      else log.warn(summary)
      options.tell(summary)
    }
  }
  const keepFiles = (): Promise<void> =>
    store.removeOthers([record.inUse?.sha256, record.lastGood?.sha256, trial?.sha256])
  /** What is in use on disk, then in memory. */
  const change = async (next: FleetModelRecord, model: ModelFile | null): Promise<void> => {
    await store.write(next)
    record = next
    if ((model ?? configured).sha256 !== inForce().sha256) options.use(model ?? configured)
    inUse = model
  }
  const prove = async (shadowSeconds: number): Promise<void> => {
    const { inUse: of, lastGood, isProven } = record
    if (isProven || of === null || inUse === null) return
    const before = lastGood === null ? configured : await store.readModel(lastGood.sha256, contract)
    const beside = createJudgingModel(before, row)
    trial = {
      ...of,
      shadowSeconds,
      model: inUse,
      beside,
      isInUse: true,
      seconds: 0,
      flows: 0,
      falseAlarms: 0,
    }
  }
  const refuse = async (version: number, reason: string): Promise<void> => {
    const refused = { version, reason, wasUsed: false }
    await change({ ...record, highest: version, isPending: false, refused }, inUse)
    trial = null
    await prove(0)
    await keepFiles()
  }
  /** The end of a trial, once it has one. */
  const settle = async (): Promise<void> => {
    if (trial === null) return
    const { version, sha256, flows, falseAlarms, isInUse, model, shadowSeconds } = trial
    const verdict = verdictOn(trial)
    if (verdict === 'wait') return
    if (verdict === 'bad') {
      const reason = `flags ${falseAlarms} of ${flows} flows that are normal to the model ${isInUse ? 'before' : 'in use'}; ${100 * MOST_FALSE_ALARMS} % are allowed`
      if (!isInUse) return refuse(version, reason)
      const { lastGood } = record
      const back =
        lastGood === null ? null : await store.readModel(lastGood.sha256, contract).catch(() => null)
      const refused = { version, reason, wasUsed: true }
      const next = {
        ...record,
        inUse: back === null ? null : lastGood,
        lastGood: null,
        isProven: true,
        refused,
      }
      await change(next, back)
      trial = null
    } else if (isInUse) {
      await change({ ...record, isProven: true }, inUse)
      trial = null
    } else {
      const lastGood = record.isProven ? record.inUse : record.lastGood
      const next = { version, sha256 }
      await change(
        { highest: version, isPending: false, inUse: next, lastGood, isProven: false, refused: null },
        model,
      )
      trial = null
      await prove(shadowSeconds)
    }
    await keepFiles()
  }
  /** Model and version as they are offered, where they do not need a trial; whether so. */
  const adopt = async ({ version, model }: ModelManifest): Promise<boolean> => {
    const now = { ...record, highest: version, isPending: false, refused: null }
    if (model === null) {
      await change({ ...now, inUse: null, lastGood: null, isProven: true }, null)
      trial = null
    } else if (model.sha256 === record.inUse?.sha256) {
      await change({ ...now, inUse: { version, sha256: model.sha256 } }, inUse)
      if (trial?.isInUse === false) trial = null
      if (trial === null) await prove(0)
    } else if (model.sha256 === record.lastGood?.sha256) {
      const back = await store.readModel(model.sha256, contract)
      const next = { version, sha256: model.sha256 }
      await change({ ...now, inUse: next, lastGood: null, isProven: true }, back)
      trial = null
    } else return false
    await keepFiles()
    return true
  }
  const tryModel = async (
    { target, version, shadowSeconds }: ModelManifest,
    { sha256, sizeBytes }: NonNullable<ModelManifest['model']>,
    fetch: Parameters<FleetModels['offered']>[1],
  ): Promise<void> => {
    if (sizeBytes > MAXIMUM_FLEET_MODEL_BYTES) {
      return refuse(version, `${sizeBytes} bytes, at most ${MAXIMUM_FLEET_MODEL_BYTES}`)
    }
    const bytes = await fetch(target, sha256)
    const found = bytes === null ? null : createHash('sha256').update(bytes).digest('hex')
    if (bytes === null || found !== sha256) {
      problem = {
        version,
        reason: bytes === null ? 'the server has no model' : 'the SHA-256 of the model differs',
      }
      return
    }
    let model: ModelFile
    try {
      model = modelOf(bytes, sha256, contract)
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      return refuse(version, error.message)
    }
    const blind = await options.selfTest(model)
    if (blind !== null) return refuse(version, blind)
    await store.writeModel(sha256, bytes)
    await change({ ...record, highest: version, isPending: true, refused: null }, inUse)
    // no flow comes between these and the first that the trial counts
    const rows = kept.rows()
    const falseAlarms = rows.rows === 0 ? 0 : novelRows(model.saved, rows).filter((novel) => novel).length
    trial = {
      version,
      sha256,
      shadowSeconds,
      model,
      beside: createJudgingModel(model, row),
      isInUse: false,
      seconds: 0,
      flows: rows.rows,
      falseAlarms,
    }
    await settle()
  }
  const act = async (
    offers: readonly Uint8Array[],
    fetch: Parameters<FleetModels['offered']>[1],
  ): Promise<void> => {
    problem = null
    waiting = null
    const problems: { version: number; reason: string }[] = []
    let newest: { manifest: ModelManifest; share: number } | null = null
    for (const bytes of offers) {
      let version = 0
      try {
        const { signed, share } = decodeOffer(bytes)
        version = readManifest(signed, 'unchecked').version
        const manifest = readManifest(signed, publicKey)
        if (!targets.some((target) => targetText(target) === targetText(manifest.target))) {
          throw new DataError(`is for ${targetText(manifest.target)}`)
        }
        if (version < record.highest) continue
        if (newest === null || version > newest.manifest.version) newest = { manifest, share }
      } catch (error) {
        if (!(error instanceof OddFlowError)) throw error
        problems.push({ version, reason: error.message })
      }
    }
    const isOld = newest === null && problems.length === 0 && offers.length > 0
    if (isOld) {
      const version = Math.max(
        ...offers.map((bytes) => readManifest(decodeOffer(bytes).signed, 'unchecked').version),
      )
      problems.push({ version, reason: `is older than version ${record.highest}, which came before` })
    }
    const [first = null] = problems
    problem = first
    if (newest === null) return
    const { manifest, share } = newest
    const { version, model } = manifest
    const isDecided = version === record.highest && !record.isPending
    if (isDecided || version === trial?.version) return
    if (!isCanary(gateway, version, share)) {
      waiting = version
      return
    }
    if ((await adopt(manifest)) || model === null) return
    if (trial?.isInUse === false) trial = null
    await tryModel(manifest, model, fetch)
  }
  const enqueue = (work: () => Promise<void>): Promise<void> => {
    const done = working.then(work).finally(say)
    working = done.catch(() => undefined)
    return done
  }
  let isSettling = false
  const settleSoon = (): void => {
    if (trial === null || isSettling || verdictOn(trial) === 'wait') return
    isSettling = true
    enqueue(settle)
      .catch((error: Error) => log.warn(`the fleet's model: ${error.message}; trying again`))
      .finally(() => {
        isSettling = false
      })
  }
  // an agent that ended while a model proved itself goes on
  void enqueue(() => prove(0)).catch((error: Error) => log.warn(`the fleet's model: ${error.message}`))
  return {
    targets,
    offered: (offers, fetch) => enqueue(() => act(offers, fetch)),
    note(flow, { novel, model }) {
      if (flow.row === null || model !== inForce().sha256.slice(0, 16)) return
      if (trial !== null) {
        const { beside, isInUse } = trial
        const other = isInUse || !novel ? beside.judge(flow).novel : false
        const isNormal = isInUse ? !other : !novel
        if (isNormal) trial.flows++
        if (isNormal && (isInUse ? novel : other)) trial.falseAlarms++
      }
      if (!novel) kept.add(flow.row)
    },
    tick() {
      if (trial !== null) trial.seconds++
      settleSoon()
    },
    state: () => {
      const { stage: is, version, reason } = stage()
      const { flows = 0, falseAlarms = 0 } = trial ?? {}
      return {
        group,
        stage: is,
        version,
        inUse: record.inUse,
        reason: reason === null ? null : reason.slice(0, 1000),
        flows,
        falseAlarms,
        at: new Date(options.wallMicros() / 1000).toISOString(),
      }
    },
    warnings() {
      const { version, reason } = stage()
      return reason === null ? [] : [`model version ${version} of the fleet is refused: ${reason}`]
    },
    configure(model) {
      configured = model
    },
    get inUse() {
      return inUse
    },
    onChange(call) {
      changed = call
    },
    idle: () => working,
  }
}

/** Bad at any time; good after the stated time. Neither before enough flows. */
function verdictOn({ flows, falseAlarms, seconds, shadowSeconds }: Trial): 'wait' | 'bad' | 'good' {
  if (flows < LEAST_JUDGED_FLOWS) return 'wait'
  if (falseAlarms > MOST_FALSE_ALARMS * flows) return 'bad'
  return seconds >= shadowSeconds ? 'good' : 'wait'
}

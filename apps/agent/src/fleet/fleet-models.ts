/**
 * FleetModels: what this gateway does with the models that a fleet offers it (packages/program/src/fleet-models.ts).
 *
 *     offer → signed, for us, newer? → canary? → download → size, hash, contract → synthetic attacks → flows of before → shadow → in use → proven
 *
 * In shadow a model judges beside the one in use; while it proves itself the one before judges beside it. In both it may flag at most
 * MOST_FALSE_ALARMS of the flows that the other one finds normal, else it is refused or the gateway goes back. This works without the
 * server, which may be hostile: a verdict on a version is kept only where the signature says that the model is the operator's.
 */
import { createHash, type KeyObject } from 'node:crypto'
import { join } from 'node:path'
import { checkSameContract, DataError, type FlowContract, FormatError, OddFlowError } from '@oddflow/core'
import { decodeModelFile, novelRows } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { learnedStateOf } from '@oddflow/online'
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
import * as v from 'valibot'
import type { FileSystem } from '../files/file-system.js'
import { checkVersion, readTwice, valueOrWarn, writeBytes, writeStateTwice } from '../files/state-file.js'
import type { Log } from '../log.js'
import { createJudgingModel, type JudgingModel } from '../models/judging.js'
import { createRowReservoir, type RowReservoir } from '../models/row-reservoir.js'
import type { AgentVerdict } from '../pipeline/counters.js'

/** Flows of before by which a new model is judged, a sample. */
const KEPT_ROWS = 1000
const KEPT_ROW_BYTES = 1_048_576

const KIND = 'oddflow-agent-fleet-model'
const VERSION = 1
const whole = v.pipe(v.number(), v.safeInteger())
const versionOfModel = v.nullable(
  v.object({ version: whole, sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)) }),
)

/** The saved state of the fleet's models; null stands for the model of the configuration. */
const RecordSchema = v.object({
  /** Of the manifests that this gateway acted on. */
  highest: whole,
  /** That version is in shadow: after a restart it begins again. */
  isPending: v.boolean(),
  inUse: versionOfModel,
  lastGood: versionOfModel,
  isProven: v.boolean(),
  /** The last version that was refused, or gone back from. */
  refused: v.nullable(v.object({ version: whole, reason: v.string(), wasUsed: v.boolean() })),
})
type FleetModelRecord = Readonly<v.InferOutput<typeof RecordSchema>>

/** Throws FormatError for an invalid record. */
function decodeRecord(value: unknown): FleetModelRecord {
  const { kind, version } = (value ?? {}) as Record<string, unknown>
  if (kind === KIND) checkVersion('fleet-model', VERSION, version)
  const parsed = v.safeParse(RecordSchema, value)
  if (kind !== KIND || !parsed.success)
    throw new FormatError('fleet-model', 'is no record of models of a fleet')
  return parsed.output
}

const NOTHING: FleetModelRecord = {
  highest: 0,
  isPending: false,
  inUse: null,
  lastGood: null,
  isProven: true,
  refused: null,
}

export type FleetModelStore = ReturnType<typeof createFleetModelStore>

export const FLEET_STATE_FILE = 'fleet-model.json'
export const FLEET_MODELS_FOLDER = 'fleet-models'

export function createFleetModelStore(files: FileSystem, stateFolder: string) {
  const path = join(stateFolder, FLEET_STATE_FILE)
  const folder = join(stateFolder, FLEET_MODELS_FOLDER)
  const nameOf = (sha256: string): string => `${sha256.slice(0, 16)}.oddflow`
  return {
    async read(log: Pick<Log, 'warn'>): Promise<FleetModelRecord> {
      const found = await readTwice(files, path, decodeRecord)
      const loss = 'the model of the configuration is used until the fleet offers one'
      return valueOrWarn(found, path, loss, log) ?? NOTHING
    },
    write: (record: FleetModelRecord): Promise<void> =>
      writeStateTwice(files, path, { kind: KIND, version: VERSION, ...record }),
    /** Rejects where the file is not there, damaged, or of another contract. */
    async readModel(sha256: string, contract: FlowContract): Promise<ModelFile> {
      const name = join(folder, nameOf(sha256))
      const bytes = await files.read(name, MAXIMUM_FLEET_MODEL_BYTES)
      if (bytes === null) throw new DataError(`${name}: is not there`)
      return modelOf(bytes, sha256, contract)
    },
    writeModel: (sha256: string, bytes: Uint8Array): Promise<void> =>
      writeBytes(files, join(folder, nameOf(sha256)), bytes),
    async removeOthers(kept: readonly (string | undefined)[]): Promise<void> {
      if ((await files.isFolder(folder)) !== true) return
      const names = kept.map((sha256) => nameOf(sha256 ?? ''))
      for (const name of await files.list(folder)) {
        if (!names.includes(name)) await files.remove(join(folder, name)).catch(() => undefined)
      }
    },
  }
}

/** Throws DataError, FormatError or ContractMismatchError. */
function modelOf(bytes: Uint8Array, sha256: string, contract: FlowContract): ModelFile {
  const found = createHash('sha256').update(bytes).digest('hex')
  if (found !== sha256) throw new DataError(`expected the SHA-256 ${sha256}, found ${found}`)
  const saved = decodeModelFile(bytes, learnedStateOf)
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

/** A model's bytes from the server; null where it has none. */
type FetchModel = (target: FleetTarget, sha256: string) => Promise<Uint8Array | null>

interface Problem {
  readonly version: number
  readonly reason: string
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

export class FleetModels {
  readonly targets: readonly FleetTarget[]
  readonly #options: FleetModelsOptions
  readonly #kept: RowReservoir
  #configured: ModelFile
  #record: FleetModelRecord
  #inUse: ModelFile | null
  #trial: Trial | null = null
  /** Of what stands on the server: nothing is kept of it. */
  #problem: Problem | null = null
  #waiting: number | null = null
  #told = ''
  #changed = (): void => undefined
  #working: Promise<void> = Promise.resolve()
  #isSettling = false

  constructor(options: FleetModelsOptions) {
    const { gateway, group, contract, configured, kept, log } = options
    this.#options = options
    this.targets = [
      { kind: 'gateway', name: gateway },
      ...(group === null ? [] : [{ kind: 'group' as const, name: group }]),
    ]
    const { dimension } = contract
    const rows = Math.min(KEPT_ROWS, Math.floor(KEPT_ROW_BYTES / (8 * dimension)))
    this.#kept = createRowReservoir({ dimension, capacity: Math.max(LEAST_JUDGED_FLOWS, rows), seed: 1 })
    this.#configured = configured
    this.#record = kept.record
    this.#inUse = kept.inUse
    // continue a proof that a stop of the agent interrupted
    void this.#enqueue(() => this.#prove(0)).catch(({ message }: Error) =>
      log.warn(`the fleet's model: ${message}`),
    )
  }

  /** The fleet's model in use; null: that of the configuration. */
  get inUse(): ModelFile | null {
    return this.#inUse
  }

  /** Another model of the configuration from now on. */
  configure(model: ModelFile): void {
    this.#configured = model
  }

  /** Calls its argument when the stage has changed. */
  onChange(changed: () => void): void {
    this.#changed = changed
  }

  /** Ends when nothing is being written. */
  idle(): Promise<void> {
    return this.#working
  }

  /**
   * What stands on the server now, for each target that has an offer. Rejects where `fetch` or the disk fails; nothing has
   * changed then.
   */
  offered(offers: readonly Uint8Array[], fetch: FetchModel): Promise<void> {
    return this.#enqueue(() => this.#act(offers, fetch))
  }

  /** A verdict on a flow. */
  note(flow: FlowRecord, { novel, model }: Pick<AgentVerdict, 'novel' | 'model'>): void {
    if (flow.row === null || model !== this.#inForce.sha256.slice(0, 16)) return
    if (this.#trial !== null) {
      const { beside, isInUse } = this.#trial
      const other = isInUse || !novel ? beside.judge(flow).novel : false
      const isNormal = isInUse ? !other : !novel
      if (isNormal) this.#trial.flows++
      if (isNormal && (isInUse ? novel : other)) this.#trial.falseAlarms++
    }
    if (!novel) this.#kept.add(flow.row)
  }

  /** A second is over. */
  tick(): void {
    if (this.#trial === null) return
    this.#trial.seconds++
    if (this.#isSettling || verdictOn(this.#trial) === 'wait') return
    this.#isSettling = true
    this.#enqueue(() => this.#settle())
      .catch(({ message }: Error) => this.#options.log.warn(`the fleet's model: ${message}; trying again`))
      .finally(() => {
        this.#isSettling = false
      })
  }

  /** For the fleet. */
  state(): GatewayModelState {
    const { stage, version, reason } = this.#stage()
    return {
      group: this.#options.group,
      stage,
      version,
      inUse: this.#record.inUse,
      reason: reason === null ? null : reason.slice(0, 1000),
      flows: this.#trial?.flows ?? 0,
      falseAlarms: this.#trial?.falseAlarms ?? 0,
      at: new Date(this.#options.wallMicros() / 1000).toISOString(),
    }
  }

  /** For /healthz. */
  warnings(): readonly string[] {
    const { version, reason } = this.#stage()
    return reason === null ? [] : [`model version ${version} of the fleet is refused: ${reason}`]
  }

  get #inForce(): ModelFile {
    return this.#inUse ?? this.#configured
  }

  #stage(): { stage: ModelStage; version: number; reason: string | null } {
    const { highest, isPending, refused } = this.#record
    const trial = this.#trial
    const isRefused = refused !== null && refused.version === highest
    if (trial?.isInUse === false) return { stage: 'shadow', version: trial.version, reason: null }
    if (this.#problem !== null) return { stage: 'refused', ...this.#problem }
    if (trial !== null) {
      // what came after it is not hidden while it proves itself, which can take long on a quiet network
      return isRefused
        ? { stage: 'refused', version: highest, reason: refused.reason }
        : { stage: 'proving', version: trial.version, reason: null }
    }
    if (isPending) return { stage: 'waiting', version: highest, reason: null }
    if (this.#waiting !== null) return { stage: 'waiting', version: this.#waiting, reason: null }
    if (isRefused) {
      const { version, reason, wasUsed } = refused
      return { stage: wasUsed ? 'rolled-back' : 'refused', version, reason }
    }
    return { stage: highest === 0 ? 'none' : 'in-use', version: highest, reason: null }
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    const done = this.#working.then(work).finally(() => this.#say())
    this.#working = done.catch(() => undefined)
    return done
  }

  /** Says what has changed since the last time. */
  #say(): void {
    const { log, tell } = this.#options
    const now = this.#stage()
    const text = JSON.stringify([now, this.#record.inUse])
    if (text === this.#told) return
    const isFirst = this.#told === ''
    this.#told = text
    this.#changed()
    const { stage, version, reason } = now
    if (stage === 'none' || (isFirst && reason === null)) return
    const what = `model version ${version} of the fleet`
    if (stage === 'shadow') log.info(`${what} judges in shadow`)
    else if (stage === 'waiting') log.info(`${what} is offered to other gateways first`)
    else {
      const summary = {
        refused: `${what} is refused: ${reason}`,
        'rolled-back': `${what} was in use and is refused now: ${reason}`,
        'in-use': `${what} is in use`,
        proving: `${what} is in use, and has to prove itself`,
      }[stage]
      if (reason === null) log.info(summary)
      else log.warn(summary)
      tell(summary)
    }
  }

  /** Sets the model in use, on disk first, then in memory. */
  async #change(next: FleetModelRecord, model: ModelFile | null): Promise<void> {
    await this.#options.store.write(next)
    this.#record = next
    const inForce = model ?? this.#configured
    if (inForce.sha256 !== this.#inForce.sha256) this.#options.use(inForce)
    this.#inUse = model
  }

  #keepFiles(): Promise<void> {
    const { inUse, lastGood } = this.#record
    return this.#options.store.removeOthers([inUse?.sha256, lastGood?.sha256, this.#trial?.sha256])
  }

  async #prove(shadowSeconds: number): Promise<void> {
    const { inUse: of, lastGood, isProven } = this.#record
    if (isProven || of === null || this.#inUse === null) return
    const { store, contract, row } = this.#options
    const before = lastGood === null ? this.#configured : await store.readModel(lastGood.sha256, contract)
    this.#trial = {
      ...of,
      shadowSeconds,
      model: this.#inUse,
      beside: createJudgingModel(before, row),
      isInUse: true,
      seconds: 0,
      flows: 0,
      falseAlarms: 0,
    }
  }

  async #refuse(version: number, reason: string): Promise<void> {
    const refused = { version, reason, wasUsed: false }
    await this.#change({ ...this.#record, highest: version, isPending: false, refused }, this.#inUse)
    this.#trial = null
    await this.#prove(0)
    await this.#keepFiles()
  }

  /** The end of a trial, once it has one. */
  async #settle(): Promise<void> {
    if (this.#trial === null) return
    const { version, sha256, flows, falseAlarms, isInUse, model, shadowSeconds } = this.#trial
    const verdict = verdictOn(this.#trial)
    if (verdict === 'wait') return
    if (verdict === 'bad') {
      const reason = `flags ${falseAlarms} of ${flows} flows that are normal to the model ${isInUse ? 'before' : 'in use'}; ${100 * MOST_FALSE_ALARMS} % are allowed`
      if (!isInUse) return this.#refuse(version, reason)
      await this.#goBack({ version, reason, wasUsed: true })
      this.#trial = null
    } else if (isInUse) {
      await this.#change({ ...this.#record, isProven: true }, this.#inUse)
      this.#trial = null
    } else {
      const { isProven, inUse, lastGood } = this.#record
      await this.#change(
        {
          highest: version,
          isPending: false,
          inUse: { version, sha256 },
          lastGood: isProven ? inUse : lastGood,
          isProven: false,
          refused: null,
        },
        model,
      )
      this.#trial = null
      await this.#prove(shadowSeconds)
    }
    await this.#keepFiles()
  }

  /** To the last good model, or to that of the configuration. */
  async #goBack(refused: NonNullable<FleetModelRecord['refused']>): Promise<void> {
    const { store, contract } = this.#options
    const { lastGood } = this.#record
    const back = lastGood === null ? null : await store.readModel(lastGood.sha256, contract).catch(() => null)
    const inUse = back === null ? null : lastGood
    await this.#change({ ...this.#record, inUse, lastGood: null, isProven: true, refused }, back)
  }

  async #act(offers: readonly Uint8Array[], fetch: FetchModel): Promise<void> {
    this.#waiting = null
    const { newest, problem } = readOffers(
      offers,
      this.targets,
      this.#options.publicKey,
      this.#record.highest,
    )
    this.#problem = problem
    if (newest === null) return
    const { manifest, share } = newest
    const { version, model } = manifest
    const isDecided = version === this.#record.highest && !this.#record.isPending
    if (isDecided || version === this.#trial?.version) return
    if (!isCanary(this.#options.gateway, version, share)) {
      this.#waiting = version
      return
    }
    if ((await this.#adopt(manifest)) || model === null) return
    if (this.#trial?.isInUse === false) this.#trial = null
    await this.#tryModel(manifest, model, fetch)
  }

  /** Model and version as they are offered, where they do not need a trial; whether so. */
  async #adopt({ version, model }: ModelManifest): Promise<boolean> {
    const { store, contract } = this.#options
    const now = { ...this.#record, highest: version, isPending: false, refused: null }
    if (model === null) {
      await this.#change({ ...now, inUse: null, lastGood: null, isProven: true }, null)
      this.#trial = null
    } else if (model.sha256 === this.#record.inUse?.sha256) {
      await this.#change({ ...now, inUse: { version, sha256: model.sha256 } }, this.#inUse)
      if (this.#trial?.isInUse === false) this.#trial = null
      if (this.#trial === null) await this.#prove(0)
    } else if (model.sha256 === this.#record.lastGood?.sha256) {
      const back = await store.readModel(model.sha256, contract)
      const inUse = { version, sha256: model.sha256 }
      await this.#change({ ...now, inUse, lastGood: null, isProven: true }, back)
      this.#trial = null
    } else return false
    await this.#keepFiles()
    return true
  }

  async #tryModel(
    { target, version, shadowSeconds }: ModelManifest,
    { sha256, sizeBytes }: NonNullable<ModelManifest['model']>,
    fetch: FetchModel,
  ): Promise<void> {
    const { contract, store, row, selfTest } = this.#options
    if (sizeBytes > MAXIMUM_FLEET_MODEL_BYTES) {
      return this.#refuse(version, `${sizeBytes} bytes, at most ${MAXIMUM_FLEET_MODEL_BYTES}`)
    }
    const bytes = await fetch(target, sha256)
    if (bytes === null || createHash('sha256').update(bytes).digest('hex') !== sha256) {
      const reason = bytes === null ? 'the server has no model' : 'the SHA-256 of the model differs'
      this.#problem = { version, reason }
      return
    }
    let model: ModelFile
    try {
      model = modelOf(bytes, sha256, contract)
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      return this.#refuse(version, error.message)
    }
    const blind = await selfTest(model)
    if (blind !== null) return this.#refuse(version, blind)
    await store.writeModel(sha256, bytes)
    await this.#change({ ...this.#record, highest: version, isPending: true, refused: null }, this.#inUse)
    // no flow comes between these and the first that the trial counts
    const rows = this.#kept.rows()
    this.#trial = {
      version,
      sha256,
      shadowSeconds,
      model,
      beside: createJudgingModel(model, row),
      isInUse: false,
      seconds: 0,
      flows: rows.rows,
      falseAlarms: rows.rows === 0 ? 0 : novelRows(model.saved, rows).filter((novel) => novel).length,
    }
    await this.#settle()
  }
}

/** The newest valid offer, and the errors of the others. */
function readOffers(
  offers: readonly Uint8Array[],
  targets: readonly FleetTarget[],
  publicKey: KeyObject,
  highest: number,
): { newest: { manifest: ModelManifest; share: number } | null; problem: Problem | null } {
  const problems: Problem[] = []
  let newest: { manifest: ModelManifest; share: number } | null = null
  let oldVersion = 0
  for (const bytes of offers) {
    let version = 0
    try {
      const { signed, share } = decodeOffer(bytes)
      version = readManifest(signed, 'unchecked').version
      const manifest = readManifest(signed, publicKey)
      if (!targets.some((target) => targetText(target) === targetText(manifest.target))) {
        throw new DataError(`is for ${targetText(manifest.target)}`)
      }
      if (version < highest) oldVersion = Math.max(oldVersion, version)
      else if (newest === null || version > newest.manifest.version) newest = { manifest, share }
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      problems.push({ version, reason: error.message })
    }
  }
  if (newest === null && problems.length === 0 && offers.length > 0) {
    const reason = `is older than version ${highest}, which came before`
    problems.push({ version: oldVersion, reason })
  }
  return { newest, problem: problems[0] ?? null }
}

/** Bad at any time; good after the stated time. Neither before enough flows. */
function verdictOn({ flows, falseAlarms, seconds, shadowSeconds }: Trial): 'wait' | 'bad' | 'good' {
  if (flows < LEAST_JUDGED_FLOWS) return 'wait'
  if (falseAlarms > MOST_FALSE_ALARMS * flows) return 'bad'
  return seconds >= shadowSeconds ? 'good' : 'wait'
}

/**
 * FleetModels: tests the models that a fleet offers to this gateway (packages/program/src/fleet-models.ts), and uses the good ones.
 *
 *     offer → signed, for us, newer? → canary? → download → size, hash, contract → synthetic attacks → earlier flows → shadow → in use → proven
 *
 * In shadow a model judges beside the one in use; while it proves itself, the previous one judges beside it. In both, it may flag at most
 * MOST_FALSE_ALARMS of the flows that the other one finds normal, else it is refused or rolled back. The server may be hostile or away: a
 * verdict on a version is saved only if the operator has signed the model.
 */
import { createHash, type KeyObject } from 'node:crypto'
import { hostname } from 'node:os'
import { DataError, type FlowContract, OddFlowError } from '@oddflow/core'
import { novelRows } from '@oddflow/detectors'
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
  readPublicKey,
  targetText,
} from '@oddflow/program'
import type { Settings } from '../config/settings.js'
import type { Log } from '../log.js'
import { createJudgingModel, type JudgingModel } from '../models/judging.js'
import { RowReservoir } from '../models/row-reservoir.js'
import { gatewayName } from '../outputs/nats.js'
import { fleetOutput } from '../outputs/registry.js'
import type { AgentVerdict, Decider } from '../pipeline/counters.js'
import type { OpeningEnvironment } from '../pipeline/environment.js'
import type { GivenModels } from '../pipeline/open-models.js'
import { missedAttacks } from '../pipeline/self-test.js'
import {
  type FleetModelRecord,
  type FleetModelStore,
  fleetModelOf,
  type KeptFleet,
  type KeptFleetModel,
} from './fleet-model-store.js'

/** A sample of earlier flows, to judge a new model by. */
const KEPT_ROWS = 1000
const KEPT_ROW_BYTES = 1_048_576

export interface FleetModelsOptions {
  readonly gateway: string
  readonly group: string | null
  /** The operator's. */
  readonly publicKey: KeyObject
  /** Holds the row of the record that is noted. */
  readonly row: Float64Array
  readonly configured: ModelFile
  readonly contract: FlowContract
  readonly kept: KeptFleetModel
  readonly store: FleetModelStore
  /** Replaces the model in use. */
  readonly use: (model: ModelFile) => void
  /** Why a model is unusable; null if it flags an attack, or on a stop. */
  readonly selfTest: (model: ModelFile) => Promise<string | null>
  readonly wallMicros: () => number
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Sends a notice to every output. */
  readonly tell: (summary: string) => void
}

/** Downloads a model; null if the server has none. */
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
  /** The model that judges beside: in shadow the new one, in use the previous one. */
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
  /** With the current offers; not saved. */
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
    this.#kept = new RowReservoir({ dimension, capacity: Math.max(LEAST_JUDGED_FLOWS, rows), seed: 1 })
    this.#configured = configured
    this.#record = kept.record
    this.#inUse = kept.inUse
    // continues a proof that a stop interrupted
    void this.#enqueue(() => this.#prove(0)).catch(({ message }: Error) =>
      log.warn(`the fleet's model: ${message}`),
    )
  }

  /** null: the model of the configuration. */
  get inUse(): ModelFile | null {
    return this.#inUse
  }

  /** Replaces the model of the configuration. */
  configure(model: ModelFile): void {
    this.#configured = model
  }

  /** Sets the listener for changes of the stage. */
  onChange(changed: () => void): void {
    this.#changed = changed
  }

  /** Resolves when nothing is being written. */
  idle(): Promise<void> {
    return this.#working
  }

  /** Takes the current offers of the server. Rejects, and changes nothing, if `fetch` or the disk fails. */
  offered(offers: readonly Uint8Array[], fetch: FetchModel): Promise<void> {
    return this.#enqueue(() => this.#act(offers, fetch))
  }

  /** Takes the verdict on a flow. */
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

  /** To be called every second. */
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
      // a proof can take long, so a later refusal is shown
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

  /** Reports a change since the last call. */
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

  /** Ends a trial that has a verdict. */
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

  /** Rolls back to the last good model, or to the one of the configuration. */
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

  /** Adopts an offer that needs no trial. Resolves to whether it did. */
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
      model = fleetModelOf(bytes, sha256, contract)
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      return this.#refuse(version, error.message)
    }
    const blind = await selfTest(model)
    if (blind !== null) return this.#refuse(version, blind)
    await store.writeModel(sha256, bytes)
    await this.#change({ ...this.#record, highest: version, isPending: true, refused: null }, this.#inUse)
    // no flow comes between the kept ones and the first of the trial
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

/** Bad at any time, good after the stated time; neither before there are enough flows. */
function verdictOn({ flows, falseAlarms, seconds, shadowSeconds }: Trial): 'wait' | 'bad' | 'good' {
  if (flows < LEAST_JUDGED_FLOWS) return 'wait'
  if (falseAlarms > MOST_FALSE_ALARMS * flows) return 'bad'
  return seconds >= shadowSeconds ? 'good' : 'wait'
}

interface FleetUse {
  readonly decider: Pick<Decider, 'row'>
  readonly replaceGiven: (next: GivenModels) => void
  readonly tell: (summary: string) => void
}

/** null without models of a fleet. Throws FileError for an invalid key. */
export function openFleetModels(
  settings: Settings,
  { clock, log, stop }: OpeningEnvironment,
  given: GivenModels,
  fleet: KeptFleet | null,
  { decider, replaceGiven, tell }: FleetUse,
): FleetModels | null {
  const output = fleetOutput(settings.outputs)
  const { base } = given
  if (fleet === null || output === null || base === null || settings.modelKey === null) return null
  return new FleetModels({
    ...fleet,
    gateway: gatewayName(output, hostname()),
    group: output.group ?? null,
    publicKey: readPublicKey(settings.modelKey),
    row: decider.row,
    configured: base,
    contract: given.contract,
    use: (model) => replaceGiven({ ...given, base: model }),
    selfTest: (model) => missedAttacks(model, settings, clock, stop),
    wallMicros: clock.wallMicros,
    log,
    tell,
  })
}

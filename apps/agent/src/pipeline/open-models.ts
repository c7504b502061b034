/** Whose word counts, opened from the settings: one model for all, or a manager of models that are made here. */
import { ContractMismatchError, checkSameContract, type FlowContract, featureDimension } from '@oddflow/core'
import { flowSummaryContract } from '@oddflow/flows'
import { learnedStateOf } from '@oddflow/online'
import { inFile, type ModelFile, readModelFile, readPublicKey, UsageError } from '@oddflow/program'
import type { AlertPipeline } from '../alerts/alert-pipeline.js'
import { type AlertExplainer, createAlertExplainer } from '../alerts/eve.js'
import { createSuppression } from '../alerts/suppress.js'
import { AlertBudget } from '../budget/alert-budget.js'
import { CALIBRATION, calibrationFields, readCalibrationFile } from '../budget/calibration.js'
import { modelThresholds, ownThresholds, type Thresholds } from '../budget/thresholds.js'
import type { FeatureSettings, ModelsSettings, Settings } from '../config/settings.js'
import type { KnownDevices } from '../devices/device-table.js'
import { PEER_NAMES_BYTES } from '../devices/peer-names.js'
import { keptPacketsBytes } from '../evidence/evidence.js'
import type { AnswerBook } from '../incidents/answers.js'
import { type ModelManager, openModelManager } from '../models/model-manager.js'
import { createScopeOf, devicesOfModels, scopeFileName } from '../models/model-scopes.js'
import { ModelStore } from '../models/model-store.js'
import { learnInChild, trainInChild } from '../training/train-in-child.js'
import { VERSION } from '../version.js'
import { type AgentVerdict, createModelDecider, type Decider } from './counters.js'
import type { AgentEnvironment, OpeningEnvironment } from './environment.js'
import { fleetModelBytes, type MemoryPlan, planMemory } from './memory-plan.js'

/** The model's own threshold, or an alert budget's. Models that are made here are made for the budget. */
export async function openThresholds(
  { budget, localNetworks, state, models }: Settings,
  { files, log, faults }: OpeningEnvironment,
  base: ModelFile | null,
): Promise<Thresholds> {
  if (base === null || models !== null) return ownThresholds
  const { saved } = base
  const model = base.sha256.slice(0, 16)
  if (budget === null) return modelThresholds(saved)
  const common = { settings: budget, model, saved, localNetworks, log }
  if (budget.calibration !== null) {
    const given = readCalibrationFile(budget.calibration, model)
    try {
      return new AlertBudget({ ...common, given, kept: null, save: null })
    } catch (error) {
      throw inFile(budget.calibration, error)
    }
  }
  if (state === null) return new AlertBudget({ ...common, given: null, kept: null, save: null })
  const kept = await CALIBRATION.read(files, state, faults)
  let isTroubled = false
  return new AlertBudget({
    ...common,
    given: null,
    kept,
    async save(calibration) {
      try {
        await CALIBRATION.write(files, state, calibrationFields(calibration))
        isTroubled = false
      } catch (error) {
        if (!isTroubled) log.warn(`${(error as Error).message}; the calibration is not kept`)
        isTroubled = true
      }
    },
  })
}

/** The models of a run as they are read from disk, before anything is opened. */
export interface GivenModels {
  /** Of all, or of those without one of their own. */
  readonly base: ModelFile | null
  readonly byScope: ReadonlyMap<string, ModelFile>
  readonly contract: FlowContract
  readonly memory: MemoryPlan
}

/** Throws FileError (also for a model without the signature that is asked for), FormatError, ContractMismatchError, or UsageError where there is too little memory. */
export function readModels(settings: Settings): GivenModels {
  const { model, models, modelKey } = settings
  const publicKey = modelKey === null ? null : readPublicKey(modelKey)
  const options = { onlyRegular: true, publicKey, check: learnedStateOf }
  const base = model === null ? null : readModelFile(model, options)
  const byScope = new Map(
    Object.entries(models?.files ?? {}).map(([owner, file]) => [owner, readModelFile(file, options)]),
  )
  const [first] = [...(base === null ? [] : [base]), ...byScope.values()]
  const contract = first?.saved.contract ?? contractOf((models as ModelsSettings).features)
  for (const [owner, file] of byScope) {
    const name = models?.files[owner] ?? ''
    try {
      checkSameContract(contract, file.saved.contract)
    } catch (error) {
      throw inFile(name, error, '; all models of an agent are made with the same features')
    }
  }
  if (contract.featureSet === 'flow-summary' && settings.learning !== null) {
    throw new UsageError(
      `${model ?? Object.values(models?.files ?? {})[0]}: uses flow-summary rows, and such models cannot learn online; remove learning`,
    )
  }
  if (contract.featureSet === 'rows') {
    throw inFile(
      model ?? '',
      new ContractMismatchError('was trained on feature rows, not on captures; train on captures'),
    )
  }
  const bytes = [base, ...byScope.values()].reduce((sum, file) => sum + (file?.sizeBytes ?? 0), 0)
  const learning =
    models === null ? null : { models, online: settings.learning, dimension: contract.dimension }
  return {
    base,
    byScope,
    contract,
    memory: planMemory(
      settings.memoryLimitBytes,
      bytes,
      settings.outputs,
      learning,
      keptPacketsBytes(settings) +
        fleetModelBytes(settings.outputs) +
        (settings.peerNames === null ? 0 : PEER_NAMES_BYTES),
    ),
  }
}

/** As `oddflow train` makes them, with the feature set, p, the cut and the idle timeout given. */
function contractOf({ set, packetsPerFlow, cutSeconds, idleSeconds }: FeatureSettings): FlowContract {
  const idleTimeoutMicros = Math.round(1e6 * idleSeconds)
  const cutMicros = cutSeconds === null ? null : Math.round(1e6 * cutSeconds)
  if (set === 'flow-summary') {
    return flowSummaryContract({ idleTimeoutMicros, activeTimeoutMicros: cutMicros })
  }
  return {
    featureSet: 'iat-size',
    featureSetVersion: 1,
    dimension: featureDimension('iat-size', packetsPerFlow, 'split'),
    packetsPerFlow,
    sizeMeasure: 'frame',
    flowKey: 'bidirectional-5-tuple',
    idleTimeoutMicros,
    activeTimeoutMicros: null,
    truncation: { mode: 'split', durationMicros: cutMicros ?? Number.MAX_SAFE_INTEGER },
    minimumPackets: 2,
    scaler: 'none',
    iatUnit: 'seconds',
  }
}

export interface OpenedModels {
  readonly decider: Decider
  readonly explain: AlertExplainer
  /** Replaces the given models by models that were read again. Throws UsageError if they do not fit. */
  readonly replaceGiven: (next: GivenModels) => void
  /** null where nothing is made here. */
  readonly room: ModelManager | null
  readonly forAnnouncements: Pick<AgentVerdict, 'model' | 'threshold'>
  /** The devices as given; if these are lost, the devices with models. */
  readonly known: KnownDevices
}

export async function openModels(
  settings: Settings,
  { files, log, stop, faults }: OpeningEnvironment,
  given: GivenModels,
  thresholds: Thresholds,
  known: KnownDevices,
  answers: Pick<AnswerBook, 'attackRows'>,
): Promise<OpenedModels> {
  const { base, byScope, contract } = given
  const { models, state, devices } = settings
  const forAnnouncements = announced(base)
  const announceBy = (next: GivenModels): void => void Object.assign(forAnnouncements, announced(next.base))
  if (models === null || state === null || devices === null) {
    const one = openOneModel(settings, base as ModelFile, thresholds)
    const replaceGiven = (next: GivenModels): void => {
      one.replace(next.base as ModelFile)
      announceBy(next)
    }
    return { ...one, replaceGiven, room: null, forAnnouncements, known }
  }
  const store = new ModelStore(files, state, (owner) => scopeFileName(models.per, owner))
  const found =
    known.from === 'lost' && models.per === 'device'
      ? { ...known, devices: await devicesOfModels(store, faults) }
      : known
  const scopeOf = createScopeOf({ per: models.per, groups: new Map(Object.entries(models.groups)) })
  const room = await openModelManager(
    {
      contract,
      scopeOf,
      attackRows: (owner) => answers.attackRows((device) => scopeOf(device) === owner),
      localNetworks: settings.localNetworks,
      devices,
      budget: settings.budget,
      limits: models,
      base,
      given: byScope,
      store,
      train: (job) => trainInChild(job, models.trainWithinSeconds, stop),
      learning: settings.learning,
      learnOn: (job) => learnInChild(job, models.trainWithinSeconds, stop),
      seed: 1,
      oddflowVersion: VERSION,
      log,
      faults,
    },
    found.devices,
  )
  const replaceGiven = (next: GivenModels): void => {
    room.replaceGiven(next.base, next.byScope)
    announceBy(next)
  }
  const { decider } = room
  return { decider, explain: decider.explain, replaceGiven, room, forAnnouncements, known: found }
}

function announced(base: ModelFile | null): Pick<AgentVerdict, 'model' | 'threshold'> {
  return { model: base?.sha256.slice(0, 16) ?? null, threshold: base?.saved.threshold.value ?? null }
}

/** One model for all, which a later state of its file can replace while flows are open. */
function openOneModel(
  { budget, localNetworks }: Settings,
  first: ModelFile,
  thresholds: Thresholds,
): { decider: Decider; explain: AlertExplainer; replace: (next: ModelFile) => void } {
  const row = new Float64Array(first.saved.contract.dimension)
  const judging = ({ saved, sha256 }: ModelFile, by: Thresholds) => {
    const id = sha256.slice(0, 16)
    const decider = createModelDecider(saved, id, by, localNetworks, row)
    return { id, decider, explain: createAlertExplainer(saved) }
  }
  let now = judging(first, thresholds)
  /** Alerts by it may wait for their like. */
  let before = now
  const of = (id: string | null) => (id === before.id ? before : now)
  return {
    decider: {
      contract: now.decider.contract,
      row,
      decide: (record) => now.decider.decide(record),
      peek: (record) => now.decider.peek(record),
      modelOf: (device) => now.decider.modelOf(device),
      rarity: (decision) => of(decision.model).decider.rarity(decision),
    },
    explain: (alert) => of(alert.model).explain(alert),
    replace(next) {
      if (budget !== null) {
        throw new UsageError(
          'budget: its threshold belongs to the previous model; restart the agent to use the new one',
        )
      }
      before = now
      now = judging(next, modelThresholds(next.saved))
    },
  }
}

interface ReloadOptions {
  readonly settings: Settings
  /** As they were read at the start. */
  readonly given: GivenModels
  readonly environment: Pick<AgentEnvironment, 'readAgain' | 'log'>
  readonly path: Pick<AlertPipeline, 'suppressBy'>
  /** Throws UsageError where the models can only be taken over by a restart. */
  readonly replaceGiven: (next: GivenModels) => void
}

/** Makes the SIGHUP handler: applies settings that may change at run time, and reports those that need a restart. */
export function createReload(options: ReloadOptions): () => Promise<void> {
  const { settings, path } = options
  const { readAgain, log } = options.environment
  let { given } = options

  const readSettings = async (): Promise<void> => {
    if (readAgain === null) return
    const next = await readAgain()
    path.suppressBy(createSuppression(next.suppress))
    log.info(`the configuration was reloaded: ${next.suppress.length} suppression rules`)
    const changed = (Object.keys(settings) as (keyof Settings)[]).filter(
      (key) => key !== 'suppress' && JSON.stringify(settings[key]) !== JSON.stringify(next[key]),
    )
    if (changed.length > 0) log.warn(`${changed.join(', ')}: the change takes effect after a restart`)
  }
  /** Files of the names that the agent was started with. */
  const readGiven = (): void => {
    const next = readModels(settings)
    const changed = changedModels(given, next)
    if (changed.length === 0) return
    checkSameContract(given.contract, next.contract)
    if (next.memory.flowBytes < given.memory.flowBytes) {
      throw new Error(
        `${changed.join(', ')}: the changed model takes memory that open flows have; restart the agent`,
      )
    }
    options.replaceGiven(next)
    given = next
    log.info(`the changed model was read: ${changed.join(', ')}`)
  }
  return async () => {
    const kept = (what: string) => (error: unknown) =>
      log.warn(`${error instanceof Error ? error.message : error}; the old ${what} stays active`)
    await readSettings().catch(kept('configuration'))
    await Promise.resolve().then(readGiven).catch(kept('model'))
  }
}

/** Names and first digits of the models that differ. */
function changedModels(before: GivenModels, next: GivenModels): string[] {
  const all = ({ base, byScope }: GivenModels) => [
    ...(base === null ? [] : [['', base] as const]),
    ...byScope,
  ]
  const old = new Map(all(before).map(([owner, { sha256 }]) => [owner, sha256]))
  return all(next)
    .filter(([owner, { sha256 }]) => old.get(owner) !== sha256)
    .map(([owner, { sha256 }]) => `${owner === '' ? '' : `${owner} `}${sha256.slice(0, 16)}`)
}

/**
 * `oddflow-agent models`: lists the models that an agent made and rolls them back, by the control socket of a running agent, else in the
 * state folder.
 */
import { OddFlowError } from '@oddflow/core'
import { askAgent } from '../devices/control-socket.js'
import type { Device } from '../devices/device.js'
import { lookAtKnownDevices } from '../devices/device-table.js'
import { nodeFileSystem } from '../files/file-system.js'
import { type Log, standardErrorLog } from '../log.js'
import { type ModelsPer, scopeFileName } from '../models/model-scopes.js'
import { type KeptModel, type ModelRecord, ModelStore } from '../models/model-store.js'
import { promisedShare, type ScopeReport } from '../models/progress.js'
import { damageText, promiseText, proofText } from '../page/texts.js'
import {
  askOrAct,
  keyOf,
  type ListFormat,
  printList,
  printResults,
  type StateOptions,
  stateOf,
} from './state-of.js'

/** The models of a state folder without a running agent. */
export async function keptReports(
  state: string,
  devices: readonly Device[],
  log: Pick<Log, 'warn'> = standardErrorLog,
): Promise<ScopeReport[]> {
  const { found, lost } = await keptModels(state, log)
  const isLearning = (owner: string): boolean =>
    // the devices of a group are in the configuration only; rows prove nothing, because watched devices have some too
    (devices.some(({ key }) => key === owner) ? devices.filter(({ key }) => key === owner) : devices).some(
      (device) => device.state === 'learning',
    )
  return [...found.map(({ kept }) => reportOf(kept, isLearning(kept.record.owner))), ...lost.map(reportLost)]
}

export async function listModels({
  format,
  ...options
}: StateOptions & { readonly format: ListFormat }): Promise<void> {
  const state = await stateOf(options)
  const answer = (await askAgent(state, '/models')) as { owners: ScopeReport[] } | null
  const kept = async (): Promise<ScopeReport[]> =>
    keptReports(state, await lookAtKnownDevices(nodeFileSystem, state, standardErrorLog))
  const owners = answer?.owners ?? (await kept())
  owners.sort((a, b) => (a.owner < b.owner ? -1 : 1))
  printList(format, owners, {
    owner: ({ owner }) => owner,
    state: (of) => (of.damage === null ? of.state : `${of.state}; ${damageText(of)}`),
    model: ({ model }) => model ?? '-',
    before: ({ previous }) => previous ?? '-',
    'of rows': ({ modelRows }) => String(modelRows ?? '-'),
    unsettled: ({ unsettledShare }) => percentText(unsettledShare),
    'false alarms': (of) => promiseText(of) || '-',
    proof: (of) => proofText(of) || '-',
    learning: ({ rows, rowsNeeded }) => (rowsNeeded === null ? '-' : `${rows} rows, ${rowsNeeded} needed`),
    flows: ({ flows }) => String(flows),
    'last training': ({ refused }) =>
      refused === null
        ? '-'
        : `refused: ${percentText(refused.unsettledShare)} of ${refused.rows} rows unsettled`,
  })
}

function percentText(share: number | null): string {
  return share === null ? '-' : `${(100 * share).toFixed(1)} %`
}

export async function rollbackModels(given: readonly string[], options: StateOptions): Promise<void> {
  const state = await stateOf(options)
  const names = given.map(keyOf)
  const ask = async () =>
    (await askAgent(state, '/models', { rollback: names })) as { results: RollbackResult[] } | null
  const { results } = await askOrAct(state, ask, async () => ({ results: await rollbackKept(state, names) }))
  printResults(results, ({ owner }) => `${owner}: the previous model is active`)
}

interface RollbackResult {
  readonly owner: string
  /** null if it was done. */
  readonly refused: string | null
}

interface Kept {
  readonly store: ModelStore
  readonly kept: KeptModel
}

/** Models of all kinds of owners. */
async function keptModels(
  state: string,
  log: Pick<Log, 'warn'>,
): Promise<{ readonly found: readonly Kept[]; readonly lost: readonly ModelRecord[] }> {
  const found: Kept[] = []
  const lost: ModelRecord[] = []
  // each kind reads all records
  const told = new Set<string>()
  const once = {
    warn(message: string): void {
      if (!told.has(message)) log.warn(message)
      told.add(message)
    },
  }
  for (const per of ['device', 'group', 'all'] satisfies ModelsPer[]) {
    const store = new ModelStore(nodeFileSystem, state, (owner) => scopeFileName(per, owner))
    const all = await store.lookAtAll(once)
    found.push(...all.models.map((kept) => ({ store, kept })))
    lost.push(...all.lost)
  }
  return { found, lost }
}

async function rollbackKept(state: string, names: readonly string[]): Promise<RollbackResult[]> {
  const { found } = await keptModels(state, standardErrorLog)
  const results: RollbackResult[] = []
  for (const owner of names) {
    const store = found.find(({ kept }) => kept.record.owner === owner)?.store
    const none = `${owner} has no ${store === undefined ? 'undamaged model that was made here' : 'previous model'}`
    try {
      const back = (await store?.rollback(owner)) ?? null
      results.push({ owner, refused: back === null ? none : null })
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      results.push({ owner, refused: error.message })
    }
  }
  return results
}

/** The model is lost: the next start learns it again. */
function reportLost({ owner }: ModelRecord): ScopeReport {
  return {
    owner,
    state: 'learning',
    model: null,
    previous: null,
    rows: 0,
    rowsNeeded: null,
    modelRows: null,
    falseAlarmShare: null,
    keepsPromise: null,
    proving: null,
    refused: null,
    damage: 'lost',
    flows: 0,
    unsettledShare: null,
  }
}

/** @param isLearning - then only a running agent knows whether the model keeps its promise. */
function reportOf({ record, saved, isPrevious }: KeptModel, isLearning: boolean): ScopeReport {
  const { source, sha256, previous, rows, unsettledShare } = record
  const { guaranteed } = saved.threshold.calibration
  return {
    ...reportLost(record),
    state: source,
    model: sha256.slice(0, 16),
    previous: previous?.slice(0, 16) ?? null,
    rows,
    modelRows: rows,
    falseAlarmShare: promisedShare(saved.threshold),
    keepsPromise: guaranteed && isLearning ? null : guaranteed,
    damage: isPrevious ? 'previous' : null,
    unsettledShare,
  }
}

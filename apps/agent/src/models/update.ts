/**
 * An update of a model from rows of watched devices: a round of the online updater of @oddflow/online (docs/learning-on.md).
 *
 * The updater keeps one row in five for the threshold and learns the normal ones of the others. Its guard compares with the trained
 * model, which stays in the file, and undoes a round that makes too many novel rows normal. A row counts half after HALF_LIFE_ROWS
 * more. The same file and rows give the same bytes.
 */
import { createHash } from 'node:crypto'
import { matrixOf } from '@oddflow/core'
import { decodeModelFile, encodeModelFile } from '@oddflow/detectors'
import {
  createLearningBudget,
  createOnlineUpdater,
  type LearningOptions,
  learnedStateOf,
} from '@oddflow/online'
import type { LearningSettings } from '../config/settings.js'
import type { ModelManagerOptions } from './model-manager.js'
import type { ModelScope, ScopeRegistry } from './model-scopes.js'
import type { ModelRecord } from './model-store.js'
import type { ShadowCounts } from './progress.js'
import { checkAttacks, withoutRows } from './train.js'

interface OnlineShape extends Pick<LearningSettings, 'everyRows' | 'rowsPerHour'> {
  readonly dimension: number
  readonly maximumDevices: number
}

/**
 * Rows of watched devices since the last update of their scope's model, at most `everyRows`. A device gives at most `rowsPerHour` rows,
 * so that a busy device does not dominate. Rows beyond either limit are counted and dropped. A restart loses the rows.
 */
export function createOnlineRows({ dimension, everyRows, rowsPerHour, maximumDevices }: OnlineShape) {
  const budget = createLearningBudget(rowsPerHour, maximumDevices)
  const shown = new Map<string, { readonly rows: Float64Array; count: number }>()
  let crowded = 0
  return {
    /** Adds or drops a copy of D numbers. */
    add(owner: string, device: string, row: Float64Array, atMicros: number): void {
      let of = shown.get(owner)
      if (of !== undefined && of.count >= everyRows) {
        crowded++
        return
      }
      if (!budget.take(device, atMicros)) return
      if (of === undefined) {
        of = { rows: new Float64Array(everyRows * dimension), count: 0 }
        shown.set(owner, of)
      }
      of.rows.set(row, dimension * of.count++)
    },
    isFull: (owner: string): boolean => shown.get(owner)?.count === everyRows,
    /** Removes the n × D rows of a scope. */
    take(owner: string): Float64Array {
      const of = shown.get(owner)
      if (of === undefined) return new Float64Array(0)
      const rows = of.rows.slice(0, dimension * of.count)
      of.count = 0
      return rows
    },
    drop: (owner: string): void => void shown.delete(owner),
    /** Rows beyond `rowsPerHour`. */
    get overBudget() {
      return budget.refused
    },
    /** Rows beyond `everyRows`. */
    get crowded() {
      return crowded
    },
  }
}

type ScopeUpdaterOptions = Pick<
  ModelManagerOptions,
  'contract' | 'devices' | 'store' | 'learnOn' | 'attackRows' | 'seed' | 'log'
> & { readonly learning: LearningSettings; readonly registry: ScopeRegistry }

export type OnlineReport = ReturnType<ReturnType<typeof createScopeUpdater>['report']>

/**
 * Updates scopes: a process makes the model, which is written to disk, then used. The trained model stays on disk for a rollback. A round
 * that the guard undid, or that failed, changes nothing.
 */
export function createScopeUpdater(options: ScopeUpdaterOptions) {
  const { registry, store, learning, log } = options
  const { dimension } = options.contract
  const online = createOnlineRows({ ...learning, dimension, maximumDevices: options.devices.maximum })
  const taught = { learnt: 0, heldBack: 0, disregarded: 0, refused: 0 }
  const rounds = { accepted: 0, refused: 0, failed: 0 }
  return {
    rows: online,
    /** Never rejects. */
    async teach(of: ModelScope): Promise<void> {
      const { record } = of
      const attacks = options.attackRows(of.name)
      const rows = withoutRows(online.take(of.name), dimension, attacks)
      if (record === null || rows.length === 0) return
      try {
        const file = await store.readFile(record)
        const { shadowAgrees } = learning
        const learnt = await options.learnOn({ file, rows, shadowAgrees, seed: options.seed })
        // checks what the process sent
        const saved = learnt.refused ? null : decodeModelFile(learnt.file, learnedStateOf)
        // retrained or forgotten meanwhile
        if (of.record !== record || registry.get(of.name) !== of) return
        if (saved !== null) checkAttacks(saved, attacks)
        if (saved === null) {
          rounds.refused++
          taught.refused += rows.length / dimension
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
        registry.putInForce(of, { saved, sha256: next.sha256 }, next)
        rounds.accepted++
        for (const key of ['learnt', 'heldBack', 'disregarded'] as const) taught[key] += learnt[key]
      } catch (error) {
        rounds.failed++
        log.warn(`${of.name}: no update was made: ${error instanceof Error ? error.message : error}`)
      }
    },
    report: (shadow: ShadowCounts) => ({
      /** Of watched devices, by fate; `refused` were in rounds that the guard undid. */
      rows: { ...taught, overBudget: online.overBudget, crowded: online.crowded },
      rounds: { ...rounds },
      shadow,
    }),
  }
}

export interface LearningJob {
  /** A model file, trained or updated. */
  readonly file: Uint8Array
  /** n × D, row-major, in the order of arrival. */
  readonly rows: Float64Array
  /** Learn only rows that the trained model finds normal too. */
  readonly shadowAgrees: boolean
  readonly seed: number
}

export interface LearntRows {
  /** The updated model file; not to be used if the guard refused. */
  readonly file: Uint8Array
  readonly learnt: number
  /** Kept for the threshold. */
  readonly heldBack: number
  /** Not learned: novel to the model or, with `shadowAgrees`, to the trained one. */
  readonly disregarded: number
  /** Whether the guard undid the round. */
  readonly refused: boolean
}

const HALF_LIFE_ROWS = 1000
const RESERVOIR_ROWS = 500

/** Throws ArgumentError for a model that cannot be updated. */
export function learnOn({ file, rows, shadowAgrees, seed }: LearningJob): LearntRows {
  const saved = decodeModelFile(file)
  const { dimension } = saved.detector.fitReport
  const learning: LearningOptions = {
    roundRows: rows.length / dimension,
    reservoirRows: RESERVOIR_ROWS,
    forgetting: { kind: 'exponential', halfLifeRows: HALF_LIFE_ROWS },
    novel: 'disregard',
    sketch: { kind: 'keep' },
    guard: { maximumNoveltyLoss: 0.02, maximumFalsePositiveRise: 0.1, shadowAgrees },
  }
  const learner = createOnlineUpdater(saved, saved.learned === undefined ? { learning, seed } : { learning })
  const report = learner.arrive(matrixOf(rows.length / dimension, dimension, rows))
  return {
    file: encodeModelFile(learner.saved()),
    learnt: report.learnt,
    heldBack: report.heldBack,
    disregarded: report.disregarded,
    refused: report.rounds.some(({ refused }) => refused),
  }
}

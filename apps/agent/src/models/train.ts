/**
 * Rows of a scope → a model, and whether the device had settled. Runs in a separate process (training-child.ts).
 *
 * The model is that of `oddflow train` over all rows: for flow summaries an ensemble, whose threshold comes from stretches of time that
 * are held out in turn; for first packets `oc-kjl-qs`, which can be updated, and whose threshold comes from rows kept from the fit. To
 * test whether the device had settled, a model of the earlier half judges the later half: `unsettledShare` is the excess of novel rows.
 */
import { createHash } from 'node:crypto'
import { DataError, type FlowContract, matrixOf, type OnePacketRule, plural } from '@oddflow/core'
import {
  DETECTORS,
  type DetectorOptions,
  decodeModelFile,
  encodeModelFile,
  novelRows,
  rowsNeeded,
  type SavedModel,
} from '@oddflow/detectors'
import { trainModel } from '@oddflow/program'
import type { ModelManagerOptions } from './model-manager.js'
import { type Learning, type ModelScope, noteOf, type ScopeRegistry, setNote } from './model-scopes.js'
import type { ModelRecord } from './model-store.js'
import type { LearningProgress } from './progress.js'

export interface TrainingJob {
  /** n × D, row-major, in the order of arrival. */
  readonly rows: Float64Array
  readonly contract: FlowContract
  readonly onePacketRule: OnePacketRule | null
  readonly falsePositiveRate: number
  readonly seed: number
  readonly oddflowVersion: string
}

export interface TrainedRows {
  /** A model file. */
  readonly file: Uint8Array
  /** n. */
  readonly rows: number
  /** Share of the later half that a model of the earlier half flags beyond its promise; 0 with fewer than LEAST_ROWS. */
  readonly unsettledShare: number
}

/** For flow summaries. */
const DETECTOR = { detector: 'ensemble' } as const
/** For first packets. With positive pairs a device with repeated rows (heartbeats) gets a model too. */
const FIRST_PACKETS_DETECTOR = {
  detector: 'oc-kjl-qs',
  bandwidthQuantile: 0.3,
  quantileCompat: 'positive-pairs',
} as const
/** Stretches of time, each held out as a whole: rows of the same minute support each other. */
const STRETCHES = 8
/** Rows kept from the fit for the threshold: a fifth, or up to half if its promise needs that. */
const LEAST_SHARE = 0.2
const MOST_SHARE = 0.5
/** Minimum for a fit and a threshold. */
export const FEWEST_ROWS = 10
/** Each half is enough for a fit and a threshold. */
export const LEAST_ROWS = 2 * FEWEST_ROWS

type RowShape = Pick<FlowContract, 'featureSet'>

function detectorOf({ featureSet }: RowShape): typeof DETECTOR | typeof FIRST_PACKETS_DETECTOR {
  return featureSet === 'flow-summary' ? DETECTOR : FIRST_PACKETS_DETECTOR
}

/** The fewest rows for a threshold that keeps the rate. If rows are held out in turn, 99 % of them count, otherwise half. */
export function rowsToLearn(contract: RowShape, falsePositiveRate: number): number {
  const counted = rowsNeeded(falsePositiveRate)
  return DETECTORS[detectorOf(contract).detector].holdsRowsOut ? Math.ceil((100 * counted) / 99) : 2 * counted
}

/** Throws DataError for rows that cannot be learned. */
export function trainRows(job: TrainingJob): TrainedRows {
  const { dimension } = job.contract
  const count = job.rows.length / dimension
  const model = modelOf(job, job.rows)
  return {
    file: encodeModelFile(model),
    rows: count,
    unsettledShare: count < LEAST_ROWS ? 0 : unsettledShareOf(job, Math.floor(count / 2) * dimension),
  }
}

/** @param half - where the later half begins in `rows`. */
function unsettledShareOf(job: TrainingJob, half: number): number {
  const earlier = modelOf(job, job.rows.subarray(0, half))
  const { dimension } = job.contract
  const later = job.rows.slice(half)
  const verdicts = novelRows(earlier, matrixOf(later.length / dimension, dimension, later))
  const novelShare = verdicts.filter((novel) => novel).length / verdicts.length
  return Math.max(0, novelShare - earlier.threshold.calibration.bound)
}

function modelOf(job: TrainingJob, rows: Float64Array): SavedModel {
  const { contract, onePacketRule, falsePositiveRate, seed, oddflowVersion } = job
  const count = rows.length / contract.dimension
  const detector = detectorOf(contract)
  const { holdsRowsOut } = DETECTORS[detector.detector]
  return trainModel(
    {
      rows: matrixOf(count, contract.dimension, rows.slice()),
      inputOfRow: Uint32Array.from({ length: count }, (_, row) =>
        holdsRowsOut ? Math.floor((STRETCHES * row) / count) : 0,
      ),
      contract,
      onePacketRule,
    },
    {
      detector: { ...detector, scaler: contract.scaler } as DetectorOptions,
      falsePositiveRate,
      calibrationShare: Math.min(MOST_SHARE, Math.max(LEAST_SHARE, rowsNeeded(falsePositiveRate) / count)),
      seed,
      oddflowVersion,
    },
  ).saved
}

type ScopeTrainerOptions = Pick<
  ModelManagerOptions,
  'contract' | 'devices' | 'store' | 'train' | 'attackRows' | 'seed' | 'oddflowVersion' | 'log'
> & {
  readonly registry: ScopeRegistry
  readonly progress: LearningProgress
  /** A new model is active. */
  readonly onTrained: (of: ModelScope) => void
}

/**
 * Trains scopes: a process makes the model, which is written to disk, then used. An unsettled model is refused and retried with a quarter
 * more flows, a failed training with twice the flows. After `judgeHours` no model is refused as unsettled.
 */
export function createScopeTrainer(options: ScopeTrainerOptions) {
  const { contract, registry, progress, store, log, seed, oddflowVersion } = options
  const { stableShare } = options.devices
  const counts = { accepted: 0, unsettled: 0, failed: 0 }
  const failures = new Map<string, string>()
  /** Writes a model, then uses it. Resolves to false if the scope was forgotten or relearned meanwhile. */
  const activate = async (
    of: ModelScope,
    learning: Learning,
    saved: SavedModel,
    { file, rows, unsettledShare }: TrainedRows,
  ): Promise<boolean> => {
    const record: ModelRecord = {
      owner: of.name,
      sha256: createHash('sha256').update(file).digest('hex'),
      previous: of.record?.sha256 ?? null,
      source: 'trained',
      pinned: false,
      rows,
      unsettledShare,
      trainedAtMicros: progress.latestMicros,
    }
    await store.write(record, file)
    if (of.learning !== learning) return false
    setNote(learning, 'hasModel', 1)
    setNote(learning, 'provingFlows', 0)
    setNote(learning, 'provingNovel', 0)
    of.isBrokenTold = false
    registry.putInForce(of, { saved, sha256: record.sha256 }, record)
    return true
  }
  return {
    counts,
    /** Why the last training failed, by scope. */
    failures,
    /** Never rejects. */
    async train(of: ModelScope, learning: Learning): Promise<void> {
      const { reservoir } = learning
      const attacks = options.attackRows(of.name)
      const flows = noteOf(learning, 'flows')
      const isJudgement = progress.isOverdue(learning)
      const falsePositiveRate = progress.rateFor(learning)
      const again = (factor: number): void => {
        setNote(learning, 'nextFlows', Math.ceil(factor * flows))
        learning.isDirty = true
      }
      try {
        const trained = await options.train({
          rows: withoutRows(reservoir.rows().data, contract.dimension, attacks),
          contract,
          // flow summaries have rows for flows of one packet
          onePacketRule: contract.minimumPackets === 1 ? null : reservoir.onePacketRule(),
          falsePositiveRate,
          seed,
          oddflowVersion,
        })
        // checks what the process sent
        const saved = decodeModelFile(trained.file)
        failures.delete(of.name)
        // forgotten or relearned meanwhile
        if (of.learning !== learning) return
        checkAttacks(saved, attacks)
        const { rows, unsettledShare } = trained
        if (unsettledShare > stableShare && !isJudgement) {
          counts.unsettled++
          again(1.25)
          // once until a training is accepted
          if (of.refused === null) log.warn(refusalText(of, trained, stableShare))
          of.refused = { rows, unsettledShare }
          return
        }
        of.refused = null
        if (!(await activate(of, learning, saved, trained))) return
        if (isJudgement) setNote(learning, 'judged', 1)
        again(1)
        options.onTrained(of)
        counts.accepted++
        log.info(
          `${of.name}: a model of ${rows} rows is active${shortfall(saved, contract, progress.rowsFor(learning))}`,
        )
      } catch (error) {
        counts.failed++
        if (isJudgement) setNote(learning, 'judged', 1)
        again(2)
        const failure = `${of.name}: no model was made: ${error instanceof Error ? error.message : error}`
        if (registry.get(of.name) === of) failures.set(of.name, failure)
        log.warn(`${failure}; trying again`)
      }
    },
  }
}

/** n × D rows without the rows in `left`. */
export function withoutRows(
  rows: Float64Array,
  dimension: number,
  left: readonly Float64Array[],
): Float64Array {
  if (left.length === 0) return rows
  const names = new Set(left.map(String))
  const kept: number[] = []
  for (let at = 0; at < rows.length; at += dimension) {
    const row = rows.subarray(at, at + dimension)
    if (!names.has(String(row))) kept.push(...row)
  }
  return Float64Array.from(kept)
}

/** n × D numbers, row after row. */
export function joinRows(rows: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(rows.reduce((sum, row) => sum + row.length, 0))
  let at = 0
  for (const row of rows) {
    all.set(row, at)
    at += row.length
  }
  return all
}

/** Throws DataError for a model that finds a row of an attack normal. */
export function checkAttacks(saved: SavedModel, attacks: readonly Float64Array[]): void {
  const { dimension } = saved.detector.fitReport
  const rows = attacks.filter(({ length }) => length === dimension)
  if (rows.length === 0) return
  const verdicts = novelRows(saved, matrixOf(rows.length, dimension, joinRows(rows)))
  const novel = verdicts.filter((each) => each).length
  if (novel < rows.length)
    throw new DataError(
      `it finds ${rows.length - novel} of ${plural(rows.length, 'flow')} normal that were answered as an attack`,
    )
}

function refusalText(
  { name, model }: ModelScope,
  { rows, unsettledShare }: TrainedRows,
  stableShare: number,
): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const meanwhile = model === null ? 'no model yet' : 'the previous model stays active'
  return `${name}: a model of ${rows} rows is refused as unsettled: ${percent(unsettledShare)} of the later half differ from the earlier half, ${percent(stableShare)} are allowed; ${meanwhile}; retrying with more flows`
}

/** The promise of a model that does not keep the requested rate, and what to do; else empty. */
function shortfall({ threshold }: SavedModel, contract: FlowContract, rowsFor: number): string {
  const { guaranteed, bound } = threshold.calibration
  if (guaranteed) return ''
  const needed = rowsToLearn(contract, threshold.falsePositiveRate)
  const remedy =
    needed > rowsFor
      ? `set models.rowsPerDevice to ${needed} to keep the limit`
      : `${needed} rows are needed to keep the limit, and the agent collects more`
  return `; its threshold lets up to ${(100 * bound).toPrecision(2)} % of normal flows be flagged; ${remedy}`
}

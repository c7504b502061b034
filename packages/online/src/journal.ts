/**
 * Journal: every step of an updater as a line of JSON, for replay, checks and undo.
 *
 * An updater depends on nothing else, so the same model and lines give the same bytes: `replayJournal` throws if a
 * checksum or count differs. To undo steps, replay fewer lines. The 32-bit checksum detects accidents, not forgery. A
 * journal grows with its rows; for runs of months, start a new one from a saved model.
 */
import { FormatError, type Matrix, matrixFromRows, parseStrictJson } from '@oddflow/core'
import { encodeModelFile, type SavedModel } from '@oddflow/detectors'
import { statedChecksum } from '@oddflow/detectors/parts'
import { type ArrivalCounts, NONE_COUNTED } from './learn-arrivals.js'
import type { LearningOptions } from './learned-state.js'
import type { RoundReport } from './learning-round.js'
import {
  createOnlineUpdater,
  type OnlineUpdater,
  type OnlineUpdaterOptions,
  type StepReport,
} from './online-updater.js'

/** The first line of an update's journal. */
export interface JournalHead {
  readonly journal: 1
  /** The model file with which learning began. */
  readonly model: string
  readonly learning: LearningOptions
  readonly seed: number | null
  /** n lists of D numbers, or null. */
  readonly knownNovel: readonly (readonly number[])[] | null
}

/** One step of an update, as its journal keeps it. */
export interface JournalStep extends Omit<ArrivalCounts, 'novelToFrozen'> {
  /** From 1. */
  readonly step: number
  readonly action: 'arrive' | 'end-round'
  readonly assumeNormal: boolean
  readonly period: number | null
  readonly rows: readonly (readonly number[])[]
  readonly rounds: readonly RoundReport[]
  /** Checksum of the model file after the step's last round; null without a round. */
  readonly model: string | null
}

/** An updater that writes each step as a line (without its end), starting with the header. */
export interface JournallingUpdater {
  arrive(rows: Matrix, options?: { assumeNormal?: boolean; period?: number }): StepReport
  endRound(): RoundReport | null
  saved(): SavedModel
  readonly updater: OnlineUpdater
}

/** Training rows are refused, because a journal does not contain them. Errors as `createOnlineUpdater`. */
export function createJournallingUpdater(
  saved: SavedModel,
  options: Omit<OnlineUpdaterOptions, 'trainingRows' | 'knownNovel'> & { readonly knownNovel?: Matrix },
  write: (line: string) => void,
): JournallingUpdater {
  const updater = createOnlineUpdater(saved, options)
  const head: JournalHead = {
    journal: 1,
    model: checksumOf(saved),
    learning: options.learning ?? {},
    seed: options.seed ?? null,
    knownNovel: options.knownNovel === undefined ? null : listsOf(options.knownNovel),
  }
  write(JSON.stringify(head))
  let step = 0
  const line = (
    action: JournalStep['action'],
    given: Pick<JournalStep, 'assumeNormal' | 'period' | 'rows'>,
    { learnt, heldBack, held, disregarded, confirmed }: ArrivalCounts,
    rounds: readonly RoundReport[],
  ): void => {
    const entry: JournalStep = {
      step: ++step,
      action,
      ...given,
      ...{ learnt, heldBack, held, disregarded, confirmed },
      rounds,
      model: rounds.length === 0 ? null : checksumOf(updater.saved()),
    }
    write(JSON.stringify(entry))
  }
  return {
    updater,
    arrive(rows, given = {}) {
      const report = updater.arrive(rows, given)
      const { assumeNormal = false, period = null } = given
      line('arrive', { assumeNormal, period, rows: listsOf(rows) }, report, report.rounds)
      return report
    },
    endRound() {
      const round = updater.endRound()
      if (round !== null) {
        line('end-round', { assumeNormal: false, period: null, rows: [] }, NONE_COUNTED, [round])
      }
      return round
    },
    saved: () => updater.saved(),
  }
}

/**
 * The model after the first `steps` steps of a journal (default all), starting from its first model. Throws FormatError
 * for a malformed line, a missing step, fewer steps than requested, and if the model, a count or a checksum differs.
 */
export function replayJournal(
  saved: SavedModel,
  lines: Iterable<string>,
  steps: number = Number.POSITIVE_INFINITY,
): SavedModel {
  let updater: OnlineUpdater | null = null
  let number = 0
  let last = 0
  for (const text of lines) {
    number++
    if (text === '') continue
    const entry = parseLine(text, number)
    if (updater === null) {
      const head = checkHead(entry, number)
      if (head.model !== checksumOf(saved)) {
        fail(number, 'model', `begins with the model ${head.model}, not with this one (${checksumOf(saved)})`)
      }
      updater = createOnlineUpdater(saved, {
        learning: head.learning,
        ...(head.seed === null ? {} : { seed: head.seed }),
        ...(head.knownNovel === null ? {} : { knownNovel: matrixAt(head.knownNovel, number, 'knownNovel') }),
      })
      continue
    }
    const step = checkStep(entry, number)
    if (step.step !== last + 1) {
      fail(number, 'step', `expected step ${last + 1}, found ${step.step}: a line is missing or stands twice`)
    }
    if (step.step > steps) break
    last = step.step
    let rounds = 1
    if (step.action === 'arrive') {
      const report = updater.arrive(matrixAt(step.rows, number, 'rows'), {
        assumeNormal: step.assumeNormal,
        ...(step.period === null ? {} : { period: step.period }),
      })
      rounds = report.rounds.length
      for (const what of ['learnt', 'heldBack', 'held', 'disregarded', 'confirmed'] as const) {
        if (step[what] !== report[what]) {
          fail(number, what, `step ${step.step} has ${step[what]} rows, here there are ${report[what]}`)
        }
      }
    } else updater.endRound()
    if ((step.model === null) !== (rounds === 0)) {
      fail(number, 'model', `expected a checksum after a round and none elsewhere, found ${step.model}`)
    }
    if (step.model !== null && step.model !== checksumOf(updater.saved())) {
      fail(number, 'model', `step ${step.step} ended with the model ${step.model}, here with another`)
    }
  }
  if (updater === null) return fail(number, 'journal', 'expected a journal of version 1: it is empty')
  if (Number.isFinite(steps) && steps > last) {
    return fail(number, 'steps', `expected ${steps} steps or more, found ${last}`)
  }
  return last === 0 ? saved : updater.saved()
}

/** The checksum of the model file as eight hexadecimal digits. */
function checksumOf(saved: SavedModel): string {
  return statedChecksum(encodeModelFile(saved))
}

function listsOf({ rows, cols, data }: Matrix): number[][] {
  // JSON writes −0 as 0; the updater treats −0 as 0 too, so both agree
  return Array.from({ length: rows }, (_, i) => Array.from(data.subarray(i * cols, (i + 1) * cols)))
}

function parseLine(text: string, line: number): Record<string, unknown> {
  const { value } = parseStrictJson(text, (message) => fail(line, 'line', `the text ${message}`))
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    return fail(line, 'line', 'expected an object')
  }
  return value as Record<string, unknown>
}

function checkHead(entry: Record<string, unknown>, line: number): JournalHead {
  if (entry.journal !== 1) fail(line, 'journal', 'expected a journal of version 1: its head comes first')
  const { model, learning, seed, knownNovel } = entry
  if (typeof model !== 'string') fail(line, 'model', 'expected a checksum')
  if (learning === null || typeof learning !== 'object') fail(line, 'learning', 'expected options')
  if (seed !== null && typeof seed !== 'number') fail(line, 'seed', 'expected a number or null')
  if (knownNovel !== null && !Array.isArray(knownNovel)) fail(line, 'knownNovel', 'expected rows or null')
  return entry as unknown as JournalHead
}

function checkStep(entry: Record<string, unknown>, line: number): JournalStep {
  const { step, action, assumeNormal, period, rows, model } = entry
  if (!Number.isSafeInteger(step)) fail(line, 'step', 'expected a whole number')
  if (action !== 'arrive' && action !== 'end-round') fail(line, 'action', 'expected arrive or end-round')
  if (typeof assumeNormal !== 'boolean') fail(line, 'assumeNormal', 'expected true or false')
  if (period !== null && typeof period !== 'number') fail(line, 'period', 'expected a number or null')
  if (!Array.isArray(rows)) fail(line, 'rows', 'expected a list of rows')
  if (model !== null && typeof model !== 'string') fail(line, 'model', 'expected a checksum or null')
  return entry as unknown as JournalStep
}

function matrixAt(rows: readonly unknown[], line: number, field: string): Matrix {
  for (const row of rows) {
    if (!Array.isArray(row) || !row.every((value) => typeof value === 'number')) {
      fail(line, field, 'expected lists of numbers')
    }
    if ((row as unknown[]).length !== (rows[0] as unknown[]).length)
      fail(line, field, 'expected rows of one width')
  }
  return matrixFromRows(rows as readonly number[][])
}

function fail(line: number, field: string, message: string): never {
  throw new FormatError('journal', `line ${line}, ${field}: ${message}`, { field })
}

/** `oddflow update MODEL INPUT… -o MODEL`: a model learns on from more traffic. */
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { ArgumentError, ContractMismatchError, type Matrix, plural } from '@oddflow/core'
import {
  createJournallingLearner,
  createLearner,
  DEFAULT_GUARD,
  DEFAULT_LEARNING,
  encodeModelFile,
  type LearningOptions,
  type RoundReport,
  type SavedModel,
} from '@oddflow/detectors'
import {
  checkWritable,
  fileError,
  jsonLine,
  printable,
  readModel,
  UsageError,
  writeFileWhole,
} from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import { CAPTURE_FLAGS, type CaptureFlags, viewOfModel } from '../capture-flags.js'
import { warnOfBareRows } from '../input/bare-rows.js'
import { inputKindOfAll, refuseCaptureOptions } from '../input/input-kind.js'
import { readRowsUnder } from '../input/read-rows.js'
import { describePackets } from '../output/describe-verdicts.js'
import { note, warn } from '../output/messages.js'
import { checkModelOutput, tellingWriter } from '../output/model-output.js'
import {
  captureInputs,
  complaints,
  describeView,
  filterFrom,
  sumUnsupported,
} from '../pipeline/read-packets.js'
import { refuseNoRows, streamRows } from '../pipeline/stream-rows.js'

export interface UpdateCommandOptions extends CaptureFlags {
  readonly output: string
  readonly assumeNormal?: boolean
  readonly method?: string
  readonly roundRows?: number
  readonly reservoirRows?: number
  readonly halfLife?: number
  readonly window?: number
  readonly novel?: 'disregard' | 'hold' | 'learn'
  readonly confirm?: number
  readonly confirmRows?: number
  readonly maximumComponents?: number
  readonly sketch?: 'keep' | 'grow' | 'replace'
  readonly sketchRows?: number
  readonly reEstimateBandwidth?: boolean
  /** false: --no-guard. */
  readonly guard?: boolean
  readonly guardLifted?: number
  readonly guardMoved?: number
  readonly shadowAgrees?: boolean
  readonly knownNovel?: string
  readonly journal?: string
  readonly seed?: number
  readonly format: 'text' | 'json'
}

export async function update(
  modelPath: string,
  files: readonly string[],
  options: UpdateCommandOptions,
): Promise<void> {
  const kind = inputKindOfAll(files)
  if (kind === 'rows') refuseCaptureOptions({ ...options }, CAPTURE_FLAGS)
  const filter = filterFrom(options.filter)
  // a model may learn in its own place: it is read whole before it is written
  checkModelOutput(options.output, files)
  if (options.journal !== undefined) checkWritable(options.journal, [...files, modelPath, options.output])
  const saved = readModel(modelPath)
  const view = viewOfModel(options, saved.contract)
  const learning = learningFrom(options, saved)
  if (saved.learned !== undefined && options.seed !== undefined) {
    throw new UsageError('--seed: the model has learnt before and keeps the seed that it has')
  }
  if (saved.learned !== undefined && options.knownNovel !== undefined) {
    throw new UsageError('--known-novel: the model has learnt before and keeps the rows that it has')
  }
  const knownNovel = options.knownNovel === undefined ? null : readKnownNovel(options.knownNovel, saved)
  const given = {
    learning,
    ...(options.seed === undefined ? {} : { seed: options.seed }),
    ...(knownNovel === null ? {} : { knownNovel }),
  }
  const journal = options.journal === undefined ? null : openJournal(options.journal)
  const progress = createProgress()
  try {
    const learner = withFlags(() =>
      journal === null ? createLearner(saved, given) : createJournallingLearner(saved, given, journal.write),
    )
    const before = saved.learned?.counters
    const firstPeriod = (before?.lastPeriod ?? 0) + 1
    const rounds: RoundReport[] = []
    let novel = 0
    let novelToFrozen = 0
    const streamed = await streamRows(
      saved,
      captureInputs(files, options.continuous),
      { filter, reader: options.reader, flowMemoryBytes: options.flowMemory, view, progress },
      (rows: Matrix, input: number) => {
        const report = learner.arrive(rows, {
          assumeNormal: options.assumeNormal === true,
          period: firstPeriod + input,
        })
        for (const verdict of report.novel) novel += verdict
        novelToFrozen += report.novelToFrozen
        rounds.push(...report.rounds)
      },
    )
    const last = learner.endRound()
    if (last !== null) rounds.push(last)
    progress.stop()
    for (const line of streamed.reads.flatMap(complaints)) warn(line)
    refuseNoRows(files, streamed)
    warnOfBareRows(saved, kind)
    const updated = learner.saved()
    const bytes = encodeModelFile(updated)
    journal?.close()
    writeFileWhole(options.output, bytes)
    const after = updated.learned!.counters
    const since = (key: keyof typeof after): number => after[key] - (before?.[key] ?? 0)
    const summary = {
      model: options.output,
      bytes: bytes.length,
      rows: streamed.rows,
      withoutRow: streamed.withoutRow,
      novel,
      novelToFrozen,
      learnt: since('learnt'),
      heldBack: since('heldBack'),
      held: since('held'),
      confirmed: since('confirmed'),
      disregarded: since('disregarded'),
      refused: since('refused'),
      rounds: since('rounds'),
      refusedRounds: since('refusedRounds'),
      components: componentsOf(updated),
      componentsBefore: componentsOf(saved),
      landmarks: landmarksOf(updated),
      landmarksBefore: landmarksOf(saved),
      threshold: updated.threshold.value,
      thresholdBefore: saved.threshold.value,
    }
    const out = tellingWriter(options.output)
    if (options.format === 'json')
      out.line(
        jsonLine({ ...summary, unsupportedLinkTypes: sumUnsupported(streamed.reads), roundReports: rounds }),
      )
    else for (const line of describe(summary)) out.line(line)
    out.flush()
    if (summary.refusedRounds > 0) {
      warn(
        `the guard undid ${plural(summary.refusedRounds, 'round')} of ${plural(summary.refused, 'row')}: ${whyRefused(rounds, learning)}; look at what was fed, and see --guard-lifted, --guard-moved and --no-guard`,
      )
    }
    if (summary.learnt === 0) warn('nothing was learnt; see --assume-normal and --confirm')
    if (streamed.counters !== null) note(describePackets(streamed.counters, streamed.reads))
    const seen = describeView(streamed.reads)
    if (seen !== null) note(seen)
  } finally {
    journal?.close()
    progress.stop()
  }
}

function describe(s: {
  readonly model: string
  readonly bytes: number
  readonly rows: number
  readonly novel: number
  readonly novelToFrozen: number
  readonly learnt: number
  readonly heldBack: number
  readonly held: number
  readonly confirmed: number
  readonly disregarded: number
  readonly refused: number
  readonly rounds: number
  readonly components: number
  readonly componentsBefore: number
  readonly landmarks: number
  readonly landmarksBefore: number
  readonly threshold: number
  readonly thresholdBefore: number
}): string[] {
  const lines = [
    `${printable(s.model)}: ${s.bytes} bytes`,
    `  rows        ${s.rows}: ${s.novel} novel as they came, ${s.novelToFrozen} to the model as it was trained`,
    `  learnt      ${s.learnt} in ${plural(s.rounds, 'round')}; ${s.heldBack} kept for the threshold, ${s.held} held, ${s.confirmed} confirmed, ${s.disregarded} disregarded, ${s.refused} refused`,
    `  mixture     ${s.componentsBefore} → ${plural(s.components, 'Gaussian')}`,
  ]
  if (s.landmarks > 0) lines.push(`  embedding   ${s.landmarksBefore} → ${plural(s.landmarks, 'landmark')}`)
  lines.push(`  threshold   ${s.thresholdBefore.toPrecision(8)} → ${s.threshold.toPrecision(8)}`)
  return lines
}

function whyRefused(rounds: readonly RoundReport[], { guard }: LearningOptions): string {
  const refused = rounds.filter((round) => round.refused)
  const lifted = Math.max(...refused.map((round) => round.lifted))
  const moved = Math.max(...refused.map((round) => round.moved))
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  return lifted > (guard?.lifted ?? 1)
    ? `up to ${percent(lifted)} of the rows that must stay novel would pass for normal`
    : `up to ${percent(moved)} of the rows known to be normal would pass for novel`
}

function componentsOf({ detector }: SavedModel): number {
  return 'mixture' in detector ? detector.mixture.weights.length : 0
}

function landmarksOf({ detector }: SavedModel): number {
  return 'embedding' in detector ? detector.embedding.landmarks.rows : 0
}

/** Only what was given, over what the model learnt with before. Throws UsageError for flags that do not go together. */
function learningFrom(options: UpdateCommandOptions, saved: SavedModel): LearningOptions {
  const { assumeNormal, novel, confirm, halfLife, window, sketch, sketchRows } = options
  if (halfLife !== undefined && window !== undefined) {
    throw new UsageError('--half-life and --window: rows are forgotten in one way or the other')
  }
  if (assumeNormal === true && (novel !== undefined || confirm !== undefined)) {
    throw new UsageError(
      `${novel === undefined ? '--confirm' : '--novel'}: with --assume-normal no row is novel`,
    )
  }
  if (confirm !== undefined && novel !== undefined && novel !== 'hold') {
    throw new UsageError(`--confirm: only rows on hold are confirmed, and --novel is ${novel}`)
  }
  if (options.confirmRows !== undefined && confirm === undefined) {
    throw new UsageError('--confirm-rows: needs --confirm')
  }
  if (sketch === 'keep' && (sketchRows !== undefined || options.reEstimateBandwidth !== undefined)) {
    throw new UsageError(
      `${sketchRows === undefined ? '--re-estimate-bandwidth' : '--sketch-rows'}: with --sketch keep no landmark changes`,
    )
  }
  if (options.guard === false) {
    for (const [flag, value] of [
      ['--guard-lifted', options.guardLifted],
      ['--guard-moved', options.guardMoved],
      ['--shadow-agrees', options.shadowAgrees],
    ] as const) {
      if (value !== undefined) throw new UsageError(`${flag}: does not apply with --no-guard`)
    }
  }
  const known = { ...DEFAULT_LEARNING, ...saved.learned?.options }
  const guard = known.guard ?? DEFAULT_GUARD
  const learning: { -readonly [Key in keyof LearningOptions]: LearningOptions[Key] } = {}
  if (options.method !== undefined) learning.method = options.method === '2' ? 2 : 1
  if (options.roundRows !== undefined) learning.roundRows = options.roundRows
  if (options.reservoirRows !== undefined) learning.reservoirRows = options.reservoirRows
  if (halfLife !== undefined) learning.forgetting = { kind: 'exponential', halfLifeRows: halfLife }
  if (window !== undefined) learning.forgetting = { kind: 'window', rows: window }
  if (novel !== undefined) learning.novel = novel
  if (confirm !== undefined) learning.confirmPeriods = confirm
  if (options.confirmRows !== undefined) learning.confirmRows = options.confirmRows
  if (options.maximumComponents !== undefined) learning.maximumComponents = options.maximumComponents
  if (sketch === 'keep') learning.sketch = { kind: 'keep' }
  else if (sketch !== undefined || sketchRows !== undefined) {
    const before = known.sketch.kind === 'keep' ? DEFAULT_LEARNING.sketch : known.sketch
    const rows = sketchRows ?? (before.kind === 'keep' ? 10 : before.rows)
    learning.sketch =
      (sketch ?? before.kind) === 'replace'
        ? { kind: 'replace', rows, everyRounds: null }
        : { kind: 'grow', rows, everyRounds: null, maximumLandmarks: null }
  }
  if (options.reEstimateBandwidth === true) learning.bandwidth = 're-estimate'
  if (options.guard === false) learning.guard = null
  else if (
    options.guardLifted !== undefined ||
    options.guardMoved !== undefined ||
    options.shadowAgrees !== undefined
  ) {
    learning.guard = {
      lifted: options.guardLifted ?? guard.lifted,
      moved: options.guardMoved ?? guard.moved,
      shadowAgrees: options.shadowAgrees ?? guard.shadowAgrees,
    }
  }
  return learning
}

/** Flags of options, by the path that an error names. */
const FLAGS: Readonly<Record<string, string>> = {
  'learning.roundRows': '--round-rows',
  'learning.reservoirRows': '--reservoir-rows',
  'learning.forgetting.halfLifeRows': '--half-life',
  'learning.forgetting.rows': '--window',
  'learning.maximumComponents': '--maximum-components',
  'learning.confirmPeriods': '--confirm',
  'learning.confirmRows': '--confirm-rows',
  'learning.sketch.rows': '--sketch-rows',
  'learning.guard.lifted': '--guard-lifted',
  'learning.guard.moved': '--guard-moved',
}

function withFlags<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const flag = error instanceof ArgumentError ? FLAGS[error.field ?? ''] : undefined
    if (!(error instanceof ArgumentError) || flag === undefined) throw error
    throw new UsageError(flag + error.message.slice(error.field?.length ?? 0))
  }
}

function readKnownNovel(path: string, saved: SavedModel): Matrix {
  if (inputKindOfAll([path]) !== 'rows') {
    throw new UsageError(
      `--known-novel ${path}: expected feature rows (.npy or .csv; oddflow extract --model makes them)`,
    )
  }
  try {
    return readRowsUnder(saved.contract, path)
  } catch (error) {
    if (!(error instanceof ContractMismatchError)) throw error
    throw new UsageError(`--known-novel ${error.message}`)
  }
}

/** A journal is written as learning goes on: what is in it when something breaks is what happened. */
function openJournal(path: string): { readonly write: (line: string) => void; readonly close: () => void } {
  let fd: number | null = null
  try {
    fd = openSync(path, 'w')
  } catch (error) {
    throw fileError('write', path, error)
  }
  return {
    write(line) {
      const bytes = Buffer.from(`${line}\n`)
      try {
        for (let at = 0; at < bytes.length; ) at += writeSync(fd!, bytes, at)
      } catch (error) {
        throw fileError('write', path, error)
      }
    },
    close() {
      if (fd === null) return
      const open = fd
      fd = null
      try {
        fsyncSync(open)
      } catch {
        // a pipe has nothing to flush
      }
      closeSync(open)
    },
  }
}

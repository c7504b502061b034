/** `oddflow update MODEL INPUT… -o MODEL`: a model learns on from more traffic. */
import { closeSync, fsyncSync, openSync, statSync, writeSync } from 'node:fs'
import { ContractMismatchError, concatRows, DataError, type Matrix, plural } from '@oddflow/core'
import {
  createJournallingLearner,
  createLearner,
  encodeModelFile,
  type GuardBounds,
  type LearningCounters,
  type RoundReport,
  type SavedModel,
  updateEnsemble,
} from '@oddflow/detectors'
import {
  checkWritable,
  fileError,
  hashRows,
  jsonLine,
  printable,
  readModel,
  UsageError,
  writeFileWhole,
} from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import { CAPTURE_FLAGS, type CaptureFlags, flagOf } from '../flags.js'
import { inputKindOfAll, note, warn, warnOfBareRows } from '../inputs.js'
import { limitsOfUpdate } from '../output/describe-limits.js'
import { checkModelOutput, describePackets, tellingWriter } from '../output/verdict-lines.js'
import { type LearningFlags, learningFrom, withFlags } from '../pipeline/learning-options.js'
import { createLearntFlows } from '../pipeline/learnt-flows.js'
import {
  complaints,
  describeView,
  type InputsUnderModel,
  inputsUnderModel,
  sumUnsupported,
} from '../pipeline/read-packets.js'
import { readRowsUnder } from '../pipeline/read-rows.js'
import { refuseNoRows, streamRows } from '../pipeline/score-inputs.js'
import { percent } from './inspect.js'

/** The file of `update --journal`. */

/**
 * A journal is written as learning goes on: what is in it when something breaks is what happened, though no model came of
 * it. One that is there already is what an earlier update can be undone by, or another's that runs now: it is not touched.
 */
export function openJournal(path: string): {
  readonly write: (line: string) => void
  readonly close: () => void
} {
  let fd: number | null = null
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isFile() === true) {
    throw new UsageError(`--journal ${path}: is there already, for undoing another update; name a new file`)
  }
  try {
    fd = openSync(path, found === undefined ? 'wx' : 'w')
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

/** What `update` did, in lines: what was learned and what not, how the model grew, and why the guard refused. */

type Counted = 'novel' | 'learnt' | 'heldBack' | 'held' | 'confirmed' | 'disregarded' | 'refused' | 'rounds'

interface UpdateSummary extends Pick<LearningCounters, Counted> {
  readonly model: string
  readonly bytes: number
  readonly rows: number
  readonly novelToFrozen: number
  readonly components: number
  readonly componentsBefore: number
  readonly landmarks: number
  readonly landmarksBefore: number
  readonly threshold: number
  readonly thresholdBefore: number
}

export function describeUpdate(s: UpdateSummary): string[] {
  const lines = [
    `${printable(s.model)}: ${s.bytes} bytes`,
    `  rows        ${s.rows}: ${s.novel} novel as they came, ${s.novelToFrozen} to the model as it was trained`,
    `  learned     ${s.learnt} in ${plural(s.rounds, 'round')}; ${s.heldBack} kept for the threshold, ${s.held} held, ${s.confirmed} confirmed, ${s.disregarded} disregarded, ${s.refused} refused`,
    `  mixture     ${s.componentsBefore} → ${plural(s.components, 'Gaussian')}`,
  ]
  if (s.landmarks > 0) lines.push(`  embedding   ${s.landmarksBefore} → ${plural(s.landmarks, 'landmark')}`)
  lines.push(`  threshold   ${s.thresholdBefore.toPrecision(8)} → ${s.threshold.toPrecision(8)}`)
  return lines
}

interface EnsembleUpdateSummary {
  readonly model: string
  readonly bytes: number
  readonly rows: number
  readonly odd: number
  readonly novelBefore: number
  readonly novelAfter: number
  readonly threshold: number
  readonly thresholdBefore: number
}

export function describeEnsembleUpdate(s: EnsembleUpdateSummary): string[] {
  const odd = s.odd === 0 ? '' : `; ${plural(s.odd, 'row')} unlike all others, not learned`
  return [
    `${printable(s.model)}: ${s.bytes} bytes`,
    `  rows        ${s.rows}: ${s.novelBefore} novel before, ${s.novelAfter} after${odd}`,
    `  threshold   ${s.thresholdBefore.toPrecision(8)} → ${s.threshold.toPrecision(8)}`,
  ]
}

/** `guard`: the bounds that the model learns within, given now or remembered. */
export function whyRefused(rounds: readonly RoundReport[], guard: GuardBounds | null): string {
  const refused = rounds.filter((round) => round.refused && round.reason !== 'overflow')
  const noveltyLoss = Math.max(...refused.map((round) => round.noveltyLoss))
  const falsePositiveRise = Math.max(...refused.map((round) => round.falsePositiveRise))
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const reasons = [
    ...(guard !== null && noveltyLoss > guard.maximumNoveltyLoss
      ? [`up to ${percent(noveltyLoss)} of the rows that must stay novel would become normal`]
      : []),
    ...(guard !== null && falsePositiveRise > guard.maximumFalsePositiveRise
      ? [`up to ${percent(falsePositiveRise)} of the rows known to be normal would pass for novel`]
      : []),
  ]
  if (refused.length < rounds.filter((round) => round.refused).length) {
    reasons.push('sums of the rows to learn are not finite')
  }
  return reasons.join(', and ')
}

export function componentsOf({ detector }: SavedModel): number {
  return 'mixture' in detector ? detector.mixture.weights.length : 0
}

export function landmarksOf({ detector }: SavedModel): number {
  return 'embedding' in detector ? detector.embedding.landmarks.rows : 0
}

/** `oddflow update` of an ensemble: all rows at once, and all of them stated to be normal. */

/** What an update of an ensemble takes; other options are of mixtures that learn on. */
const TAKEN: readonly string[] = ['output', 'format', 'assumeNormal']
/** Of the given rows, so many may stay novel. */
const MOST_NOVEL_SHARE = 0.05
/** Of the rows of before that the model remembers, so many may become novel. */
const MOST_FORGOTTEN_SHARE = 0.05

/** `checkUnchanged` throws where the model's file is no longer what was read. */
export async function updateEnsembleModel(
  { saved, inputs, reading }: InputsUnderModel,
  files: readonly string[],
  options: UpdateCommandOptions,
  checkUnchanged: () => void,
): Promise<void> {
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && !TAKEN.includes(name) && !Object.hasOwn(CAPTURE_FLAGS, name)) {
      throw new UsageError(`${flagOf(name)}: an ensemble has no such option; it learns all rows at once`)
    }
  }
  if (options.assumeNormal !== true) {
    throw new UsageError(
      'an ensemble learns on only from rows that you state to be normal: check them with oddflow score, then give --assume-normal',
    )
  }
  const progress = createProgress()
  try {
    const batches: Matrix[] = []
    const inputOfRow: number[] = []
    const deviceOfRow: number[] = []
    const learnt = createLearntFlows(saved)
    const { onFlow } = learnt
    const streamed = await streamRows(
      saved,
      inputs,
      { ...reading, progress, onFlow },
      (rows, input, devices) => {
        learnt.onRows(rows)
        batches.push(rows)
        for (let i = 0; i < rows.rows; i++) inputOfRow.push(input)
        if (devices !== null) for (const device of devices) deviceOfRow.push(device)
      },
    )
    progress.stop()
    for (const line of streamed.reads.flatMap(complaints)) warn(line)
    refuseNoRows(files, streamed)
    const given = concatRows(batches)
    const updated = updateEnsemble(saved, {
      rows: given,
      dataSha256: hashRows(given),
      inputs: Uint32Array.from(inputOfRow),
      ...(deviceOfRow.length === 0 ? {} : { devices: Uint32Array.from(deviceOfRow) }),
    })
    const { rows } = streamed
    if (updated.novelAfter > MOST_NOVEL_SHARE * rows) {
      throw new DataError(
        `${updated.novelAfter} of ${plural(rows, 'row')} (${percent(updated.novelAfter / rows)}) would stay novel${updated.oddRows === 0 ? '' : `, ${updated.oddRows} of them unlike all others`}: nothing was written; the given rows are too different from each other to be learned together; train on all captures again`,
      )
    }
    if (updated.forgotten > MOST_FORGOTTEN_SHARE * updated.remembered) {
      throw new DataError(
        `${updated.forgotten} of ${plural(updated.remembered, 'remembered row')} would become novel: nothing was written; the new traffic is too unlike the old; train on all captures again`,
      )
    }
    const bytes = encodeModelFile(updated.saved)
    checkUnchanged()
    writeFileWhole(options.output, bytes)
    const summary = {
      model: options.output,
      bytes: bytes.length,
      rows,
      withoutRow: streamed.withoutRow,
      learnt: rows - updated.oddRows,
      odd: updated.oddRows,
      novelBefore: updated.novelBefore,
      novelAfter: updated.novelAfter,
      threshold: updated.saved.threshold.value,
      thresholdBefore: saved.threshold.value,
    }
    const limits = limitsOfUpdate(saved, updated.saved)
    const patterns = learnt.patternsUnder(updated.saved)
    const out = tellingWriter(options.output)
    if (options.format === 'json') {
      out.line(
        jsonLine({
          ...summary,
          noLongerFound: patterns,
          ...limits.json,
          unsupportedLinkTypes: sumUnsupported(streamed.reads),
        }),
      )
    } else {
      for (const line of describeEnsembleUpdate(summary)) out.line(line)
      for (const line of limits.lines) out.line(line)
    }
    out.flush()
    if (patterns.length > 0) {
      warn(`no longer found, since the model learned them as normal: ${printable(patterns.join('; '))}`)
    }
    for (const warning of limits.warnings) warn(warning)
    if (updated.novelBefore > MOST_NOVEL_SHARE * rows) {
      warn(
        `${updated.novelBefore} of ${plural(rows, 'row')} (${percent(updated.novelBefore / rows)}) were novel before and are learned now: if they are an attack, the model no longer finds it; see them with oddflow score --explain under the model before`,
      )
    }
    if (streamed.counters !== null) note(describePackets(streamed.counters, streamed.reads))
    const seen = describeView(streamed.reads)
    if (seen !== null) note(seen)
  } finally {
    progress.stop()
  }
}

export interface UpdateCommandOptions extends CaptureFlags, LearningFlags {
  readonly output: string
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
  const underModel = inputsUnderModel(modelPath, files, options)
  const { kind, saved, inputs, reading } = underModel
  // a model may learn in its own place: it is read whole before it is written
  checkModelOutput(options.output, files)
  const checkUnchanged = (): void => {
    const isSame = (): boolean =>
      Buffer.from(encodeModelFile(saved)).equals(encodeModelFile(readModel(modelPath)))
    if (!isSameFile(options.output, modelPath) || isSame()) return
    throw new DataError(
      `${modelPath}: was changed by another program since it was read; nothing was written, update it again`,
    )
  }
  if (saved.detector.kind === 'ensemble') {
    await updateEnsembleModel(underModel, files, options, checkUnchanged)
    return
  }
  if (options.journal !== undefined) checkWritable(options.journal, [...files, modelPath, options.output])
  const learning = learningFrom(options, saved)
  if (saved.learned !== undefined && options.seed !== undefined) {
    throw new UsageError('--seed: the model was updated before and keeps its seed')
  }
  if (saved.learned !== undefined && options.knownNovel !== undefined) {
    throw new UsageError('--known-novel: the model was updated before and keeps its known-novel rows')
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
      inputs,
      { ...reading, progress },
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
    checkUnchanged()
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
    const limits = limitsOfUpdate(saved, updated)
    if (options.format === 'json')
      out.line(
        jsonLine({
          ...summary,
          ...limits.json,
          unsupportedLinkTypes: sumUnsupported(streamed.reads),
          roundReports: rounds,
        }),
      )
    else {
      for (const line of describeUpdate(summary)) out.line(line)
      for (const line of limits.lines) out.line(line)
    }
    out.flush()
    for (const warning of limits.warnings) warn(warning)
    if (summary.refusedRounds > 0) {
      warn(
        `the guard undid ${plural(summary.refusedRounds, 'round')} of ${plural(summary.refused, 'row')}: ${whyRefused(rounds, updated.learned!.options.guard)}; look at what was fed, and see --guard-noveltyLoss, --guard-moved and --no-guard`,
      )
    }
    if (updated.learned!.options.guard === null && options.guard !== false) {
      warn(
        'the guard is off: the model remembers --no-guard of an earlier update; --defaults turns it on again',
      )
    }
    if (summary.learnt === 0) warn('no row was learned; see --assume-normal and --confirm')
    if (streamed.counters !== null) note(describePackets(streamed.counters, streamed.reads))
    const seen = describeView(streamed.reads)
    if (seen !== null) note(seen)
  } finally {
    journal?.close()
    progress.stop()
  }
}

function isSameFile(a: string, b: string): boolean {
  const [first, second] = [a, b].map((path) => statSync(path, { throwIfNoEntry: false }))
  return first !== undefined && second !== undefined && first.dev === second.dev && first.ino === second.ino
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

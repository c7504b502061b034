/** `oddflow update MODEL INPUT… -o MODEL`: a model learns on from more traffic. */
import { statSync } from 'node:fs'
import { ContractMismatchError, DataError, type Matrix, plural } from '@oddflow/core'
import {
  createJournallingLearner,
  createLearner,
  encodeModelFile,
  type RoundReport,
  type SavedModel,
} from '@oddflow/detectors'
import { checkWritable, jsonLine, readModel, UsageError, writeFileWhole } from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import type { CaptureFlags } from '../capture-flags.js'
import { warnOfBareRows } from '../input/bare-rows.js'
import { inputKindOfAll } from '../input/input-kind.js'
import { readRowsUnder } from '../input/read-rows.js'
import { limitsOfUpdate } from '../output/describe-limits.js'
import { componentsOf, describeUpdate, landmarksOf, whyRefused } from '../output/describe-update.js'
import { describePackets } from '../output/describe-verdicts.js'
import { openJournal } from '../output/journal-file.js'
import { note, warn } from '../output/messages.js'
import { checkModelOutput, tellingWriter } from '../output/model-output.js'
import { inputsUnderModel } from '../pipeline/inputs-under-model.js'
import { type LearningFlags, learningFrom, withFlags } from '../pipeline/learning-options.js'
import { complaints, describeView, sumUnsupported } from '../pipeline/read-packets.js'
import { refuseNoRows, streamRows } from '../pipeline/stream-rows.js'
import { updateEnsembleModel } from './update-ensemble.js'

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
        `the guard undid ${plural(summary.refusedRounds, 'round')} of ${plural(summary.refused, 'row')}: ${whyRefused(rounds, updated.learned!.options.guard)}; look at what was fed, and see --guard-lifted, --guard-moved and --no-guard`,
      )
    }
    if (updated.learned!.options.guard === null && options.guard !== false) {
      warn(
        'the guard is off: the model remembers --no-guard of an earlier update; --defaults turns it on again',
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

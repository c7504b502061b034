/** `oddflow update MODEL INPUT… -o MODEL`: updates a model with more traffic. */
import { closeSync, fsyncSync, openSync, statSync, writeFileSync } from 'node:fs'
import {
  ArgumentError,
  ContractMismatchError,
  concatRows,
  DataError,
  type Matrix,
  plural,
} from '@oddflow/core'
import { encodeModelFile, type SavedModel } from '@oddflow/detectors'
import {
  createJournallingUpdater,
  createOnlineUpdater,
  DEFAULT_GUARD,
  DEFAULT_LEARNING,
  type GuardBounds,
  type LearnedState,
  type LearningOptions,
  learnedStateOf,
  type RoundReport,
  updateEnsemble,
} from '@oddflow/online'
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
import { CAPTURE_OPTIONS, type CaptureFlags, givenFlag } from '../flags.js'
import { inputKindOfAll, warn, warnOfBareRows, withProgress } from '../inputs.js'
import { type LimitsOfUpdate, limitsOfUpdate } from '../output/describe-limits.js'
import { checkModelOutput, notePackets, tellingWriter } from '../output/verdict-lines.js'
import { createLearntFlows } from '../pipeline/learnt-flows.js'
import {
  complaints,
  type InputsUnderModel,
  inputsUnderModel,
  sumUnsupported,
} from '../pipeline/read-packets.js'
import { readRowsUnder } from '../pipeline/read-rows.js'
import { refuseNoRows, type StreamedRows, streamRows } from '../pipeline/score-inputs.js'
import { percent } from './model-file.js'

interface LearningFlags {
  readonly assumeNormal?: boolean
  readonly method?: string
  readonly halfLife?: number
  readonly novel?: 'disregard' | 'hold' | 'learn'
  readonly confirm?: number
  readonly sketch?: 'keep' | 'grow' | 'replace'
  /** false: --no-guard. */
  readonly guard?: boolean
  readonly knownNovel?: string
  readonly shadowAgrees?: boolean
  /** What the model remembers of earlier updates is not taken. */
  readonly defaults?: boolean
}

interface UpdateCommandOptions extends CaptureFlags, LearningFlags {
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
  const { saved } = underModel
  // a model may learn in its own place: it is read whole before it is written
  checkModelOutput(options.output, files)
  const isUnchanged = (): boolean =>
    Buffer.from(encodeModelFile(saved)).equals(encodeModelFile(readModel(modelPath)))
  const writeModel = (bytes: Uint8Array): void => {
    if (isSameFile(options.output, modelPath) && !isUnchanged()) {
      throw new DataError(
        `${modelPath}: was changed by another program since it was read; nothing was written, update it again`,
      )
    }
    writeFileWhole(options.output, bytes)
  }
  if (saved.detector.kind === 'ensemble') await updateOfEnsemble(underModel, files, options, writeModel)
  else {
    if (options.journal !== undefined) checkWritable(options.journal, [...files, modelPath, options.output])
    await updateOfMixture(underModel, files, options, writeModel)
  }
}

/** What an update reports. In JSON, `facts` come before the model's limits and `details` after them. */
interface Report {
  readonly facts: object
  readonly details?: object
  readonly lines: readonly string[]
  readonly limits: LimitsOfUpdate
  readonly warnings: readonly string[]
}

function tell(
  { output, format }: UpdateCommandOptions,
  { counters, reads }: StreamedRows,
  report: Report,
): void {
  const { facts, details, lines, limits, warnings } = report
  const out = tellingWriter(output)
  if (format === 'json') {
    out.line(jsonLine({ ...facts, ...limits.json, unsupportedLinkTypes: sumUnsupported(reads), ...details }))
  } else for (const line of [...lines, ...limits.lines]) out.line(line)
  out.flush()
  for (const warning of warnings) warn(warning)
  notePackets(counters, reads)
}

const thresholdLine = (before: SavedModel, after: SavedModel): string =>
  `  threshold   ${before.threshold.value.toPrecision(8)} → ${after.threshold.value.toPrecision(8)}`

// ---- ensembles: all rows at once, and all of them stated to be normal

/** Options that an update of an ensemble takes; others apply to mixtures. */
const TAKEN: readonly string[] = ['output', 'format', 'assumeNormal', ...CAPTURE_OPTIONS]
/** Of the given rows, this share may stay novel. */
const MOST_NOVEL_SHARE = 0.05
/** Of the rows of before that the model remembers, this share may become novel. */
const MOST_FORGOTTEN_SHARE = 0.05

async function updateOfEnsemble(
  { saved, inputs, reading }: InputsUnderModel,
  files: readonly string[],
  options: UpdateCommandOptions,
  writeModel: (bytes: Uint8Array) => void,
): Promise<void> {
  refuseMixtureOptions(options)
  const batches: Matrix[] = []
  const inputOfRow: number[] = []
  const deviceOfRow: number[] = []
  const learnt = createLearntFlows(saved)
  const { onFlow } = learnt
  const streamed = await withProgress((progress) =>
    streamRows(saved, inputs, { ...reading, progress, onFlow }, (rows, input, devices) => {
      learnt.onRows(rows)
      batches.push(rows)
      for (let i = 0; i < rows.rows; i++) inputOfRow.push(input)
      if (devices !== null) for (const device of devices) deviceOfRow.push(device)
    }),
  )
  for (const line of streamed.reads.flatMap(complaints)) warn(line)
  refuseNoRows(files, streamed)
  const given = concatRows(batches)
  const updated = updateEnsemble(saved, {
    rows: given,
    dataSha256: hashRows(given),
    inputs: Uint32Array.from(inputOfRow),
    ...(deviceOfRow.length === 0 ? {} : { devices: Uint32Array.from(deviceOfRow) }),
  })
  const { rows, withoutRow } = streamed
  refuseUnlearned(updated, rows)
  const bytes = encodeModelFile(updated.saved)
  writeModel(bytes)
  const { oddRows: odd, novelBefore, novelAfter } = updated
  const limits = limitsOfUpdate(saved, updated.saved)
  const patterns = learnt.patternsUnder(updated.saved)
  const warnings = [...limits.warnings]
  if (patterns.length > 0) {
    warnings.unshift(
      `no longer found, since the model learned them as normal: ${printable(patterns.join('; '))}`,
    )
  }
  if (novelBefore > MOST_NOVEL_SHARE * rows) {
    warnings.push(
      `${novelBefore} of ${plural(rows, 'row')} (${percent(novelBefore / rows)}) were novel before and are learned now: if they are an attack, the model no longer finds it; see them with oddflow score --explain under the model before`,
    )
  }
  tell(options, streamed, {
    facts: {
      model: options.output,
      bytes: bytes.length,
      rows,
      withoutRow,
      learnt: rows - odd,
      odd,
      novelBefore,
      novelAfter,
      threshold: updated.saved.threshold.value,
      thresholdBefore: saved.threshold.value,
      noLongerFound: patterns,
    },
    lines: [
      `${printable(options.output)}: ${bytes.length} bytes`,
      `  rows        ${rows}: ${novelBefore} novel before, ${novelAfter} after${odd === 0 ? '' : `; ${plural(odd, 'row')} unlike all others, not learned`}`,
      thresholdLine(saved, updated.saved),
    ],
    limits,
    warnings,
  })
}

function refuseMixtureOptions(options: UpdateCommandOptions): void {
  const others = Object.keys(options).filter((name) => !TAKEN.includes(name))
  const flag = givenFlag(options, others)
  if (flag !== undefined) {
    throw new UsageError(`${flag}: an ensemble has no such option; it learns all rows at once`)
  }
  if (options.assumeNormal !== true) {
    throw new UsageError(
      'an ensemble can only be updated with rows that you state to be normal: check them with oddflow score, then give --assume-normal',
    )
  }
}

function refuseUnlearned(
  { novelAfter, oddRows, forgotten, remembered }: ReturnType<typeof updateEnsemble>,
  rows: number,
): void {
  if (novelAfter > MOST_NOVEL_SHARE * rows) {
    throw new DataError(
      `${novelAfter} of ${plural(rows, 'row')} (${percent(novelAfter / rows)}) would stay novel${oddRows === 0 ? '' : `, ${oddRows} of them unlike all others`}: nothing was written; the given rows are too different from each other to be learned together; train on all captures again`,
    )
  }
  if (forgotten > MOST_FORGOTTEN_SHARE * remembered) {
    throw new DataError(
      `${forgotten} of ${plural(remembered, 'remembered row')} would become novel: nothing was written; the new traffic is too unlike the old; train on all captures again`,
    )
  }
}

// ---- mixtures: row by row

async function updateOfMixture(
  { kind, saved, inputs, reading }: InputsUnderModel,
  files: readonly string[],
  options: UpdateCommandOptions,
  writeModel: (bytes: Uint8Array) => void,
): Promise<void> {
  const before = learnedStateOf(saved)
  const given = givenFor(saved, before, options)
  const journal = options.journal === undefined ? null : openJournal(options.journal)
  try {
    const learner = withFlags(() =>
      journal === null
        ? createOnlineUpdater(saved, given)
        : createJournallingUpdater(saved, given, journal.write),
    )
    const firstPeriod = (before?.counters.lastPeriod ?? 0) + 1
    const rounds: RoundReport[] = []
    let novel = 0
    let novelToFrozen = 0
    const streamed = await withProgress((progress) =>
      streamRows(saved, inputs, { ...reading, progress }, (rows, input) => {
        const report = learner.arrive(rows, {
          assumeNormal: options.assumeNormal === true,
          period: firstPeriod + input,
        })
        for (const verdict of report.novel) novel += verdict
        novelToFrozen += report.novelToFrozen
        rounds.push(...report.rounds)
      }),
    )
    const last = learner.endRound()
    if (last !== null) rounds.push(last)
    for (const line of streamed.reads.flatMap(complaints)) warn(line)
    refuseNoRows(files, streamed)
    warnOfBareRows(saved, kind)
    const updated = learner.saved()
    const bytes = encodeModelFile(updated)
    journal?.close()
    writeModel(bytes)
    tell(
      options,
      streamed,
      reportOfMixture(options, saved, updated, { ...streamed, bytes, novel, novelToFrozen, rounds }),
    )
  } finally {
    journal?.close()
  }
}

function givenFor(saved: SavedModel, before: LearnedState | undefined, options: UpdateCommandOptions) {
  const learning = learningFrom(options, before)
  if (before !== undefined && options.seed !== undefined) {
    throw new UsageError('--seed: the model was updated before and keeps its seed')
  }
  if (before !== undefined && options.knownNovel !== undefined) {
    throw new UsageError('--known-novel: the model was updated before and keeps its known-novel rows')
  }
  return {
    learning,
    ...(options.seed === undefined ? {} : { seed: options.seed }),
    ...(options.knownNovel === undefined ? {} : { knownNovel: readKnownNovel(options.knownNovel, saved) }),
  }
}

/** What the rows did on arrival. */
interface Arrivals {
  readonly bytes: Uint8Array
  readonly rows: number
  readonly withoutRow: number
  readonly novel: number
  /** Novel to the model as first trained. */
  readonly novelToFrozen: number
  readonly rounds: readonly RoundReport[]
}

function reportOfMixture(
  options: UpdateCommandOptions,
  saved: SavedModel,
  updated: SavedModel,
  { bytes, rows, withoutRow, novel, novelToFrozen, rounds }: Arrivals,
): Report {
  const before = learnedStateOf(saved)
  const after = learnedStateOf(updated)!
  const { guard } = after.options
  const facts = {
    model: options.output,
    bytes: bytes.length,
    rows,
    withoutRow,
    novel,
    novelToFrozen,
    ...countsSince(before, after),
    components: componentsOf(updated),
    componentsBefore: componentsOf(saved),
    landmarks: landmarksOf(updated),
    landmarksBefore: landmarksOf(saved),
    threshold: updated.threshold.value,
    thresholdBefore: saved.threshold.value,
  }
  const limits = limitsOfUpdate(saved, updated)
  const warnings = [...limits.warnings]
  if (facts.refusedRounds > 0) {
    warnings.push(
      `the guard undid ${plural(facts.refusedRounds, 'round')} of ${plural(facts.refused, 'row')}: ${whyRefused(rounds, guard)}; check the inputs, or accept such rounds with --no-guard`,
    )
  }
  if (guard === null && options.guard !== false) {
    warnings.push(
      'the guard is off: the model remembers --no-guard of an earlier update; --defaults turns it on again',
    )
  }
  if (facts.learnt === 0) warnings.push('no row was learned; see --assume-normal and --confirm')
  return {
    facts,
    details: { roundReports: rounds },
    lines: [
      `${printable(facts.model)}: ${facts.bytes} bytes`,
      `  rows        ${facts.rows}: ${novel} novel on arrival, ${novelToFrozen} novel to the model as first trained`,
      `  learned     ${facts.learnt} in ${plural(facts.rounds, 'round')}; ${facts.heldBack} kept for the threshold, ${facts.held} held, ${facts.confirmed} confirmed, ${facts.disregarded} disregarded, ${facts.refused} refused`,
      `  mixture     ${facts.componentsBefore} → ${plural(facts.components, 'Gaussian')}`,
      ...(facts.landmarks > 0
        ? [`  embedding   ${facts.landmarksBefore} → ${plural(facts.landmarks, 'landmark')}`]
        : []),
      thresholdLine(saved, updated),
    ],
    limits,
    warnings,
  }
}

/** Landmarks that a sketch adds at a time, where the model's sketch had none to add. */
const SKETCH_ROWS = 10

/** What was given, over the options of earlier updates or the defaults. Throws UsageError for flags that exclude each other. */
function learningFrom(options: LearningFlags, before: LearnedState | undefined): LearningOptions {
  const { assumeNormal, novel, confirm, halfLife, sketch } = options
  if (assumeNormal === true && (novel !== undefined || confirm !== undefined)) {
    throw new UsageError(
      `${novel === undefined ? '--confirm' : '--novel'}: with --assume-normal no row is novel`,
    )
  }
  if (assumeNormal === true && options.shadowAgrees === true) {
    throw new UsageError('--shadow-agrees: does not apply with --assume-normal, which learns every row')
  }
  if (confirm !== undefined && novel !== undefined && novel !== 'hold') {
    throw new UsageError(`--confirm: only rows on hold are confirmed, and --novel is ${novel}`)
  }
  if (options.guard === false) {
    for (const [flag, value] of [
      ['--shadow-agrees', options.shadowAgrees],
      ['--known-novel', options.knownNovel],
    ] as const) {
      if (value !== undefined) throw new UsageError(`${flag}: does not apply with --no-guard`)
    }
  }
  const known = { ...DEFAULT_LEARNING, ...(options.defaults === true ? {} : before?.options) }
  const learning: { -readonly [Key in keyof LearningOptions]: LearningOptions[Key] } =
    options.defaults === true ? { ...DEFAULT_LEARNING } : {}
  if (options.method !== undefined) learning.method = options.method === '2' ? 2 : 1
  if (halfLife !== undefined) learning.forgetting = { kind: 'exponential', halfLifeRows: halfLife }
  if (novel !== undefined) learning.novel = novel
  if (confirm !== undefined) learning.confirmPeriods = confirm
  if (sketch === 'keep') learning.sketch = { kind: 'keep' }
  else if (sketch !== undefined) {
    const rows = known.sketch.kind === 'keep' ? SKETCH_ROWS : known.sketch.rows
    learning.sketch =
      sketch === 'replace'
        ? { kind: 'replace', rows, everyRounds: null }
        : { kind: 'grow', rows, everyRounds: null, maximumLandmarks: null }
  }
  if (options.guard === false) learning.guard = null
  else if (options.shadowAgrees !== undefined) {
    learning.guard = { ...(known.guard ?? DEFAULT_GUARD), shadowAgrees: options.shadowAgrees }
  }
  return learning
}

/** Flags of options, by the path that an error names. */
const FLAGS: Readonly<Record<string, string>> = {
  'learning.forgetting.halfLifeRows': '--half-life',
  'learning.confirmPeriods': '--confirm',
}

function withFlags<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const flag = error instanceof ArgumentError ? FLAGS[error.field ?? ''] : undefined
    if (!(error instanceof ArgumentError) || flag === undefined) throw error
    throw new UsageError(`${flag}: ${error.detail}`)
  }
}

/** `guard`: the bounds that the model learns within, given now or remembered. */
function whyRefused(rounds: readonly RoundReport[], guard: GuardBounds | null): string {
  const refused = rounds.filter((round) => round.refused && round.reason !== 'overflow')
  const noveltyLoss = Math.max(...refused.map((round) => round.noveltyLoss))
  const falsePositiveRise = Math.max(...refused.map((round) => round.falsePositiveRise))
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const reasons = [
    ...(guard !== null && noveltyLoss > guard.maximumNoveltyLoss
      ? [`up to ${percent(noveltyLoss)} of the rows that must stay novel would become normal`]
      : []),
    ...(guard !== null && falsePositiveRise > guard.maximumFalsePositiveRise
      ? [`up to ${percent(falsePositiveRise)} of the rows known to be normal would become novel`]
      : []),
  ]
  if (refused.length < rounds.filter((round) => round.refused).length) {
    reasons.push('sums of the rows to learn are not finite')
  }
  return reasons.join(', and ')
}

function countsSince(before: LearnedState | undefined, after: LearnedState) {
  const since = (key: keyof LearnedState['counters']): number =>
    after.counters[key] - (before?.counters[key] ?? 0)
  return {
    learnt: since('learnt'),
    heldBack: since('heldBack'),
    held: since('held'),
    confirmed: since('confirmed'),
    disregarded: since('disregarded'),
    refused: since('refused'),
    rounds: since('rounds'),
    refusedRounds: since('refusedRounds'),
  }
}

const componentsOf = ({ detector }: SavedModel): number =>
  'mixture' in detector ? detector.mixture.weights.length : 0
const landmarksOf = ({ detector }: SavedModel): number =>
  'embedding' in detector ? detector.embedding.landmarks.rows : 0

/** Written while the model learns, so it also shows what happened if no model comes of it. Never over a file: that undoes another update. */
function openJournal(path: string): { readonly write: (line: string) => void; readonly close: () => void } {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isFile() === true) {
    throw new UsageError(`--journal ${path}: exists already, and can undo another update; name a new file`)
  }
  const doing = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw fileError('write', path, error)
    }
  }
  const fd = doing(() => openSync(path, found === undefined ? 'wx' : 'w'))
  let isOpen = true
  return {
    write: (line) => doing(() => writeFileSync(fd, `${line}\n`)),
    close() {
      if (!isOpen) return
      isOpen = false
      try {
        fsyncSync(fd)
      } catch {
        // a pipe has nothing to flush
      }
      closeSync(fd)
    },
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

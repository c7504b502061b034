/** `oddflow train INPUT… -o MODEL`: learns from normal traffic and writes a model file. */

import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, type Stats, statSync } from 'node:fs'
import {
  ArgumentError,
  concatRows,
  createRng,
  type FeatureContract,
  type FlowFeatureSet,
  plural,
} from '@oddflow/core'
import {
  checkParameters,
  DETECTORS,
  type DetectorOptions,
  encodeModelFile,
  isDetectorName,
  OPTION_NAMES,
  type OptionName,
  type SavedModel,
} from '@oddflow/detectors'
import { PLAIN_ROWS_DETECTORS, suitedDetector } from '@oddflow/evaluation'
import {
  type CalibrationSplit,
  checkWritable,
  findDetectionLimits,
  jsonLine,
  printable,
  type TrainingSet,
  type TrainOptions,
  trainModel,
  UsageError,
  writeFileWhole,
} from '@oddflow/program'
import { createProgress, type Progress } from '@oddflow/program/progress'
import { CAPTURE_FLAGS, type CaptureFlags, FLOW_FLAGS, type FlowFlags, flagOf, viewFrom } from '../flags.js'
import { inputKindOfAll, nameInputs, namingInputs, note, refuseCaptureOptions, warn } from '../inputs.js'
import { describeLimits, limitsJson, limitWarnings } from '../output/describe-limits.js'
import { checkModelOutput, tellingWriter } from '../output/verdict-lines.js'
import { flowPlan, frameSizeWarning } from '../pipeline/flow-plan.js'
import { captureInputs, filterFrom } from '../pipeline/read-packets.js'
import { readTrainingRows, type TrainingRows } from '../pipeline/read-rows.js'
import { readTrainingCaptures } from '../pipeline/training-captures.js'
import { RECIPES, type Recipe, recipeDetector, recipeNamed } from '../recipes.js'
import { chooseParameters } from '../selection/choose-parameters.js'
import { type SelectionFlags, selectionFrom } from '../selection/selection-flags.js'
import { VERSION } from '../version.js'
import { describeModel, modelJson, percent, promiseText } from './inspect.js'

/**
 * Inputs that are given twice: under one name, under two names of one file, or as a copy with the same bytes.
 *
 * Only files of one size can be copies, and few captures have a size in common, so next to nothing is read: 64 KiB of
 * those few, and all of the fewer that begin alike. Left out: one capture in two forms, such as plain and .gz.
 */

const PIECE_BYTES = 64 * 1024

interface Seen {
  readonly path: string
  readonly stat: Stats
}

/** Each input that repeats an earlier one, with that one. What cannot be read is left to its reader to complain of. */
export function repeatedFiles(paths: readonly string[]): [copy: string, first: string][] {
  const sizes = new Map<number, Seen[]>()
  for (const path of paths) {
    const stat = path === '-' ? undefined : ordinaryFile(path)
    if (stat === undefined) continue
    const ofSize = sizes.get(stat.size)
    if (ofSize === undefined) sizes.set(stat.size, [{ path, stat }])
    else ofSize.push({ path, stat })
  }
  return [...sizes.values()].filter((files) => files.length > 1).flatMap(repeatedOfSize)
}

function ordinaryFile(path: string): Stats | undefined {
  try {
    const stat = statSync(path)
    return stat.isFile() && stat.size > 0 ? stat : undefined
  } catch {
    return undefined
  }
}

function repeatedOfSize(files: readonly Seen[]): [string, string][] {
  const repeated: [string, string][] = []
  const beginnings = new Map<string, Seen[]>()
  for (const file of files) {
    const beginning = beginningOf(file.path)
    if (beginning === undefined) continue
    const alike = beginnings.get(beginning) ?? []
    beginnings.set(beginning, alike)
    const first = alike.find((other) => isSameFile(file, other) || haveSameBytes(file.path, other.path))
    if (first === undefined) alike.push(file)
    else repeated.push([file.path, first.path])
  }
  return repeated
}

function isSameFile({ stat: a }: Seen, { stat: b }: Seen): boolean {
  return a.dev === b.dev && a.ino === b.ino
}

function beginningOf(path: string): string | undefined {
  try {
    return withOpen(path, (fd) => {
      const piece = new Uint8Array(PIECE_BYTES)
      return createHash('sha256')
        .update(piece.subarray(0, fill(fd, piece)))
        .digest('hex')
    })
  } catch {
    return undefined
  }
}

function haveSameBytes(one: string, other: string): boolean {
  const a = Buffer.alloc(PIECE_BYTES)
  const b = Buffer.alloc(PIECE_BYTES)
  try {
    return withOpen(one, (fdOfOne) =>
      withOpen(other, (fdOfOther) => {
        for (;;) {
          const length = fill(fdOfOne, a)
          if (fill(fdOfOther, b) !== length || !a.subarray(0, length).equals(b.subarray(0, length)))
            return false
          if (length < PIECE_BYTES) return true
        }
      }),
    )
  } catch {
    return false
  }
}

function withOpen<T>(path: string, work: (fd: number) => T): T {
  const fd = openSync(path, 'r')
  try {
    return work(fd)
  } finally {
    closeSync(fd)
  }
}

/** Reads on until the piece is full or the file ends. */
function fill(fd: number, piece: Uint8Array): number {
  let filled = 0
  while (filled < piece.length) {
    const read = readSync(fd, piece, filled, piece.length - filled, null)
    if (read === 0) break
    filled += read
  }
  return filled
}

export interface TrainCommandOptions
  extends Omit<DetectorOptions, 'detector'>,
    CaptureFlags,
    FlowFlags,
    SelectionFlags {
  readonly output: string
  readonly recipe: string
  readonly detector?: string
  readonly fpr: number
  readonly calibrationShare?: number
  readonly seed: number
  readonly format: 'text' | 'json'
}

export async function train(files: readonly string[], options: TrainCommandOptions): Promise<void> {
  const { selectNormal = [], selectNovel = [] } = options
  const kind = inputKindOfAll([...files, ...selectNormal, ...selectNovel])
  // how captures become rows means nothing for rows
  if (kind === 'rows')
    refuseCaptureOptions(
      { ...options },
      { ...FLOW_FLAGS, ...CAPTURE_FLAGS, selectNovelFilter: '--select-novel-filter' },
    )
  const recipe = recipeNamed(options.recipe)
  const table = kind === 'rows' ? readTrainingRows(files, warn) : null
  // rows with a column of services are flow summaries, and judged like these
  const summary = (table?.columns?.categoryColumn ?? null) === null ? undefined : 'flow-summary'
  const features = table === null ? (options.features ?? recipe.features) : summary
  const choosesDetector =
    table !== null &&
    summary === undefined &&
    recipe === RECIPES.default &&
    options.detector === undefined &&
    options.selectNormal === undefined
  const { asked, said = null } = choosesDetector
    ? namingInputs(files, () => suitedOptions(table, options, recipe))
    : { asked: trainOptionsFrom(options, recipe, features) }
  const search = selectionFrom(options, searchedOptions(asked.detector, options))
  const plan = flowPlan(options, recipe)
  const filter = filterFrom(options.filter)
  const normal = { files: selectNormal, filter }
  const novel = {
    files: selectNovel,
    filter: filterFrom(options.selectNovelFilter, '--select-novel-filter') ?? filter,
  }
  const taken = [...files, ...selectNormal, ...selectNovel]
  checkModelOutput(options.output, taken)
  if (search?.report !== undefined) checkWritable(search.report, [...taken, options.output])
  for (const [copy, first] of repeatedFiles(files)) {
    warn(
      `${copy}: is the same as ${first}; its rows count twice, and one copy calibrates a fit to the other: leave one out`,
    )
  }
  for (const file of selectNormal.filter((path) => files.includes(path))) {
    warn(`${file}: is trained on as well, so it flatters every candidate; choose by other normal traffic`)
  }
  const sizes = kind === 'rows' ? null : frameSizeWarning(plan)
  if (sizes !== null) warn(sizes)
  const progress = createProgress()
  try {
    const set =
      table !== null
        ? rowTrainingSet(table, asked.detector)
        : await readTrainingCaptures(
            captureInputs(files, options.continuous),
            plan,
            asked.detector.scaler ?? 'none',
            {
              filter,
              dropDuplicates: options.dropDuplicates,
              flowMemoryBytes: options.flowMemory,
              view: viewFrom(options),
              progress,
            },
          )
    const { dropDuplicates, continuous, flowMemory } = options
    const read = { dropDuplicates, continuous, flowMemoryBytes: flowMemory, progress }
    const chosen =
      search === null
        ? null
        : await chooseParameters(set, asked, search, { training: files, normal, novel, read })
    const trainOptions =
      chosen === null ? asked : { ...asked, detector: chosen.detector, selection: chosen.selection }
    const { saved, split } = namingInputs(files, () =>
      namingFlags(() => trainModel(set, { ...trainOptions, onProgress: fitProgress(progress) })),
    )
    progress.stop()
    const bytes = encodeModelFile(saved)
    writeFileWhole(options.output, bytes)
    if (search?.report !== undefined && chosen !== null) writeFileWhole(search.report, chosen.report)
    if (said !== null) note(said)
    for (const fitNote of saved.detector.fitReport.notes) warn(fitNote)
    const { calibration, falsePositiveRate } = saved.threshold
    if (!calibration.guaranteed) {
      const less = calibration.method === 'held-out-inputs' ? '--fpr' : '--fpr or --calibration-share'
      warn(
        `--fpr ${falsePositiveRate} needs ${calibration.rowsNeeded} calibration rows, there are ${calibration.rows}: expect ${promiseText(saved.threshold)}; train on more, or raise ${less}`,
      )
    }
    for (const warning of groupWarnings(saved, files)) warn(warning)
    const limits = findDetectionLimits(saved)
    for (const warning of limitWarnings(limits)) warn(warning)
    const out = tellingWriter(options.output)
    if (options.format === 'json') {
      out.line(
        jsonLine({
          model: options.output,
          bytes: bytes.length,
          calibrationBy: split.method,
          ...keptInputs(split, set),
          ...modelJson(saved),
          detectionLimits: limitsJson(limits),
        }),
      )
    } else {
      out.line(`${printable(options.output)}: ${bytes.length} bytes`)
      for (const line of describeModel(saved, [], calibratedBy(split, set, asked))) out.line(line)
      for (const line of describeLimits(limits)) out.line(line)
    }
    out.flush()
  } finally {
    progress.stop()
  }
}

/** A model that judges groups by others needs two of a kind. */
function groupWarnings({ groups, contract }: SavedModel, files: readonly string[]): string[] {
  if (groups === undefined) return []
  const warnings: string[] = []
  if (groups.capture === null) {
    warnings.push(
      `${nameInputs(files)}: one input, so score --group capture has no other to compare with, and the next one may have more false alarms than promised; train on two or more`,
    )
  }
  if (groups.device === null && contract.featureSet !== 'rows') {
    warnings.push(
      `${nameInputs(files)}: one device, so score --group device has no other to compare with; train on two captures or more`,
    )
  }
  return warnings
}

/** How many inputs were kept whole; nothing where rows were drawn instead. */
function keptInputs(
  { method, calibration }: CalibrationSplit,
  { inputOfRow }: TrainingSet,
): { readonly calibrationInputs?: number } {
  if (method === 'rows') return {}
  return { calibrationInputs: new Set(calibration.map((row) => inputOfRow[row])).size }
}

/** Whole captures seldom add up to the share that was asked for, so what was kept is said beside it; of a detector that
 * holds rows out the model knows all. */
function calibratedBy(
  split: CalibrationSplit,
  set: TrainingSet,
  { calibrationShare }: TrainOptions,
): string | undefined {
  if (split.method === 'held-out') return undefined
  const { calibrationInputs } = keptInputs(split, set)
  const by =
    calibrationInputs === undefined ? 'rows drawn at random' : plural(calibrationInputs, 'whole input')
  const share = split.calibration.length / set.rows.rows
  return `${by}: ${split.calibration.length} of ${plural(set.rows.rows, 'row')}, ${percent(share)} (asked: ${percent(calibrationShare)})`
}

const DEFAULT_CALIBRATION_SHARE = 0.2

/** A recipe's bandwidth is a preset, which a search replaces; one that is given is not searched. */
function searchedOptions(detector: DetectorOptions, options: TrainCommandOptions): DetectorOptions {
  const { bandwidthQuantile, ...open } = detector
  return options.bandwidthQuantile === undefined ? open : detector
}

/** Command-line options over a recipe; throws UsageError naming the flag that does not fit. */
export function trainOptionsFrom(
  options: TrainCommandOptions,
  recipe: Recipe,
  features: FlowFeatureSet | undefined,
): TrainOptions {
  const { fpr, calibrationShare = DEFAULT_CALIBRATION_SHARE, seed } = options
  if (!(fpr >= 1e-9 && fpr < 1)) throw new UsageError(`--fpr ${fpr}: expected a number from 1e-9 to below 1`)
  if (!(calibrationShare > 0 && calibrationShare < 1)) {
    throw new UsageError(`--calibration-share ${calibrationShare}: expected a number between 0 and 1`)
  }
  const name = options.detector ?? recipeDetector(recipe, features)
  const takes: readonly string[] = isDetectorName(name) ? DETECTORS[name].options : []
  const given = Object.fromEntries(
    OPTION_NAMES.map((option) => [option, options[option] ?? preset(recipe, option, takes)]),
  )
  const detector = { detector: name, ...withoutUndefined(given) } as DetectorOptions
  namingFlags(() => checkParameters(detector))
  if (options.calibrationShare !== undefined && isDetectorName(name) && DETECTORS[name].holdsRowsOut) {
    throw new UsageError(
      `--calibration-share: does not apply to --detector ${name}, which holds its inputs out in turn; leave it out`,
    )
  }
  return { detector, falsePositiveRate: fpr, calibrationShare, seed, oddflowVersion: VERSION }
}

interface SuitedOptions {
  readonly asked: TrainOptions
  /** How the detector was chosen, for people; absent where there was no choice. */
  readonly said?: string
}

/** The detector that suits rows of a file, of those that take the options given. */
function suitedOptions({ parts }: TrainingRows, options: TrainCommandOptions, recipe: Recipe): SuitedOptions {
  const given = Object.fromEntries(
    OPTION_NAMES.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  ) as DetectorOptions
  const suited = namingFlags(() =>
    suitedDetector(concatRows(parts), given, createRng(options.seed).fork('detector')),
  )
  if (suited === null) {
    const names = Object.keys(given) as OptionName[]
    throw new UsageError(
      `${names.map(flagOf).join(', ')}: none of the detectors that rows are tried with (${PLAIN_ROWS_DETECTORS.map(({ detector }) => detector).join(', ')}) takes ${names.length > 1 ? 'all of these' : 'it'}; name one that does with --detector`,
    )
  }
  const { preset, tried } = suited
  const asked = trainOptionsFrom({ ...preset, ...options }, recipe, undefined)
  if (tried.length === 0) return { asked }
  const aucs = tried.map(({ detector, auc }) => `${detector} ${auc === null ? 'none' : auc.toFixed(3)}`)
  return {
    asked,
    said: `detector ${preset.detector} suits these rows best (${aucs.join(', ')}); --detector names another`,
  }
}

/** A recipe's setting is dropped where the detector has no such option; a given one is refused by name. */
function preset(recipe: Recipe, option: OptionName, takes: readonly string[]): unknown {
  return takes.includes(option) ? recipe[option as keyof Recipe] : undefined
}

/** Runs `work`; an ArgumentError over an option is thrown as one over its flag. */
function namingFlags<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const { field = '' } = error instanceof ArgumentError ? error : {}
    const flags: readonly string[] = [...OPTION_NAMES, 'detector', 'calibrationShare']
    if (!flags.includes(field)) throw error
    const message = flagged(error as ArgumentError)
    const rows = message.includes('training rows') ? '; --calibration-share of the rows are kept back' : ''
    throw new UsageError(message + rows)
  }
}

/** "bandwidthQuantile: expected …" → "--bandwidth-quantile: expected …". --help lists the options of a detector. */
function flagged({ field, detail, hint }: ArgumentError): string {
  return `${field === undefined ? '' : `${flagOf(field)}: `}${detail}${hint === undefined ? '' : '; leave it out'}`
}

function withoutUndefined<T extends object>(record: T): Partial<T> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as Partial<T>
}

function rowTrainingSet({ parts, columns }: TrainingRows, detector: DetectorOptions): TrainingSet {
  const rows = concatRows(parts)
  const inputOfRow = Uint32Array.from(parts.flatMap((part, i) => new Array<number>(part.rows).fill(i)))
  const contract: FeatureContract = {
    featureSet: 'rows',
    featureSetVersion: 1,
    dimension: rows.cols,
    scaler: detector.scaler ?? 'none',
  }
  return { rows, inputOfRow, contract, onePacketRule: null, ...(columns === null ? {} : { columns }) }
}

function fitProgress(progress: Progress) {
  let current = ''
  return ({ stage, fraction }: { stage: string; fraction: number }): void => {
    if (stage !== current) {
      current = stage
      progress.stage(`fitting: ${stage}`, 100)
    }
    progress.update(Math.round(100 * fraction))
  }
}

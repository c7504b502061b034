/** `oddflow train INPUT… -o MODEL`: learns from normal traffic and writes a model file. */

import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, statSync } from 'node:fs'
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
import type { Progress } from '@oddflow/program/progress'
import {
  CAPTURE_OPTIONS,
  type CaptureFlags,
  FLOW_OPTIONS,
  type FlowFlags,
  flagOf,
  RECIPES,
  type Recipe,
  recipeDetector,
  recipeNamed,
  type SelectionFlags,
  selectionFrom,
  takersOf,
  viewFrom,
} from '../flags.js'
import {
  inputKindOfAll,
  nameInputs,
  namingInputs,
  note,
  refuseCaptureOptions,
  VERSION,
  warn,
  withProgress,
} from '../inputs.js'
import { describeLimits, limitsJson, limitWarnings } from '../output/describe-limits.js'
import { checkModelOutput, tellingWriter } from '../output/verdict-lines.js'
import { flowPlan, frameSizeWarning } from '../pipeline/flow-plan.js'
import { captureInputs, filterFrom, readingFrom } from '../pipeline/read-packets.js'
import { readTrainingRows, type TrainingRows } from '../pipeline/read-rows.js'
import { readTrainingCaptures } from '../pipeline/training-captures.js'
import { chooseParameters } from '../selection/choose-parameters.js'
import { describeModel, modelJson, percent, promiseText } from './model-file.js'

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
  const taken = [...files, ...selectNormal, ...selectNovel]
  const kind = inputKindOfAll(taken)
  // how captures become rows means nothing for rows
  if (kind === 'rows')
    refuseCaptureOptions(options, [...FLOW_OPTIONS, ...CAPTURE_OPTIONS, 'selectNovelFilter'])
  const recipe = recipeNamed(options.recipe)
  const table = kind === 'rows' ? readTrainingRows(files, warn) : null
  const { asked, said } = askedOptions(files, table, options, recipe)
  const search = selectionFrom(options, searchedOptions(asked.detector, options))
  const plan = flowPlan(options, recipe)
  const reading = readingFrom(options)
  const { filter } = reading
  const novelFilter = filterFrom(options.selectNovelFilter, '--select-novel-filter') ?? filter
  checkModelOutput(options.output, taken)
  if (search?.report !== undefined) checkWritable(search.report, [...taken, options.output])
  for (const warning of inputWarnings(files, selectNormal)) warn(warning)
  const sizes = kind === 'rows' ? null : frameSizeWarning(plan)
  if (sizes !== null) warn(sizes)
  const { trained, set, report } = await withProgress(async (progress) => {
    const { scaler = 'none' } = asked.detector
    const set =
      table !== null
        ? rowTrainingSet(table, scaler)
        : await readTrainingCaptures(captureInputs(files, options.continuous), plan, scaler, {
            ...reading,
            view: viewFrom(options),
            progress,
          })
    const chosen =
      search === null
        ? null
        : await chooseParameters(set, asked, search, {
            training: files,
            normal: { files: selectNormal, filter },
            novel: { files: selectNovel, filter: novelFilter },
            read: { ...reading, continuous: options.continuous, progress },
          })
    const trainOptions =
      chosen === null ? asked : { ...asked, detector: chosen.detector, selection: chosen.selection }
    const trained = namingInputs(files, () =>
      namingFlags(() => trainModel(set, { ...trainOptions, onProgress: fitProgress(progress) })),
    )
    return { trained, set, report: chosen?.report }
  })
  const { saved, split } = trained
  const bytes = encodeModelFile(saved)
  writeFileWhole(options.output, bytes)
  if (search?.report !== undefined && report !== undefined) writeFileWhole(search.report, report)
  if (said !== undefined) note(said)
  for (const warning of modelWarnings(saved, files)) warn(warning)
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
}

function inputWarnings(files: readonly string[], selectNormal: readonly string[]): string[] {
  return [
    ...repeatedFiles(files).map(
      ([copy, first]) =>
        `${copy}: is a copy of ${first}; its rows count twice, and the threshold promises too few false alarms: leave one out`,
    ),
    ...selectNormal
      .filter((path) => files.includes(path))
      .map(
        (file) =>
          `${file}: is also a training input, so the AUC of every candidate is too high; give other normal traffic`,
      ),
  ]
}

function modelWarnings(saved: SavedModel, files: readonly string[]): string[] {
  const warnings = [...saved.detector.fitReport.notes]
  const { calibration, falsePositiveRate } = saved.threshold
  if (!calibration.guaranteed) {
    const less = calibration.method === 'held-out-inputs' ? '--fpr' : '--fpr or --calibration-share'
    warnings.push(
      `--fpr ${falsePositiveRate} needs ${calibration.rowsNeeded} calibration rows, there are ${calibration.rows}: expect ${promiseText(saved.threshold)}; train on more, or raise ${less}`,
    )
  }
  return [...warnings, ...groupWarnings(saved, files)]
}

/** A model that judges groups by others needs two of a kind. */
function groupWarnings({ groups, contract }: SavedModel, files: readonly string[]): string[] {
  if (groups === undefined) return []
  const warnings: string[] = []
  if (groups.capture === null) {
    warnings.push(
      `${nameInputs(files)}: one input, so score --group capture has no other to compare with, and the next input may have more false alarms than promised; train on two or more`,
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

interface AskedOptions {
  readonly asked: TrainOptions
  /** How the detector was chosen, for people; absent where there was no choice. */
  readonly said?: string
}

function askedOptions(
  files: readonly string[],
  table: TrainingRows | null,
  options: TrainCommandOptions,
  recipe: Recipe,
): AskedOptions {
  if (table === null) {
    return { asked: trainOptionsFrom(options, recipe, options.features ?? recipe.features) }
  }
  // rows with a column of services are flow summaries, and judged like these
  const summary = (table.columns?.categoryColumn ?? null) === null ? undefined : 'flow-summary'
  const isOpen = options.detector === undefined && options.selectNormal === undefined
  return summary === undefined && recipe === RECIPES.default && isOpen
    ? namingInputs(files, () => suitedOptions(table, options, recipe))
    : { asked: trainOptionsFrom(options, recipe, summary) }
}

/** The detector that suits the rows of a file best, among the ones that take the given options. */
function suitedOptions({ parts }: TrainingRows, options: TrainCommandOptions, recipe: Recipe): AskedOptions {
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

/** "bandwidthQuantile: expected …" → "--bandwidth-quantile: expected …". An option of other detectors names them. */
function flagged({ field, detail, hint }: ArgumentError): string {
  if (field === undefined) return detail
  const advice =
    hint === undefined
      ? ''
      : `; leave it out, or name a detector that takes it: ${takersOf(field as OptionName)}`
  return `${flagOf(field)}: ${detail}${advice}`
}

function withoutUndefined<T extends object>(record: T): Partial<T> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as Partial<T>
}

function rowTrainingSet({ parts, columns }: TrainingRows, scaler: FeatureContract['scaler']): TrainingSet {
  const rows = concatRows(parts)
  const inputOfRow = Uint32Array.from(parts.flatMap((part, i) => new Array<number>(part.rows).fill(i)))
  const contract: FeatureContract = {
    featureSet: 'rows',
    featureSetVersion: 1,
    dimension: rows.cols,
    scaler,
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

// ---- inputs that are given twice

const PIECE_BYTES = 64 * 1024

/**
 * Each input that repeats an earlier one, with that one: the same file, or a copy of its bytes (not one in another form,
 * such as .gz). Files of different sizes are not read, others mostly to 64 KiB. Unreadable ones are left to their reader.
 */
export function repeatedFiles(paths: readonly string[]): [copy: string, first: string][] {
  let alike = [[...paths.keys()].filter((at) => paths[at] !== '-')]
  for (const traitOf of TRAITS) {
    const several = alike.filter(({ length }) => length > 1)
    alike = several.flatMap((group) => groupsBy(group, (at) => traitOf(paths[at])))
  }
  const firsts = alike.flatMap(([first, ...copies]) => copies.map((copy) => [copy, first] as const))
  return firsts.sort(([a], [b]) => a - b).map(([copy, first]) => [paths[copy], paths[first]])
}

/** What equal files share, the cheapest first; null for what is no file with bytes, or cannot be read. */
const TRAITS: readonly ((path: string) => string | null)[] = [
  sizeOf,
  (path) => hashOf(path, PIECE_BYTES),
  (path) => hashOf(path, Number.POSITIVE_INFINITY),
]

function groupsBy(items: readonly number[], keyOf: (item: number) => string | null): number[][] {
  const groups = new Map<string, number[]>()
  for (const item of items) {
    const key = keyOf(item)
    if (key !== null) groups.set(key, [...(groups.get(key) ?? []), item])
  }
  return [...groups.values()]
}

function sizeOf(path: string): string | null {
  try {
    const stat = statSync(path)
    return stat.isFile() && stat.size > 0 ? String(stat.size) : null
  } catch {
    return null
  }
}

function hashOf(path: string, mostBytes: number): string | null {
  try {
    const fd = openSync(path, 'r')
    try {
      const hash = createHash('sha256')
      const piece = new Uint8Array(PIECE_BYTES)
      for (let left = mostBytes; left > 0; ) {
        const read = readSync(fd, piece, 0, Math.min(left, piece.length), null)
        if (read === 0) break
        hash.update(piece.subarray(0, read))
        left -= read
      }
      return hash.digest('hex')
    } finally {
      closeSync(fd)
    }
  } catch {
    return null
  }
}

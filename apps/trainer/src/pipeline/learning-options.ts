/** The flags of `update` as options of learning, and errors of those options in the words of the flags. */
import { ArgumentError } from '@oddflow/core'
import { DEFAULT_GUARD, DEFAULT_LEARNING, type LearningOptions, type SavedModel } from '@oddflow/detectors'
import { UsageError } from '@oddflow/program'

export interface LearningFlags {
  readonly assumeNormal?: boolean
  readonly method?: string
  readonly roundRows?: number
  readonly reservoirRows?: number
  readonly halfLife?: number
  readonly novel?: 'disregard' | 'hold' | 'learn'
  readonly confirm?: number
  readonly confirmRows?: number
  readonly maximumComponents?: number
  readonly sketch?: 'keep' | 'grow' | 'replace'
  readonly sketchRows?: number
  /** false: --no-guard. */
  readonly guard?: boolean
  readonly maximumNoveltyLoss?: number
  readonly maximumFalsePositiveRise?: number
  readonly knownNovel?: string
  readonly shadowAgrees?: boolean
  /** What the model remembers of earlier updates is not taken. */
  readonly defaults?: boolean
}

/** Only what was given, over what the model learned with before, or over the defaults where that is asked for. Throws UsageError for flags that do not go together. */
export function learningFrom(options: LearningFlags, saved: SavedModel): LearningOptions {
  const { assumeNormal, novel, confirm, halfLife, sketch, sketchRows } = options
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
  if (options.confirmRows !== undefined && confirm === undefined) {
    throw new UsageError('--confirm-rows: needs --confirm')
  }
  if (sketch === 'keep' && sketchRows !== undefined) {
    throw new UsageError('--sketch-rows: with --sketch keep no landmark changes')
  }
  if (options.guard === false) {
    for (const [flag, value] of [
      ['--maximum-novelty-loss', options.maximumNoveltyLoss],
      ['--maximum-false-positive-rise', options.maximumFalsePositiveRise],
      ['--shadow-agrees', options.shadowAgrees],
      ['--known-novel', options.knownNovel],
    ] as const) {
      if (value !== undefined) throw new UsageError(`${flag}: does not apply with --no-guard`)
    }
  }
  const known = { ...DEFAULT_LEARNING, ...(options.defaults === true ? {} : saved.learned?.options) }
  const guard = known.guard ?? DEFAULT_GUARD
  const learning: { -readonly [Key in keyof LearningOptions]: LearningOptions[Key] } =
    options.defaults === true ? { ...DEFAULT_LEARNING } : {}
  if (options.method !== undefined) learning.method = options.method === '2' ? 2 : 1
  if (options.roundRows !== undefined) learning.roundRows = options.roundRows
  if (options.reservoirRows !== undefined) learning.reservoirRows = options.reservoirRows
  if (halfLife !== undefined) learning.forgetting = { kind: 'exponential', halfLifeRows: halfLife }
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
  if (options.guard === false) learning.guard = null
  else if (
    options.maximumNoveltyLoss !== undefined ||
    options.maximumFalsePositiveRise !== undefined ||
    options.shadowAgrees !== undefined
  ) {
    learning.guard = {
      maximumNoveltyLoss: options.maximumNoveltyLoss ?? guard.maximumNoveltyLoss,
      maximumFalsePositiveRise: options.maximumFalsePositiveRise ?? guard.maximumFalsePositiveRise,
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
  'learning.maximumComponents': '--maximum-components',
  'learning.confirmPeriods': '--confirm',
  'learning.confirmRows': '--confirm-rows',
  'learning.sketch.rows': '--sketch-rows',
  'learning.guard.maximumNoveltyLoss': '--maximum-novelty-loss',
  'learning.guard.maximumFalsePositiveRise': '--maximum-false-positive-rise',
}

export function withFlags<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const flag = error instanceof ArgumentError ? FLAGS[error.field ?? ''] : undefined
    if (!(error instanceof ArgumentError) || flag === undefined) throw error
    throw new UsageError(`${flag}: ${error.detail}`)
  }
}

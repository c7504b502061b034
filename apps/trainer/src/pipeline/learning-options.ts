/** The flags of `update` as options of learning, and errors of those options in the words of the flags. */
import { ArgumentError } from '@oddflow/core'
import { DEFAULT_GUARD, DEFAULT_LEARNING, type LearningOptions, type SavedModel } from '@oddflow/detectors'
import { UsageError } from '@oddflow/program'

export interface LearningFlags {
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

/** Landmarks that a sketch adds at a time, where the model's sketch had none to add. */
const SKETCH_ROWS = 10

/** Only what was given, over what the model learned with before, or over the defaults where that is asked for. Throws UsageError for flags that do not go together. */
export function learningFrom(options: LearningFlags, saved: SavedModel): LearningOptions {
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
  const known = { ...DEFAULT_LEARNING, ...(options.defaults === true ? {} : saved.learned?.options) }
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

export function withFlags<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const flag = error instanceof ArgumentError ? FLAGS[error.field ?? ''] : undefined
    if (!(error instanceof ArgumentError) || flag === undefined) throw error
    throw new UsageError(`${flag}: ${error.detail}`)
  }
}

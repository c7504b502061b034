/**
 * Flags of `train` that choose parameters on labelled inputs, and what they ask for.
 *
 * The two lists of inputs switch the search on; the others say how it is done, and are refused without them.
 */
import { ArgumentError } from '@oddflow/core'
import type { DetectorOptions } from '@oddflow/detectors'
import {
  applicableGrid,
  type Candidate,
  gridCandidates,
  orderedGrid,
  PAPER_GRID,
  type ParameterGrid,
} from '@oddflow/evaluation'
import { UsageError } from '@oddflow/program'
import { type Command, Option } from 'commander'
import { flagOf, list, number, whole } from '../flags.js'

export interface SelectionFlags {
  readonly selectNormal?: readonly string[]
  readonly selectNovel?: readonly string[]
  readonly selectNormalFilter?: string
  readonly selectNovelFilter?: string
  readonly selectRows?: number
  readonly gridQuantiles?: readonly number[]
  readonly gridK?: readonly number[]
  readonly jobs?: number
  readonly selectionReport?: string
}

const DEPENDENT_FLAGS = {
  selectNormalFilter: '--select-normal-filter',
  selectNovelFilter: '--select-novel-filter',
  selectRows: '--select-rows',
  gridQuantiles: '--grid-quantiles',
  gridK: '--grid-k',
  jobs: '--jobs',
  selectionReport: '--selection-report',
} as const

/** Which grid a flag is for. */
const GRID_FLAGS = { gridQuantiles: 'bandwidthQuantile', gridK: 'k' } as const

const MAXIMUM_JOBS = 256

export interface SelectionRequest {
  readonly normal: readonly string[]
  readonly novel: readonly string[]
  readonly grid: ParameterGrid
  readonly candidates: readonly Candidate[]
  /** At most so many validation rows of each kind; all where it is undefined. */
  readonly rows: number | undefined
  /** Worker threads; as many as there are processors where it is undefined. */
  readonly jobs: number | undefined
  readonly report: string | undefined
}

export function withSelectionFlags(command: Command): Command {
  const flags = [
    new Option(
      '--select-normal <input...>',
      'choose parameters by AUC: normal inputs that are not trained on',
    ),
    new Option('--select-novel <input...>', 'choose parameters by AUC: novel inputs'),
    new Option(
      '--select-normal-filter <filter>',
      'filter of the --select-normal inputs, instead of --filter',
    ),
    new Option('--select-novel-filter <filter>', 'filter of the --select-novel inputs, instead of --filter'),
    new Option(
      '--select-rows <count>',
      'rows of each kind to draw at random; 75 in the paper (default: all)',
    ).argParser(whole),
    new Option(
      '--grid-quantiles <list>',
      `bandwidth quantiles to try (default: ${PAPER_GRID.bandwidthQuantile.join(',')})`,
    ).argParser(list(number)),
    new Option('--grid-k <list>', `components to try (default: ${PAPER_GRID.k.join(',')})`).argParser(
      list(whole),
    ),
    new Option('--jobs <count>', 'worker threads (default: one for each processor)').argParser(whole),
    new Option('--selection-report <file>', 'write all candidates and their AUC as JSON'),
  ]
  for (const flag of flags) command.addOption(flag.helpGroup('Choosing parameters:'))
  return command
}

/** null where nothing is to be chosen. Throws UsageError naming the flag that does not fit. */
export function selectionFrom(flags: SelectionFlags, detector: DetectorOptions): SelectionRequest | null {
  const { selectNormal: normal, selectNovel: novel } = flags
  if (normal === undefined && novel === undefined) {
    for (const [key, flag] of Object.entries(DEPENDENT_FLAGS)) {
      if (flags[key as keyof SelectionFlags] !== undefined) {
        throw new UsageError(`${flag}: applies with --select-normal and --select-novel`)
      }
    }
    return null
  }
  if (normal === undefined) throw new UsageError('--select-novel: needs --select-normal beside it')
  if (novel === undefined) throw new UsageError('--select-normal: needs --select-novel beside it')
  const { selectRows: rows, jobs, selectionReport: report } = flags
  if (rows !== undefined && rows < 1) {
    throw new UsageError(`--select-rows ${rows}: expected a whole number of 1 or more`)
  }
  if (jobs !== undefined && !(jobs >= 1 && jobs <= MAXIMUM_JOBS)) {
    throw new UsageError(`--jobs ${jobs}: expected a whole number from 1 to ${MAXIMUM_JOBS}`)
  }
  const grid = gridFrom(flags, detector)
  return {
    normal,
    novel,
    rows,
    jobs,
    report,
    grid: orderedGrid(grid),
    candidates: candidatesFrom(detector, grid),
  }
}

function gridFrom(flags: SelectionFlags, detector: DetectorOptions): ParameterGrid {
  const given: Record<string, readonly number[]> = {}
  for (const [key, option] of Object.entries(GRID_FLAGS)) {
    const values = flags[key as keyof typeof GRID_FLAGS]
    if (values !== undefined) given[option] = values
  }
  const grid = { ...applicableGrid(detector), ...given }
  if (Object.keys(grid).length > 0) return grid
  throw new UsageError(
    `--select-normal: ${detector.detector} has no bandwidth quantile and no k left to choose; leave out --bandwidth-quantile or --k, or do not search`,
  )
}

/** In the command line's words: a grid has a flag of its own. */
function candidatesFrom(detector: DetectorOptions, grid: ParameterGrid): Candidate[] {
  try {
    return gridCandidates(detector, grid)
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error
    const flag = Object.entries(GRID_FLAGS).find(([, option]) => option === error.field)?.[0]
    if (error.field === undefined || flag === undefined) throw new UsageError(error.message)
    throw new UsageError(
      `${flagOf(flag)}: ${error.detail}${error.hint === undefined ? '' : '; leave it out'}`,
    )
  }
}

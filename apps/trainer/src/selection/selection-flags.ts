/**
 * Flags of `train` that choose parameters on labelled inputs, and what they ask for.
 *
 * The two lists of inputs switch the search on; the others say how it is done, and are refused without them.
 */
import type { DetectorOptions } from '@oddflow/detectors'
import {
  applicableGrid,
  type Candidate,
  gridCandidates,
  orderedGrid,
  type ParameterGrid,
} from '@oddflow/evaluation'
import { UsageError } from '@oddflow/program'
import { type Command, Option } from 'commander'
import { givenFlag, whole } from '../flags.js'

export interface SelectionFlags {
  readonly selectNormal?: readonly string[]
  readonly selectNovel?: readonly string[]
  readonly selectNovelFilter?: string
  readonly jobs?: number
  readonly selectionReport?: string
}

const MAXIMUM_JOBS = 256

export interface SelectionRequest {
  readonly grid: ParameterGrid
  readonly candidates: readonly Candidate[]
  /** Worker threads; as many as there are processors where it is undefined. */
  readonly jobs: number | undefined
  readonly report: string | undefined
}

export function withSelectionFlags(command: Command): Command {
  const flags = [
    new Option(
      '--select-normal <input...>',
      'choose the parameters with the best AUC on these normal inputs, which are not trained on, and those of --select-novel',
    ),
    new Option('--select-novel <input...>', 'novel inputs for --select-normal'),
    new Option('--select-novel-filter <filter>', 'filter of the --select-novel inputs, instead of --filter'),
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
    const flag = givenFlag(flags, ['selectNovelFilter', 'jobs', 'selectionReport'])
    if (flag !== undefined) throw new UsageError(`${flag}: needs --select-normal and --select-novel`)
    return null
  }
  if (normal === undefined) throw new UsageError('--select-novel: needs --select-normal too')
  if (novel === undefined) throw new UsageError('--select-normal: needs --select-novel too')
  const { jobs, selectionReport: report } = flags
  if (jobs !== undefined && !(jobs >= 1 && jobs <= MAXIMUM_JOBS)) {
    throw new UsageError(`--jobs ${jobs}: expected a whole number from 1 to ${MAXIMUM_JOBS}`)
  }
  const grid = applicableGrid(detector)
  if (Object.keys(grid).length === 0) {
    throw new UsageError(
      `--select-normal: ${detector.detector} has no bandwidth quantile and no k left to choose; leave out --bandwidth-quantile or --k, or do not search`,
    )
  }
  return {
    jobs,
    report,
    grid: orderedGrid(grid),
    candidates: gridCandidates(detector, grid),
  }
}

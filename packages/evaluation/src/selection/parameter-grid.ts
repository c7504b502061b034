/**
 * Parameter grids: the values that are tried of a detector's options (paper, "Minimal tuning": the bandwidth over ten
 * quantiles of the pair distances and the number of components over ten more, where a detector has one to choose).
 */
import { ArgumentError } from '@oddflow/core'
import {
  type CheckedParameters,
  checkParameters,
  DEFAULT_OPTIONS,
  DETECTORS,
  type DetectorOptions,
  type GridOption,
  type GridValue,
} from '@oddflow/detectors'

/** Of each option that is searched, the values to try. */
export type ParameterGrid = {
  readonly [Name in GridOption]?: readonly NonNullable<DetectorOptions[Name]>[]
}

export const PAPER_GRID = {
  bandwidthQuantile: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95],
  k: [1, 4, 6, 8, 10, 12, 14, 16, 18, 20],
} as const satisfies ParameterGrid

export interface Candidate {
  /** The values of the options that are searched, in the grid's order. */
  readonly choice: Readonly<Partial<Record<GridOption, GridValue>>>
  /** The choice among the options that are given. */
  readonly parameters: CheckedParameters
}

const MAXIMUM_CANDIDATES = 10_000

/** What of a grid applies: options that the detector takes and that are not given. */
export function applicableGrid(options: DetectorOptions, grid: ParameterGrid = PAPER_GRID): ParameterGrid {
  const { options: takes } = DETECTORS[options.detector ?? DEFAULT_OPTIONS.detector]
  const isOpen = (name: GridOption): boolean => {
    // a linear kernel has no bandwidth
    if (name === 'bandwidthQuantile' && options.kernel === 'linear') return false
    return takes.includes(name) && options[name] === undefined
  }
  return Object.fromEntries(Object.entries(grid).filter(([name]) => isOpen(name as GridOption)))
}

/**
 * Every combination of the grid's values with the options given, in the order in which ties go to the first: values
 * as they are listed, the last option changing fastest, and k the last of all. Throws ArgumentError with `field` set
 * to the option at fault: unknown, not the detector's, given as well, out of range, listed twice, without a value.
 */
export function gridCandidates(options: DetectorOptions, grid: ParameterGrid): Candidate[] {
  const axes = orderedAxes(grid)
  let count = 1
  for (const [name, values] of axes) {
    if (options[name] !== undefined) {
      throw new ArgumentError(`${name}: expected a value or a grid, found both`, name)
    }
    if (!Array.isArray(values) || values.length === 0) {
      throw new ArgumentError(`${name}: expected a list of one value or more`, name)
    }
    if (new Set(values).size < values.length) {
      throw new ArgumentError(`${name}: expected different values, found one twice`, name)
    }
    count *= values.length
  }
  if (count > MAXIMUM_CANDIDATES) {
    throw new ArgumentError(
      `grid: expected at most ${MAXIMUM_CANDIDATES} candidates, found ${count}`,
      axes[0]?.[0] ?? 'grid',
    )
  }
  let choices: Candidate['choice'][] = [{}]
  for (const [name, values] of axes) {
    choices = choices.flatMap((choice) => values.map((value) => ({ ...choice, [name]: value })))
  }
  return choices.map((choice) => ({
    choice,
    parameters: checkParameters({ ...options, ...(choice as DetectorOptions) }),
  }))
}

/** The grid with its options in the order of the candidates. */
export function orderedGrid(grid: ParameterGrid): ParameterGrid {
  return Object.fromEntries(orderedAxes(grid))
}

function orderedAxes(grid: ParameterGrid): [GridOption, readonly GridValue[]][] {
  const axes = Object.entries(grid).filter(([, values]) => values !== undefined)
  // candidates that differ in k alone have most work in common
  const rank = ([name]: [string, unknown]): number => (name === 'k' ? 1 : 0)
  return axes.sort((a, b) => rank(a) - rank(b)) as [GridOption, readonly GridValue[]][]
}

/** Parameter grids, and the choice of parameters and detectors (paper, "Minimal tuning"). */
import {
  ArgumentError,
  asMatrix,
  checkFinite,
  concatRows,
  createMatrix,
  DataError,
  exp,
  type Matrix,
  type MatrixLike,
  OddFlowError,
  type Rng,
  sampleWithoutReplacement,
  takeRows,
} from '@oddflow/core'
import {
  type CheckedParameters,
  checkParameters,
  createFitter,
  createScoreWorkspace,
  DEFAULT_DETECTOR,
  DETECTORS,
  type DetectorName,
  type DetectorOptions,
  detectorFigures,
  type GridOption,
  type GridValue,
  OPTION_NAMES,
  type RowOrigin,
  scoreSamples,
} from '@oddflow/detectors'
import { auc } from './auc.js'

/**
 * Each candidate is fitted to the same rows with the same randomness; the largest AUC on the validation rows wins (the
 * paper's "minimize AUC" is a slip), the first of equals. A candidate that cannot be fitted is left out with its
 * reason.
 */

/** Validation rows of both classes. */
export interface ValidationRows {
  readonly rows: Matrix
  /** One a row: 1 = novel. */
  readonly isNovel: Uint8Array
}

/** The AUC of a candidate, or why it could not be fitted. */
export interface CandidateResult {
  /** null where the candidate could not be fitted. */
  readonly auc: number | null
  /** Why not. */
  readonly failure: string | null
  /** The model's own figures, such as its bandwidth; none where there is no model. */
  readonly figures: Readonly<Record<string, number>>
}

/** The results of all candidates, and which one is best. */
export interface Selection {
  /** Of the candidate chosen. */
  readonly best: number
  /** One a candidate. */
  readonly results: readonly CandidateResult[]
}

/** Normal rows, then novel ones. Throws DataError for an empty class, ArgumentError for unusable rows. */
export function validationRows(
  normal: Matrix | MatrixLike,
  novel: Matrix | MatrixLike,
  dimension: number,
): ValidationRows {
  const [a, b] = (
    [
      ['normal', normal],
      ['novel', novel],
    ] as const
  ).map(([field, given]) => {
    const rows = asMatrix(given)
    if (rows.rows === 0) {
      throw new DataError(`${field} validation rows: expected at least one, found none`, field)
    }
    if (rows.cols !== dimension) {
      throw new ArgumentError(
        `${field} validation rows: expected ${dimension} columns as the training rows have, found ${rows.cols}`,
        field,
      )
    }
    checkFinite(rows, `${field} validation rows`)
    return rows
  }) as [Matrix, Matrix]
  return { rows: concatRows([a, b]), isNovel: new Uint8Array(a.rows + b.rows).fill(1, a.rows) }
}

/** Fits candidate number i and measures it. */
export type CandidateTrial = (index: number) => CandidateResult

/** A trial of candidates. Shared work is done once in the order of `candidateGroups`. Throws as `fitDetector`. */
export function createCandidateTrial(
  train: Matrix | MatrixLike,
  { rows, isNovel }: ValidationRows,
  candidates: readonly Candidate[],
  rng: Rng,
  origin: RowOrigin = {},
): CandidateTrial {
  const learn = createFitter(
    train,
    rng,
    candidates.map(({ parameters }) => parameters),
    origin,
  )
  const scores = new Float64Array(rows.rows)
  return (index) => {
    const candidate = candidates[index]
    if (candidate === undefined) throw new ArgumentError(`index: there is no candidate ${index}`, 'index')
    try {
      const model = learn(candidate.parameters)
      scoreSamples(model, rows, scores, createScoreWorkspace(model))
      const area = auc(scores, isNovel)
      return {
        auc: area.value,
        failure: area.value === null ? area.reason : null,
        figures: detectorFigures(model),
      }
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      return { auc: null, failure: error.message, figures: {} }
    }
  }
}

/** Numbers of candidates that are best tried one after another by one worker, for they have an embedding in common. */
export function candidateGroups(candidates: readonly Candidate[]): number[][] {
  const groups = new Map<string, number[]>()
  candidates.forEach(({ choice: { k, ...rest }, parameters }, index) => {
    const embeds = DETECTORS[parameters.detector].embedding !== undefined
    const key = embeds ? JSON.stringify(rest) : String(index)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [index])
    else group.push(index)
  })
  return [...groups.values()]
}

/** The first of the largest AUCs. Throws DataError where no candidate could be fitted. */
export function bestCandidate(results: readonly CandidateResult[]): number {
  let best = -1
  results.forEach(({ auc: area }, index) => {
    if (area !== null && (best < 0 || area > (results[best]?.auc ?? Number.NEGATIVE_INFINITY))) best = index
  })
  if (best < 0) {
    throw new DataError(
      results.length === 0
        ? 'candidates: expected at least one, found none'
        : `none of the ${results.length} candidates could be fitted; the first: ${results[0]?.failure}`,
      'candidates',
    )
  }
  return best
}

/** Tries all candidates, one after another, and chooses. */
export function selectParameters(
  train: Matrix | MatrixLike,
  validation: ValidationRows,
  candidates: readonly Candidate[],
  rng: Rng,
  onResult: (index: number, result: CandidateResult) => void = () => {},
): Selection {
  const attempt = createCandidateTrial(train, validation, candidates, rng)
  const results: CandidateResult[] = new Array(candidates.length)
  for (const index of candidateGroups(candidates).flat()) {
    const result = attempt(index)
    results[index] = result
    onResult(index, result)
  }
  return { best: bestCandidate(results), results }
}

/** For rows of a file, of which nothing else is known (docs/results/plain-rows.md). */
export const PLAIN_ROWS_DETECTORS = [
  { detector: 'gmm', k: 4 },
  { detector: 'oc-nystrom-qs' },
  { detector: 'hbos' },
] as const satisfies readonly DetectorOptions[]

/** Of fewer rows, the quarter that is held out says too little. */
const LEAST_ROWS_TO_CHOOSE = 40

/** The detector chosen for plain rows, and the others' results. */
export interface SuitedDetector {
  /** One of PLAIN_ROWS_DETECTORS. */
  readonly preset: DetectorOptions
  /** The AUC of each detector that was tried, null where it could not be fitted; empty where there was no choice. */
  readonly tried: readonly { readonly detector: DetectorName; readonly auc: number | null }[]
}

/** Chooses by `selectDetector` among PLAIN_ROWS_DETECTORS that take all options in `given`; null where none does. */
export function suitedDetector(rows: Matrix, given: DetectorOptions, rng: Rng): SuitedDetector | null {
  const names = OPTION_NAMES.filter((name) => given[name] !== undefined)
  const suited: readonly DetectorOptions[] = PLAIN_ROWS_DETECTORS.filter(({ detector }) =>
    names.every((name) => DETECTORS[detector].options.includes(name)),
  )
  if (suited.length === 0) return null
  // its sizes fit themselves to few rows
  const ofFewRows = suited.find(({ detector }) => detector === 'oc-nystrom-qs')
  if (suited.length === 1 || rows.rows < LEAST_ROWS_TO_CHOOSE) {
    return { preset: ofFewRows ?? suited[0]!, tried: [] }
  }
  const parameters = suited.map((preset) => checkParameters({ ...preset, ...given }))
  const { best, results } = selectDetector(rows, parameters, rng)
  return {
    preset: suited[best]!,
    tried: results.map(({ auc: area }, i) => ({ detector: parameters[i]!.detector, auc: area })),
  }
}

/** Rows that a choice of a detector looks at, and the share of them that it holds out. */
const CHOICE_ROWS = 4000
const CHOICE_HELD_SHARE = 0.25

/**
 * Chooses a detector for normal rows (n × D) without a novel row: the one that best tells held-out rows from copies
 * multiplied by exp(|z|), z standard normal. Throws as `selectParameters`.
 */
export function selectDetector(rows: Matrix, candidates: readonly CheckedParameters[], rng: Rng): Selection {
  const drawn = sampleWithoutReplacement(rows.rows, Math.min(CHOICE_ROWS, rows.rows), rng.fork('rows'))
  const heldRows = Math.max(1, Math.floor(CHOICE_HELD_SHARE * drawn.length))
  const held = takeRows(rows, drawn.subarray(0, heldRows))
  const among = takeRows(rows, drawn.subarray(heldRows).sort())
  const validation = validationRows(held, stretched(held, rng.fork('stretch')), rows.cols)
  const given = candidates.map((parameters) => ({ choice: {}, parameters }))
  return selectParameters(among, validation, given, rng.fork('fit'))
}

function stretched({ rows, cols, data }: Matrix, rng: Rng): Matrix {
  const out = createMatrix(rows, cols)
  for (let i = 0; i < rows; i++) {
    const factor = exp(Math.abs(rng.nextNormal()))
    for (let at = i * cols; at < (i + 1) * cols; at++) {
      out.data[at] = Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, data[at]! * factor))
    }
  }
  return out
}

/** Of each option that is searched, the values to try. */
export type ParameterGrid = {
  readonly [Name in GridOption]?: readonly NonNullable<DetectorOptions[Name]>[]
}

/** The grid of the paper's section "Minimal tuning". */
export const PAPER_GRID = {
  bandwidthQuantile: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95],
  k: [1, 4, 6, 8, 10, 12, 14, 16, 18, 20],
} as const satisfies ParameterGrid

/** One combination of parameter values to try. */
export interface Candidate {
  /** The values of the options that are searched, in the grid's order. */
  readonly choice: Readonly<Partial<Record<GridOption, GridValue>>>
  /** The choice among the options that are given. */
  readonly parameters: CheckedParameters
}

const MAXIMUM_CANDIDATES = 10_000

/** What of a grid applies: options that the detector takes and that are not given. */
export function applicableGrid(options: DetectorOptions, grid: ParameterGrid = PAPER_GRID): ParameterGrid {
  const { options: takes } = DETECTORS[options.detector ?? DEFAULT_DETECTOR]
  const isOpen = (name: GridOption): boolean => takes.includes(name) && options[name] === undefined
  return Object.fromEntries(Object.entries(grid).filter(([name]) => isOpen(name as GridOption)))
}

/**
 * Every combination of the grid's values with the given options, in the order in which ties go to the first; k changes
 * fastest. Throws ArgumentError with `field` set to the wrong option.
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

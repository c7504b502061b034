/** Models of every detector, scaler and precision with rows to score: what scorers in other languages are held against. */
import { type Matrix, matrixOf } from '@oddflow/core'
import {
  createScoreWorkspace,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorName,
  type DetectorOptions,
  encodeModelFile,
  type SavedModel,
  scoreSamples,
} from '../src/index.js'
import { variantsFor } from './conformance/fixtures.js'
import { sampleModel, sampleRows, summaryModel, summaryRows } from './model-file/sample.js'

export interface PortCase {
  readonly name: string
  readonly saved: SavedModel
  readonly bytes: Uint8Array
  readonly rows: Matrix
  /** What `scoreSamples` says. */
  readonly scores: Float64Array
}

const MEMBERS = DETECTOR_NAMES.filter((name) => name !== 'ensemble')

const optionsOf = (detector: DetectorName): DetectorOptions[] => {
  const takes: readonly string[] = DETECTORS[detector].options
  const variants = variantsFor(detector).map((options) =>
    Object.fromEntries(Object.entries(options).filter(([option]) => takes.includes(option))),
  )
  const own: Partial<Record<DetectorName, DetectorOptions[]>> = {
    gmm: [{ covariance: 'diagonal' }, { covariance: 'tied' }, { covariance: 'spherical', scaler: 'log' }],
    ocsvm: [{ kernel: 'linear', scaler: 'standard' }],
    ensemble: [{ members: ['nearest'] }, { members: ['hbos'] }, { members: MEMBERS }],
  }
  return [...new Map([...variants, ...(own[detector] ?? [])].map((o) => [JSON.stringify(o), o])).values()]
}

const EDGES = [
  0,
  -0,
  5e-324,
  1e-160,
  1,
  -1,
  30,
  1e9,
  -1e150,
  1e154,
  -1e300,
  Number.MAX_VALUE,
  -Number.MAX_VALUE,
]

/** Rows near the training rows, training rows, rows farther and farther away, and numbers at the ends of their range. */
function rowsToScore(rowsOf: (seed: number) => Matrix): Matrix {
  const [trained, others] = [rowsOf(1), rowsOf(9)]
  const { cols } = trained
  const far = others.data.map((value, at) =>
    at % cols === 19 ? value + (Math.floor(at / cols) % 5) - 2 : value * 2 ** (Math.floor(at / cols) % 40),
  )
  const edges = EDGES.flatMap((edge) =>
    Array.from({ length: cols + 1 }, (_, j) =>
      Array.from({ length: cols }, (_, t) => (j === cols || t === j ? edge : trained.data[t]!)),
    ),
  )
  const data = [...trained.data, ...others.data, ...far, ...edges.flat()]
  return matrixOf(data.length / cols, cols, Float64Array.from(data))
}

export function scoresOf({ detector }: SavedModel, rows: Matrix): Float64Array {
  return scoreSamples(detector, rows, new Float64Array(rows.rows), createScoreWorkspace(detector))
}

interface Plan {
  readonly name: string
  readonly train: () => SavedModel
  readonly rowsOf: (seed: number) => Matrix
}

function plans(): Plan[] {
  return DETECTOR_NAMES.flatMap((detector) =>
    optionsOf(detector).flatMap((options): Plan[] => {
      const given = { ...options, detector }
      const name = `${detector} ${JSON.stringify(options)}`
      const ofRows = {
        name: `${name} of rows`,
        train: () => sampleModel(given, false),
        rowsOf: sampleRows,
      }
      const ofFlows = {
        name: `${name} of flow summaries`,
        train: () => summaryModel(given),
        rowsOf: summaryRows,
      }
      // the sample has an m, which hbos alone refuses
      if (String(options.members) === 'hbos') return [ofFlows]
      return 'precision' in options || 'landmarks' in options ? [ofRows] : [ofRows, ofFlows]
    }),
  )
}

/** The default of captures; always among the cases. */
export const DEFAULT_CASE = 'ensemble {} of flow summaries'

let made: readonly PortCase[] | undefined

export function portCases(): readonly PortCase[] {
  if (made !== undefined) return made
  const all = plans()
  const isDefault = ({ name }: Plan): boolean => name === DEFAULT_CASE
  made = [...all.filter(isDefault), ...sampleOf(all.filter((plan) => !isDefault(plan)))].map(
    ({ name, train, rowsOf }) => {
      const saved = train()
      const rows = rowsToScore(rowsOf)
      return { name, saved, bytes: encodeModelFile(saved), rows, scores: scoresOf(saved, rows) }
    },
  )
  return made
}

/** The first score that differs in a bit, as a text for a failing test; undefined where none does. */
export function firstDifference({ name, rows, scores }: PortCase, found: Float64Array): string | undefined {
  if (found.length !== scores.length) return `${name}: ${found.length} scores in place of ${scores.length}`
  const at = scores.findIndex((score, i) => !Object.is(score, found[i]))
  if (at < 0) return undefined
  const row = rows.data.slice(at * rows.cols, (at + 1) * rows.cols)
  return `${name}: row ${at} scores ${found[at]} in place of ${scores[at]}: ${row.join(' ')}`
}

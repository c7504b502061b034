/** Models of every detector, scaler and precision with rows to score: what scorers in other languages are held against. */
import {
  ArgumentError,
  decodeSafetensors,
  encodeSafetensors,
  FormatError,
  type Matrix,
  matrixOf,
  type Tensor,
  takeRows,
} from '@oddflow/core'
import {
  createScoreWorkspace,
  DETECTOR_NAMES,
  DETECTORS,
  type DetectorName,
  decodeModelFile,
  encodeModelFile,
  type SavedModel,
  scoreSamples,
} from '../src/index.js'
import { CHECKSUM_OFFSET, modelFileChecksum } from '../src/model-file/layout.js'
import { variantsFor } from './conformance/fixtures.js'
import {
  type SampleOptions,
  sampleModel,
  sampleRows,
  summaryModel,
  summaryRows,
} from './model-file/sample.js'

export interface PortCase {
  readonly name: string
  readonly saved: SavedModel
  readonly bytes: Uint8Array
  readonly rows: Matrix
  /** What `scoreSamples` says. */
  readonly scores: Float64Array
}

const MEMBERS = DETECTOR_NAMES.filter((name) => name !== 'ensemble')

const optionsOf = (detector: DetectorName): SampleOptions[] => {
  const takes: readonly string[] = DETECTORS[detector].options
  const variants = variantsFor(detector).map((options) =>
    Object.fromEntries(Object.entries(options).filter(([option]) => takes.includes(option))),
  )
  const own: Partial<Record<DetectorName, SampleOptions[]>> = {
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
export function firstDifference(
  { name, rows, scores }: Omit<PortCase, 'bytes' | 'saved'>,
  found: Float64Array,
): string | undefined {
  if (found.length !== scores.length) return `${name}: ${found.length} scores in place of ${scores.length}`
  const at = scores.findIndex((score, i) => !Object.is(score, found[i]))
  if (at < 0) return undefined
  const row = rows.data.slice(at * rows.cols, (at + 1) * rows.cols)
  return `${name}: row ${at} scores ${found[at]} in place of ${scores[at]}: ${row.join(' ')}`
}

/** The file with its checksum made right again, as somebody can who forges one. */
export function signed(file: Uint8Array): Uint8Array {
  file.set(Buffer.from(modelFileChecksum(file)), CHECKSUM_OFFSET)
  return file
}

/** The file with one tensor in place of another. */
function withTensor(file: Uint8Array, name: string, tensor: Tensor): Uint8Array {
  const { tensors, metadata } = decodeSafetensors(file)
  return signed(encodeSafetensors({ tensors: new Map([...tensors, [name, tensor]]), metadata }))
}

/** Tensors that no fit makes of this one: another shape, and numbers out of any range. */
function forgeries({ dtype, shape, data }: Tensor): Tensor[] {
  const bad =
    dtype === 'F64' || dtype === 'F32' ? [Number.NaN, Number.POSITIVE_INFINITY, -1e300] : [-1, 40_000]
  const changed = bad.map((value) => {
    const numbers = data.slice()
    numbers[numbers.length >> 1] = value
    return { dtype, shape, data: numbers } as Tensor
  })
  const flat = { dtype, shape: [...shape, 1], data } as Tensor
  const none = { dtype, shape: shape.map(() => 0), data: data.slice(0, 0) } as Tensor
  return [...changed, flat, none]
}

interface ForgedCase {
  readonly name: string
  readonly bytes: Uint8Array
  readonly rows: Matrix
  /** null where the reader here refuses the file. */
  readonly read: Pick<PortCase, 'saved' | 'scores'> | null
}

/** Of a model of each detector among the cases, files with one tensor changed, and what is made of them here. */
export function forgedCases(): ForgedCase[] {
  const models = [...new Map(portCases().map((one) => [one.saved.detector.kind, one])).values()]
  const forged = models.flatMap((one) =>
    [...decodeSafetensors(one.bytes).tensors].flatMap(([tensor, value]) =>
      forgeries(value).map((other, i) => ({
        name: `${one.name}: ${tensor} ${i}`,
        bytes: withTensor(one.bytes, tensor, other),
        rows: takeRows(
          one.rows,
          Uint32Array.from({ length: 30 }, (_, row) => 7 * row),
        ),
      })),
    ),
  )
  return sampleOf(forged, 0.2).map((one) => ({ ...one, read: readHere(one.bytes, one.rows) }))
}

function readHere(bytes: Uint8Array, rows: Matrix): ForgedCase['read'] {
  try {
    const saved = decodeModelFile(bytes)
    return { saved, scores: scoresOf(saved, rows) }
  } catch (error) {
    if (error instanceof FormatError || error instanceof ArgumentError) return null
    throw error
  }
}

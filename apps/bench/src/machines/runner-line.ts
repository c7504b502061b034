/**
 * What the program of a bundle prints: JSON lines, first what the machine is, then an item each, then an end.
 *
 * The lines come from another machine, over a network or by hand, and their figures end up in trials and on pages. So
 * each is taken field by field, of bounded length, with nothing in it but short printable text and finite numbers.
 */
import { FormatError, parseStrictJson } from '@oddflow/core'
import { z } from 'zod'
import { METHOD_NAMES } from '../run/trial-model.js'
import { SHORT_NAME } from './machine-description.js'

/** UTF-16 units in a line. */
const MAXIMUM_LINE_LENGTH = 65_536

const digest = z.string().regex(/^[0-9a-f]{64}$/)
const shortName = z.string().regex(SHORT_NAME)
const text = z
  .string()
  .max(200)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u)
const amount = z.number().min(0)
const share = z.number().min(0).max(1)
const whole = z.number().int().min(0)
const count = z.number().int().min(1)
const detector = z.enum(METHOD_NAMES)
const sample = z.enum(['all', 'protocol'])

export const machineShape = z.strictObject({
  cpu: text,
  logicalCpus: count,
  memoryBytes: count,
  operatingSystem: text,
  architecture: shortName,
  libc: text.nullable(),
  node: text,
  governor: text.nullable(),
  maximumMegahertz: amount.nullable(),
  throttling: text.nullable(),
  wasmSimd: z.boolean(),
  vectorInstructions: z.array(text).max(20).readonly(),
  emulated: z.boolean(),
})

export const workShape = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('score'),
    dataset: shortName,
    features: shortName,
    detector,
    tuning: z.enum(['none', 'minimal']),
    repeat: whole,
    seed: whole,
    dataSha256: digest,
    sample,
  }),
  z.strictObject({
    kind: z.literal('fit'),
    dataset: shortName,
    features: shortName,
    detector,
    seed: whole,
    trainRows: count,
    dataSha256: digest,
  }),
])

export const expectedShape = z.strictObject({ modelSha256: digest, scoresSha256: digest.nullable() })

export const outcomeShape = z.strictObject({
  /** Of the model's file as this machine writes it. */
  modelSha256: digest,
  /** The next four: null for a fit. */
  scoresSha256: digest.nullable(),
  result: z
    .strictObject({
      sample,
      normal: count,
      novel: count,
      auc: share,
      aucVariance: share.nullable(),
      averagePrecision: share,
    })
    .nullable(),
  testRows: count.nullable(),
  testMillis: z.array(amount).min(1).max(1000).readonly().nullable(),
  /** null for scores. */
  fitMillis: amount.nullable(),
})

export const failureShape = z.strictObject({ failure: text.min(1) })

const lineShape = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('machine'),
    format: z.literal(1),
    name: shortName,
    bundleSha256: digest,
    machine: machineShape,
    loadAverage: amount.nullable(),
  }),
  z.strictObject({
    kind: z.literal('item'),
    index: whole,
    work: workShape,
    expected: expectedShape,
    outcome: z.union([outcomeShape, failureShape]),
  }),
  z.strictObject({ kind: z.literal('end'), items: whole, peakMemoryBytes: whole }),
])

export type ItemOutcome = z.infer<typeof outcomeShape>
export type RunnerLine = z.infer<typeof lineShape>
export type MachineLine = Extract<RunnerLine, { kind: 'machine' }>
export type ItemLine = Extract<RunnerLine, { kind: 'item' }>

/** Throws FormatError that names the field. */
export function decodeRunnerLine(line: string): RunnerLine {
  return checked(lineShape, line, 'result')
}

/** A line of JSON of the given shape. Throws FormatError whose message begins with `format`. */
export function checked<T>(
  shape: z.ZodType<T>,
  line: string,
  format: string,
  maximumLength: number = MAXIMUM_LINE_LENGTH,
): T {
  if (line.length > maximumLength) {
    throw new FormatError(format, `expected at most ${maximumLength} characters, found ${line.length}`)
  }
  const { value } = parseStrictJson(line, (message, position) => {
    throw new FormatError(format, message, { offsetBytes: position })
  })
  const { success, data, error } = shape.safeParse(value)
  if (success) return data
  const [first] = error.issues
  const field = first?.path.join('.') ?? ''
  throw new FormatError(format, `${field === '' ? format : field}: ${first?.message ?? 'is odd'}`, { field })
}

/**
 * Output of a bundle's program, as JSON lines: a machine, its items, an end. Another machine wrote them, so every field
 * is checked and bounded before it reaches trials and pages.
 */
import { z } from 'zod'
import { amount, count, digest, parseShape, positive, text } from '../files.js'
import { testResult } from '../run/trial.js'
import { METHOD_NAMES } from '../run/trial-model.js'
import { SHORT_NAME } from './machine-description.js'

const shortName = z.string().regex(SHORT_NAME)
const detector = z.enum(METHOD_NAMES)

export const machineShape = z.strictObject({
  cpu: text,
  logicalCpus: positive,
  memoryBytes: positive,
  operatingSystem: text,
  /** As Node names it: x64, arm64, arm. */
  architecture: shortName,
  /** `glibc 2.36`, or null: another C library, or no Linux. */
  libc: text.nullable(),
  node: text,
  /** Of the first processor's clock: performance, powersave, schedutil, … */
  governor: text.nullable(),
  maximumMegahertz: amount.nullable(),
  /** What the machine says of having been slowed down by heat or a weak supply, in its own words. */
  throttling: text.nullable(),
  wasmSimd: z.boolean(),
  /** Instruction sets that Node's engine may use. */
  vectorInstructions: z.array(text).max(100_000).readonly(),
  emulated: z.boolean(),
})

export const workShape = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('score'),
    dataset: shortName,
    features: shortName,
    detector,
    tuning: z.enum(['none', 'minimal']),
    repeat: count,
    seed: count,
    dataSha256: digest,
    sample: testResult.shape.sample,
  }),
  z.strictObject({
    kind: z.literal('fit'),
    dataset: shortName,
    features: shortName,
    detector,
    seed: count,
    trainRows: positive,
    dataSha256: digest,
  }),
])

export const expectedShape = z.strictObject({ modelSha256: digest, scoresSha256: digest.nullable() })

export const outcomeShape = z.strictObject({
  /** Of the model's file as this machine writes it. */
  modelSha256: digest,
  /** The next four: null for a fit. */
  scoresSha256: digest.nullable(),
  result: testResult.nullable(),
  testRows: positive.nullable(),
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
    index: count,
    work: workShape,
    expected: expectedShape,
    outcome: z.union([outcomeShape, failureShape]),
  }),
  z.strictObject({ kind: z.literal('end'), items: count, peakMemoryBytes: count }),
])

export type ItemOutcome = z.infer<typeof outcomeShape>
export type RunnerLine = z.infer<typeof lineShape>
export type MachineLine = Extract<RunnerLine, { kind: 'machine' }>
export type ItemLine = Extract<RunnerLine, { kind: 'item' }>

/** Throws FormatError that names the field. */
export function decodeRunnerLine(line: string): RunnerLine {
  return parseShape(lineShape, line, 'result')
}

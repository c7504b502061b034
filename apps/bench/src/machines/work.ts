/**
 * Work: what a bundle asks of a machine, in `work.json`. Each item carries the hashes expected of it; `files` has the
 * SHA-256 of all other files, so the hash of `work.json` is the hash of the bundle.
 */

import { createHash } from 'node:crypto'
import { endianness } from 'node:os'
import type { CheckedParameters } from '@oddflow/detectors'
import type { z } from 'zod'
import type { workShape } from './runner-line.js'

export const WORK_FILE = 'work.json'
export const PROGRAM_FILE = 'oddflow-bench.mjs'

/** What an item is of; the same whatever bundle it is in. */
type ItemWork = z.infer<typeof workShape>
type ScoreWork = Extract<ItemWork, { kind: 'score' }>
type FitWork = Extract<ItemWork, { kind: 'fit' }>

export interface ScoreItem {
  readonly work: ScoreWork
  /** Paths in the bundle. */
  readonly model: string
  readonly rows: string
  /** One column: 1 = novel. */
  readonly labels: string
  readonly expected: { readonly modelSha256: string; readonly scoresSha256: string }
}

export interface FitItem {
  readonly work: FitWork
  readonly rows: string
  readonly parameters: CheckedParameters
  readonly expected: { readonly modelSha256: string; readonly scoresSha256: null }
}

export type WorkItem = ScoreItem | FitItem

export interface Work {
  readonly format: 1
  /** Part of every model's provenance. */
  readonly oddflowVersion: string
  /** Timed passes over the test rows. */
  readonly testRuns: number
  readonly files: Readonly<Record<string, string>>
  readonly items: readonly WorkItem[]
}

export const isFitItem = (item: WorkItem): item is FitItem => item.work.kind === 'fit'

/** For people: `ctu-rows oc-kjl-qs, tuning none, repeat 0`. */
export function describeWork(work: ItemWork): string {
  const what = `${work.dataset} ${work.detector}`
  return work.kind === 'fit'
    ? `${what}, fit of ${work.trainRows} rows`
    : `${what}, tuning ${work.tuning}, repeat ${work.repeat}`
}

/** Equal for the same item of two bundles. */
export function workItemKey(work: ItemWork): string {
  const tail = work.kind === 'fit' ? [work.trainRows] : [work.tuning, work.repeat]
  return [work.kind, work.dataset, work.features, work.detector, work.seed, ...tail].join(' ')
}

/** 64 lower-case hexadecimal digits. */
export function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Over the little-endian float64 values: equal hashes, equal scores to the last bit. */
export const hashScores = (scores: Float64Array): string => sha256(littleEndian(scores))

export function littleEndian({ buffer, byteOffset, byteLength }: Float64Array): Buffer {
  const bytes = Buffer.from(buffer, byteOffset, byteLength)
  return endianness() === 'LE' ? bytes : Buffer.from(bytes).swap64()
}

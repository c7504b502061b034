/**
 * The paper's sampling ("Results Averaging"): one test sample, then training and validation rows for each repeat. No
 * row is in two samples of a repeat. Each repeat has its own streams, so repeat 3 is the same of three repeats or five.
 */
import { ArgumentError, DataError, type Rng, sampleWithoutReplacement } from '@oddflow/core'

/** Numbers of rows that an experiment draws. */
export interface ProtocolCounts {
  readonly repeats: number
  readonly train: number
  /** Rows of each class. */
  readonly validation: { readonly normal: number; readonly novel: number }
  readonly test: { readonly normal: number; readonly novel: number }
}

/** n = 5,000, validation 75 + 75, test 300 + 300, five repeats. */
export const PAPER_PROTOCOL: ProtocolCounts = {
  repeats: 5,
  train: 5000,
  validation: { normal: 75, novel: 75 },
  test: { normal: 300, novel: 300 },
}

/** Row numbers in the pools of normal and novel rows. */
export interface LabelledRows {
  readonly normal: Uint32Array
  readonly novel: Uint32Array
}

/** The rows of one repeat, as indices into the pools. */
export interface RepeatRows {
  /** In the normal pool. */
  readonly train: Uint32Array
  readonly validation: LabelledRows
}

/** The rows that an experiment draws: one test set, and training and validation rows of each repeat. */
export interface ProtocolRows {
  readonly test: LabelledRows
  readonly repeats: readonly RepeatRows[]
}

/** Throws ArgumentError for counts that are no whole numbers, DataError when a pool is too small. */
export function drawProtocol(
  pool: { readonly normal: number; readonly novel: number },
  counts: ProtocolCounts,
  rng: Rng,
): ProtocolRows {
  checkCounts(counts)
  for (const kind of ['normal', 'novel'] as const) checkCount(`pool.${kind}`, pool[kind])
  const needed = {
    normal: counts.test.normal + counts.train + counts.validation.normal,
    novel: counts.test.novel + counts.validation.novel,
  }
  for (const kind of ['normal', 'novel'] as const) {
    if (pool[kind] < needed[kind]) {
      throw new DataError(`${kind} rows: the protocol needs ${needed[kind]}, found ${pool[kind]}`, kind)
    }
  }
  const test = drawLabelled(pool, counts.test, rng.fork('test'))
  const left = { normal: without(pool.normal, test.normal), novel: without(pool.novel, test.novel) }
  const repeats = Array.from({ length: counts.repeats }, (_, r): RepeatRows => {
    const stream = rng.fork(`repeat ${r}`)
    const train = pick(
      left.normal,
      sampleWithoutReplacement(left.normal.length, counts.train, stream.fork('train')),
    )
    const untrained = without(pool.normal, test.normal, train)
    const available = { normal: untrained.length, novel: left.novel.length }
    const drawn = drawLabelled(available, counts.validation, stream.fork('validation'))
    return {
      train,
      validation: { normal: pick(untrained, drawn.normal), novel: pick(left.novel, drawn.novel) },
    }
  })
  return { test, repeats }
}

/** Draws rows of both classes without replacement. Throws ArgumentError when there are not enough. */
export function drawLabelled(
  pool: { readonly normal: number; readonly novel: number },
  counts: { readonly normal: number; readonly novel: number },
  rng: Rng,
): LabelledRows {
  return {
    normal: sampleWithoutReplacement(pool.normal, counts.normal, rng.fork('normal')),
    novel: sampleWithoutReplacement(pool.novel, counts.novel, rng.fork('novel')),
  }
}

function checkCounts(counts: ProtocolCounts): void {
  if (!Number.isSafeInteger(counts.repeats) || counts.repeats < 1 || counts.repeats > 10_000) {
    throw new ArgumentError(
      `repeats: expected a whole number from 1 to 10000, found ${counts.repeats}`,
      'repeats',
    )
  }
  checkCount('train', counts.train)
  for (const part of ['validation', 'test'] as const) {
    for (const kind of ['normal', 'novel'] as const) checkCount(`${part}.${kind}`, counts[part][kind])
  }
}

function checkCount(field: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0 || value >= 2 ** 32) {
    throw new ArgumentError(
      `${field}: expected a whole number of 0 or more, below 2^32, found ${value}`,
      field,
    )
  }
}

/** The numbers below `n` that are in none of `taken` (which have nothing in common), ascending. */
function without(n: number, ...taken: readonly Uint32Array[]): Uint32Array {
  const isTaken = new Uint8Array(n)
  let left = n
  for (const rows of taken) {
    for (const row of rows) isTaken[row] = 1
    left -= rows.length
  }
  const found = new Uint32Array(left)
  let at = 0
  for (let row = 0; row < n; row++) if (isTaken[row] === 0) found[at++] = row
  return found
}

function pick(rows: Uint32Array, positions: Uint32Array): Uint32Array {
  return positions.map((position) => rows[position]!)
}

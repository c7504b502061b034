/**
 * EmbeddingPlan: where the one-call kernels of assembly/embedding.ts find what they work on. Its fields and their
 * order are those of the class Plan there; addresses are bytes, the rest whole numbers but for the factor.
 */
import type { KernelMemory } from './simd-kernels.js'

/** The 32-bit words after the factor. */
const WORDS = [
  'x',
  'exact',
  'landmarks',
  'panels',
  'dimension',
  'stride',
  'distances',
  'kernel',
  'projection',
  'm',
  'width',
  'z',
  'weights',
  'nearest',
  'means',
  'factors',
  'logNormalisers',
  'groups',
  'd',
  'k',
  'differences',
  'terms',
  'largest',
  'ends',
  'sums',
] as const

export type EmbeddingPlan = Readonly<Record<(typeof WORDS)[number], number>> & {
  /** −1/h². */
  readonly factor: number
}

/** Numbers of float64 that a plan takes. */
export const EMBEDDING_PLAN_NUMBERS = 1 + Math.ceil(WORDS.length / 2)

export function writeEmbeddingPlan(plan: EmbeddingPlan, { f64, i32 }: KernelMemory, address: number): void {
  f64[address / 8] = plan.factor
  WORDS.forEach((word, i) => {
    i32[address / 4 + 2 + i] = plan[word]
  })
}

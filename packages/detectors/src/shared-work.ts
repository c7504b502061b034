/**
 * SharedWork: what fits to the same rows have in common.
 *
 * A grid of parameters is fitted to the same rows with the same Rng again and again. The distances between pairs of
 * rows do not depend on the quantile that is taken of them, nor the embedded rows on the number of components. So
 * fits that are made one after another pass their steps through `once`, which keeps the latest value of each kind
 * for as long as what it was made from is the same. A step draws from forks of the Rng alone, so a value kept is, bit
 * for bit, the value that would be made again.
 */
export interface SharedWork {
  /** Bandwidth quantiles that fits to come will ask for, so that one pass over the pairs finds them all. */
  readonly quantiles: readonly number[]
  /** What `make` gives, or gave the last time when `inputs` were the same (Object.is, one by one). */
  once<T>(kind: string, inputs: readonly unknown[], make: () => T): T
}

/** For a single fit. */
export const NOTHING_SHARED: SharedWork = { quantiles: [], once: (_kind, _inputs, make) => make() }

export function createSharedWork(quantiles: readonly number[]): SharedWork {
  const kept = new Map<string, { readonly inputs: readonly unknown[]; readonly value: unknown }>()
  return {
    quantiles,
    once<T>(kind: string, inputs: readonly unknown[], make: () => T): T {
      const found = kept.get(kind)
      if (found?.inputs.every((input, i) => Object.is(input, inputs[i]))) return found.value as T
      const value = make()
      kept.set(kind, { inputs, value })
      return value
    },
  }
}

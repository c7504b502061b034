/**
 * SharedWork: reuses work between fits to the same rows.
 *
 * A parameter search fits the same rows with the same Rng many times. Pair distances do not depend on the quantile, and
 * embedded rows do not depend on the number of components. `once` keeps the latest value of each kind while its inputs
 * stay the same. A step uses only forks of the Rng, so a kept value equals a recomputed one, bit for bit.
 */
export interface SharedWork {
  /** Bandwidth quantiles that later fits will need, so one pass over the pairs finds them all. */
  readonly quantiles: readonly number[]
  /** The value of `make`, or the previous one if `inputs` are the same (Object.is, element by element). */
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

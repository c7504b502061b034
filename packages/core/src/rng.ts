/**
 * The only source of randomness in OddFlow; not for secrets. xoshiro128** (Blackman and Vigna, 2021), seeded through
 * splitmix32, in 32-bit integer operations. Normal deviates by Marsaglia's polar method with OddFlow's own logarithm.
 */
import { ArgumentError } from './errors.js'
import { log } from './exp-log.js'

/** A seeded generator of random numbers with the same bits on every machine. */
export interface Rng {
  /** A whole number of 32 bits. */
  nextUint32(): number
  /** Uniform on [0, 1) with 53 bits. */
  nextFloat(): number
  /** Uniform whole number in [0, bound), without modulo bias; 1 ≤ bound ≤ 2^32. */
  nextBelow(bound: number): number
  /** Standard normal. */
  nextNormal(): number
  /** A stream of its own that depends on this seed and on `label` alone, not on what was drawn so far. */
  fork(label: string): Rng
}

/** Throws ArgumentError unless `seed` is a whole number in [0, 2^53). */
export function createRng(seed: number): Rng {
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new ArgumentError(`seed: expected a whole number from 0 to 2^53 − 1, found ${seed}`, 'seed')
  }
  return createFrom(seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0)
}

function createFrom(low: number, high: number): Rng {
  // splitmix32 over both halves; four outputs cannot all be zero in a row
  let mix = (low ^ Math.imul(high, 0x9e3779b1)) >>> 0
  const seedWord = (): number => {
    mix = (mix + 0x9e3779b9) >>> 0
    let z = mix
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) >>> 0
  }
  let a = seedWord()
  let b = seedWord()
  let c = seedWord() ^ high
  let d = seedWord()
  if ((a | b | c | d) === 0) d = 1
  let spare = 0
  let hasSpare = false

  const nextUint32 = (): number => {
    const t5 = Math.imul(b, 5)
    const result = Math.imul((t5 << 7) | (t5 >>> 25), 9) >>> 0
    const t = b << 9
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= t
    d = (d << 11) | (d >>> 21)
    return result
  }
  const nextFloat = (): number => {
    const high26 = nextUint32() >>> 6
    return (high26 * 134217728 + (nextUint32() >>> 5)) / 9007199254740992
  }
  return {
    nextUint32,
    nextFloat,
    nextBelow(bound) {
      if (!Number.isSafeInteger(bound) || bound < 1 || bound > 4294967296) {
        throw new ArgumentError(`bound: expected a whole number from 1 to 2^32, found ${bound}`, 'bound')
      }
      const limit = 4294967296 - (4294967296 % bound)
      let value = nextUint32()
      while (value >= limit) value = nextUint32()
      return value % bound
    },
    nextNormal() {
      if (hasSpare) {
        hasSpare = false
        return spare
      }
      for (;;) {
        const x = 2 * nextFloat() - 1
        const y = 2 * nextFloat() - 1
        const s = x * x + y * y
        if (s >= 1 || s === 0) continue
        const factor = Math.sqrt((-2 * log(s)) / s)
        spare = y * factor
        hasSpare = true
        return x * factor
      }
    },
    fork(label) {
      // FNV-1a over the label's UTF-16 code units, folded into the seed
      let hash = 0x811c9dc5
      for (let i = 0; i < label.length; i++) {
        hash = Math.imul(hash ^ (label.charCodeAt(i) & 0xff), 0x01000193)
        hash = Math.imul(hash ^ (label.charCodeAt(i) >>> 8), 0x01000193)
      }
      return createFrom((low ^ hash) >>> 0, (Math.imul(high ^ 0x5bd1e995, 0x85ebca6b) ^ hash) >>> 0)
    },
  }
}

/** `count` different whole numbers below `n`, in the order drawn (Floyd's set, then shuffled: uniform). */
export function sampleWithoutReplacement(n: number, count: number, rng: Rng): Uint32Array {
  if (!Number.isSafeInteger(count) || count < 0 || count > n) {
    throw new ArgumentError(`count: expected a whole number from 0 to ${n}, found ${count}`, 'count')
  }
  const chosen = new Set<number>()
  for (let j = n - count; j < n; j++) {
    const t = rng.nextBelow(j + 1)
    chosen.add(chosen.has(t) ? j : t)
  }
  return shuffleInPlace(Uint32Array.from(chosen), rng)
}

/** Fisher–Yates. Returns its argument. */
export function shuffleInPlace(values: Uint32Array, rng: Rng): Uint32Array {
  for (let i = values.length - 1; i > 0; i--) {
    const j = rng.nextBelow(i + 1)
    const t = values[i]!
    values[i] = values[j]!
    values[j] = t
  }
  return values
}

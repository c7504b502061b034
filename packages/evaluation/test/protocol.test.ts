import { ArgumentError, createRng, DataError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { drawProtocol, PAPER_PROTOCOL, type ProtocolCounts } from '../src/index.js'

const small: ProtocolCounts = {
  repeats: 4,
  train: 20,
  validation: { normal: 5, novel: 3 },
  test: { normal: 10, novel: 6 },
}
/** The pools of the paper's appendix. */
const pools: [string, number, number][] = [
  ['UNB', 26942, 1284],
  ['CTU', 21970, 6929],
  ['MAWI', 8320, 5558],
  ['MACCDC', 24233, 5721],
  ['SFRIG', 86088, 903],
  ['AECHO', 27621, 729],
  ['DWSHR', 153089, 335],
]

describe('drawProtocol', () => {
  it('never trains or validates on a test row, nor trains on a validation row', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat({ max: 60 }), fc.nat({ max: 20 }), (seed, moreNormal, moreNovel) => {
        const drawn = drawProtocol({ normal: 35 + moreNormal, novel: 9 + moreNovel }, small, createRng(seed))
        for (const { train, validation } of drawn.repeats) {
          const normal = [...drawn.test.normal, ...train, ...validation.normal]
          const novel = [...drawn.test.novel, ...validation.novel]
          expect(new Set(normal).size).toBe(35)
          expect(new Set(novel).size).toBe(9)
          expect(Math.max(...normal)).toBeLessThan(35 + moreNormal)
          expect(Math.max(...novel)).toBeLessThan(9 + moreNovel)
        }
      }),
    )
  })

  it('draws the same for the same seed, and repeat r whatever the number of repeats', () => {
    const pool = { normal: 100, novel: 50 }
    const four = drawProtocol(pool, small, createRng(3))
    const two = drawProtocol(pool, { ...small, repeats: 2 }, createRng(3))
    expect(two.test).toEqual(four.test)
    expect(two.repeats).toEqual(four.repeats.slice(0, 2))
    const untuned = drawProtocol(pool, { ...small, validation: { normal: 0, novel: 0 } }, createRng(3))
    expect(untuned.repeats.map(({ train }) => train)).toEqual(four.repeats.map(({ train }) => train))
    expect(four.repeats[0]).not.toEqual(four.repeats[1])
    expect(drawProtocol(pool, small, createRng(4)).test).not.toEqual(four.test)
  })

  it('draws every row as often as another', () => {
    const times = new Uint32Array(40)
    for (let seed = 0; seed < 4000; seed++) {
      const drawn = drawProtocol({ normal: 40, novel: 9 }, { ...small, repeats: 1 }, createRng(seed))
      for (const row of drawn.repeats[0]!.train) times[row]!++
    }
    // each 2,000 times of 4,000; 5 standard errors
    for (const count of times) expect(Math.abs(count - 2000)).toBeLessThan(5 * Math.sqrt(4000 / 4))
  })

  it.each(pools)("takes what the paper takes from %s's pool", (name, normal, novel) => {
    if (name === 'DWSHR') {
      // 335 novel rows hold 300 to test and 35 to validate: the paper's 75 must have overlapped
      expect(() => drawProtocol({ normal, novel }, PAPER_PROTOCOL, createRng(1))).toThrow(
        'novel rows: the protocol needs 375, found 335',
      )
      return
    }
    const drawn = drawProtocol({ normal, novel }, PAPER_PROTOCOL, createRng(1))
    expect(drawn.repeats.map(({ train }) => train.length)).toEqual([5000, 5000, 5000, 5000, 5000])
    expect([drawn.test.normal.length, drawn.test.novel.length]).toEqual([300, 300])
    expect(drawn.repeats[4]!.validation.novel.length).toBe(75)
  })

  it('names what is missing or odd', () => {
    expect(() => drawProtocol({ normal: 34, novel: 9 }, small, createRng(1))).toThrow(DataError)
    expect(() => drawProtocol({ normal: 35, novel: 9 }, { ...small, train: 1.5 }, createRng(1))).toThrow(
      ArgumentError,
    )
    expect(() => drawProtocol({ normal: -1, novel: 9 }, small, createRng(1))).toThrow(/pool\.normal/)
    expect(() => drawProtocol({ normal: 35, novel: 9 }, { ...small, repeats: 0 }, createRng(1))).toThrow(
      /repeats/,
    )
  })
})

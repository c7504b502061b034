/** Packets in the order of their times, on a clock that steps do not disturb. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createPacketBatch, PacketOrder, type PacketOrderCounts } from '../src/index.js'
import { REORDER_PACKETS } from '../src/packet-order.js'

interface Given {
  /** Number in the capture. */
  readonly number: number
  /** On the flow clock. */
  readonly time: number
  readonly stamp: number
}

interface Outcome {
  readonly given: readonly Given[]
  readonly counts: PacketOrderCounts
}

/** Orders packets with these times in batches of these sizes, again and again; `between` is called after each batch. */
function order(
  times: readonly number[],
  sizes: readonly number[] = [64],
  between: (order: PacketOrder, next: number) => void = () => {},
): Outcome {
  const given: Given[] = []
  const packets = new PacketOrder((batch, from, to, numbers, stamps) => {
    for (let i = from; i < to; i++) {
      const number = numbers?.[i] ?? batch.firstFrame + i
      // Every column comes along.
      expect([batch.frameBytes[i], batch.sourcePort[i]]).toEqual([number, number % 65536])
      expect([batch.destinationAddress[4 * i + 3], batch.sourceMac[6 * i + 5]]).toEqual([
        number,
        number % 256,
      ])
      given.push({ number, time: batch.timestampMicros[i]!, stamp: stamps[i]! })
    }
  })
  const batch = createPacketBatch(Math.max(...sizes))
  for (let start = 0, k = 0; start < times.length; k++) {
    const size = Math.min(sizes[k % sizes.length]!, times.length - start)
    batch.count = size
    batch.firstFrame = start
    for (let i = 0; i < size; i++) {
      batch.timestampMicros[i] = times[start + i]!
      batch.frameBytes[i] = start + i
      batch.sourcePort[i] = start + i
      batch.destinationAddress[4 * i + 3] = start + i
      batch.sourceMac[6 * i + 5] = start + i
    }
    packets.add(batch)
    start += size
    between(packets, start)
  }
  packets.finish()
  expect(packets.heldPackets).toBe(0)
  return { given, counts: { ...packets.counts } }
}

const NOTHING = { reorderedPackets: 0, latePackets: 0, backwardPackets: 0, clockSteps: 0, futurePackets: 0 }
const SECOND = 1_000_000
const HOUR = 3600 * SECOND
const YEAR = 365 * 24 * HOUR

const gapsOf = (times: readonly number[]): number[] => times.slice(1).map((time, i) => time - times[i]!)
/** Gaps on the flow clock, in seconds. */
const secondsBetween = ({ given }: Outcome): number[] => gapsOf(given.map(({ time }) => time / SECOND))
const inSeconds = (...times: number[]): number[] => times.map((t) => 1_000_000 * SECOND + t * SECOND)

/** Sums of the first one, two, … steps; what is no number stays that and counts as 0. */
function sums(steps: readonly number[], from = 0): number[] {
  let sum = from
  return steps.map((step) => {
    if (Number.isNaN(step)) return step
    sum += step
    return sum
  })
}

/** Each packet comes so long after the one before it, and was stamped at most 10 ms before it came. */
function lateTimes(each: readonly (readonly [number, number])[], from = 0): number[] {
  const came = sums(
    each.map(([gap]) => 100 * gap),
    from,
  )
  return came.map((time, i) => time - 100 * each[i]![1])
}

const sizes = fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 5 })

describe('a capture in order', () => {
  it('goes through as it is', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 30_000 }), { maxLength: 2000 }),
        sizes,
        (gaps, batches) => {
          let time = 0
          const times = gaps.map((gap) => (time += gap))
          const { given, counts } = order(times, batches)
          expect(given).toEqual(times.map((t, number) => ({ number, time: t, stamp: t })))
          expect(counts).toEqual(NOTHING)
        },
      ),
      { numRuns: 50 },
    )
  })

  it('may be silent for days', () => {
    const outcome = order(inSeconds(0, 1, 500_000, 500_001))
    expect(secondsBetween(outcome)).toEqual([1, 499_999, 1])
    expect(outcome.counts).toEqual(NOTHING)
  })
})

describe('late packets', () => {
  it('are sorted where they are late by no more than the window, those of one time in the order they came', () => {
    const packets = fc.array(fc.tuple(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 100 })), {
      maxLength: 1500,
    })
    fc.assert(
      fc.property(packets, sizes, (each, batches) => {
        const times = lateTimes(each)
        const { given, counts } = order(times, batches)
        const sorted = times
          .map((time, number) => ({ number, time, stamp: time }))
          .sort((x, y) => x.time - y.time || x.number - y.number)
        expect(given).toEqual(sorted)
        expect(counts.clockSteps + counts.backwardPackets + counts.futurePackets).toBe(0)
      }),
      { numRuns: 100 },
    )
  })

  it('are sorted among as many as are held', () => {
    const times = Array.from({ length: 4 * REORDER_PACKETS }, (_, i) => i)
    const late = times.splice(10, 1)[0]!
    times.splice(10 + REORDER_PACKETS - 1, 0, late)
    expect(order(times).given.map(({ time }) => time)).toEqual([...times].sort((x, y) => x - y))
    const later = times.splice(300, 1)[0]!
    times.splice(300 + REORDER_PACKETS + 5, 0, later)
    const { given } = order(times)
    expect(given.findIndex(({ time }) => time === later)).toBe(305)
  })

  it('later than the window disturb no other: the times return', () => {
    const sparse = order([0, 100, 200, 300, 260, 500, 600].map((t) => 1000 * t))
    expect(sparse.given.map(({ time }) => time / 1000)).toEqual([0, 100, 200, 300, 300, 500, 600])
    expect(sparse.counts).toEqual({ ...NOTHING, latePackets: 1, backwardPackets: 1 })
    // More than a clock is slewed by.
    const dense = Array.from({ length: 400 }, (_, i) => 1000 * i)
    dense[300] -= 200_000
    dense[301] -= 200_000
    const { given, counts } = order(dense)
    expect(counts).toEqual({ ...NOTHING, latePackets: 2, backwardPackets: 1 })
    expect(given.map(({ time }) => time)).toEqual(
      dense.map((t, i) => (i === 300 ? 299_000 : i === 301 ? 300_000 : t)),
    )
  })
})

describe('a clock that is set', () => {
  it('back disturbs the gap at the step alone', () => {
    const outcome = order(inSeconds(0, 1, 2, -7, -6, -5))
    expect(secondsBetween(outcome)).toEqual([1, 1, 0, 1, 1])
    expect(outcome.given.map(({ stamp }) => stamp)).toEqual(inSeconds(0, 1, 2, -7, -6, -5))
    expect(outcome.counts).toEqual({ ...NOTHING, backwardPackets: 1, clockSteps: 1 })
  })

  it('forward by years disturbs the gap at the step alone', () => {
    const late = (YEAR / SECOND) * 30
    const outcome = order(inSeconds(0, 1, late, late + 1, late + 3))
    expect(secondsBetween(outcome)).toEqual([1, 0, 1, 2])
    expect(outcome.counts).toEqual({ ...NOTHING, clockSteps: 1 })
  })

  it('any number of times leaves all other gaps as they are, in any batches', () => {
    const steps = fc.oneof(
      { weight: 6, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: -24 * HOUR, max: -7 * SECOND }) },
      { weight: 1, arbitrary: fc.integer({ min: SECOND, max: 24 * HOUR }) },
      { weight: 1, arbitrary: fc.constantFrom(-40 * YEAR, 2 * YEAR) },
    )
    const packets = fc.array(fc.tuple(fc.integer({ min: 0, max: 5 * SECOND }), steps), { maxLength: 300 })
    fc.assert(
      fc.property(packets, sizes, (each, batches) => {
        const times = sums(
          each.map(([gap, step]) => gap + step),
          50 * YEAR,
        )
        const { given } = order(times, batches)
        expect(given.map(({ number }) => number)).toEqual(times.map((_, number) => number))
        const gaps = gapsOf(given.map(({ time }) => time))
        each.slice(1).forEach(([gap, step], i) => {
          if (step === 0) expect(gaps[i]).toBe(gap)
          else expect(gaps[i]).toBeGreaterThanOrEqual(0)
        })
      }),
      { numRuns: 300 },
    )
  })
})

describe('a clock that is known to be set', () => {
  const set = (by: number, after: number) => (packets: PacketOrder, next: number) => {
    if (next === after) packets.clockSet(by)
  }
  it.each([1, 20, 3600, 86_400 * 3, 86_400 * 365 * 20])(
    'by %i s forward disturbs no gap, which it would otherwise take for a silence',
    (step) => {
      const times = inSeconds(0, 1, 2, step + 2.25, step + 3.25)
      const told = order(times, [1], set(step * SECOND, 3))
      expect(secondsBetween(told)).toEqual([1, 1, 0.25, 1])
      expect(told.given.map(({ stamp }) => stamp)).toEqual(times)
      expect(told.counts).toEqual({ ...NOTHING, clockSteps: 1 })
    },
  )

  it('shows in the next packets, also in late ones, and a step back and forth is none', () => {
    const late = order(inSeconds(0, 1, 1.999, 602, 603), [1], set(600 * SECOND, 2))
    expect(secondsBetween(late).map((gap) => Math.round(1000 * gap))).toEqual([1000, 999, 1, 1000])
    const undone = order(inSeconds(0, 1, 700, 701), [1], (packets, next) => {
      if (next !== 2) return
      packets.clockSet(600 * SECOND)
      packets.clockSet(-600 * SECOND)
    })
    expect(secondsBetween(undone)).toEqual([1, 699, 1])
    expect(undone.counts).toEqual(NOTHING)
  })

  it('and that no packet shows within a minute shows in none: a silence is a silence again', () => {
    const outcome = order(inSeconds(0, 1, 30, 63, 64, 800), [1], set(600 * SECOND, 2))
    expect(secondsBetween(outcome)).toEqual([1, 29, 33, 1, 736])
    expect(outcome.counts).toEqual(NOTHING)
  })

  it('is reported before the packets after it are delivered, with the number of the first', () => {
    const steps = fc.constantFrom(0, 0, 0, -2 * YEAR, -HOUR, -2 * SECOND, 3 * YEAR)
    const packets = fc.array(fc.tuple(fc.integer({ min: 20_000, max: 5 * SECOND }), steps), { maxLength: 60 })
    fc.assert(
      fc.property(packets, sizes, (each, batches) => {
        const times = sums(
          // one that is ahead is from the future if the next one is not: two of each
          each.flatMap(([gap, step]) => [gap + step, gap]),
          50 * YEAR,
        )
        const told: { by: number; number: number }[] = []
        const given: { number: number; clock: number }[] = []
        const packetsInOrder = new PacketOrder(
          (batch, from, to, numbers, stamps) => {
            for (let i = from; i < to; i++) {
              const number = numbers?.[i] ?? batch.firstFrame + i
              const by = told.reduce((sum, step) => sum + (number < step.number ? step.by : 0), 0)
              given.push({ number, clock: stamps[i]! + by - batch.timestampMicros[i]! })
            }
          },
          undefined,
          (by, number) => told.push({ by, number }),
        )
        const batch = createPacketBatch(1000)
        for (let start = 0, k = 0; start < times.length; k++) {
          const size = Math.min(batches[k % batches.length]!, times.length - start)
          batch.count = size
          batch.firstFrame = start
          for (let i = 0; i < size; i++) batch.timestampMicros[i] = times[start + i]!
          packetsInOrder.add(batch)
          start += size
        }
        const offset = told.reduce((sum, { by }) => sum + by, 0)
        packetsInOrder.finish()
        // in the capture's clock as it is at the end, all are apart from the flow clock by the same
        for (const { number, clock } of given) {
          const later = told.filter((step) => step.number > number).length
          const known = given.length - later
          expect(known).toBeGreaterThan(0)
          if (number >= (told.at(-1)?.number ?? 0)) expect(clock).toBe(offset)
        }
      }),
      { numRuns: 200 },
    )
  })
})

describe('a packet from the future', () => {
  it.each([YEAR, HOUR, 100 * SECOND])('disturbs the gaps beside it alone: %i µs', (ahead) => {
    for (const size of [1, 2, 3, 64]) {
      const times = inSeconds(0, 1, 2, 3, 4, 5)
      times[2] += ahead
      const outcome = order(times, [size])
      expect(secondsBetween(outcome)).toEqual([1, 0, 2, 1, 1])
      expect(outcome.counts).toEqual({ ...NOTHING, futurePackets: 1 })
    }
  })

  it('may be the last', () => {
    const outcome = order(inSeconds(0, 1, YEAR / SECOND))
    expect(secondsBetween(outcome)).toEqual([1, 0])
    expect(outcome.counts).toEqual({ ...NOTHING, futurePackets: 1 })
  })

  it('is not what is up to date', () => {
    const seen: number[] = []
    order(inSeconds(0, 1, YEAR / SECOND, 3, 4), [1], (packets) => seen.push(packets.latestMicros))
    expect(seen).toEqual(inSeconds(0, 1, 1, 3, 4))
  })
})

const untidy = fc.array(
  fc.oneof(
    { weight: 12, arbitrary: fc.integer({ min: 0, max: 3000 }) },
    { weight: 4, arbitrary: fc.integer({ min: -3000, max: 0 }) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(Number.NaN, -500_000, 500_000, 70 * SECOND, YEAR, -YEAR, -70 * SECOND),
    },
  ),
  { maxLength: 1500 },
)

describe('batches', () => {
  it('change nothing, whatever the times', () => {
    fc.assert(
      fc.property(untidy, sizes, (steps, batches) => {
        const times = sums(steps, 100 * YEAR)
        const expected = order(times, [times.length + 1])
        expect(order(times, batches)).toEqual(expected)
        expect(order(times, [1])).toEqual(expected)
        expect(expected.given.map(({ number }) => number).sort((x, y) => x - y)).toEqual(
          times.map((_, i) => i),
        )
      }),
      { numRuns: 100 },
    )
  })
})

describe('advance', () => {
  it('gives out at once what no packet can come before, and changes nothing', () => {
    const packets = fc.array(fc.tuple(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 100 })), {
      maxLength: 300,
    })
    fc.assert(
      fc.property(packets, fc.integer({ min: 1, max: 299 }), sizes, (each, wrong, batches) => {
        const times = lateTimes(each, YEAR)
        const from = times.map((time, i) => (i === wrong ? time + HOUR : time))
        const oldest = (next: number): number => Math.min(...times.slice(next), Number.MAX_SAFE_INTEGER)
        const told = order(from, batches, (packets, next) => {
          const nowMicros = oldest(next)
          if (nowMicros < Number.MAX_SAFE_INTEGER) expect(packets.advance(nowMicros)).toBe(nowMicros)
        })
        expect(told).toEqual(order(from, batches))
      }),
      { numRuns: 100 },
    )
  })

  it('is of the clock after a step', () => {
    const shown: number[] = []
    order(inSeconds(0, 1, 2, -7, -6), [1], (packets) => shown.push(packets.advance(packets.latestMicros)))
    expect(shown).toEqual(inSeconds(0, 1, 2, 2, 3))
  })

  it('lets a packet go that is ahead once its time has come', () => {
    order(inSeconds(0, 100), [2], (packets) => {
      packets.advance(inSeconds(50)[0]!)
      expect(packets.heldPackets).toBe(1)
      packets.advance(inSeconds(100)[0]!)
      expect(packets.heldPackets).toBe(0)
    })
  })
})

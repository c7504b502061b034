import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createCaptureReader, encodePcap, type ReplayClock, replayFrames } from '../src/index.js'

/** Moves only while somebody sleeps, and by `drag` at every look. */
function testClock(drag = 0): ReplayClock & { sleeps: number[] } {
  let now = 1e9
  const sleeps: number[] = []
  return {
    sleeps,
    nowMicros: () => {
      now += drag
      return now
    },
    sleep: async (micros) => {
      sleeps.push(micros)
      now += micros
    },
  }
}

const START = 1_700_000_000_000_000

async function* capture(offsets: readonly number[], batchFrames = 4) {
  const reader = createCaptureReader({ batchFrames })
  const bytes = (k: number) => Uint8Array.of(k, k >>> 8, 7)
  reader.push(encodePcap(offsets.map((at, k) => ({ timestampMicros: START + at, bytes: bytes(k) }))))
  for (let batch = reader.read(); batch !== null; batch = reader.read()) yield batch
}

async function replayed(offsets: readonly number[], speed: number, clock = testClock(), batchFrames = 4) {
  const packets: { number: number; id: number; offset: number; at: number }[] = []
  for await (const batch of replayFrames(capture(offsets, batchFrames), clock, { speed })) {
    const at = clock.nowMicros() - 1e9
    for (let i = 0; i < batch.count; i++) {
      const { data, offset } = batch
      packets.push({
        number: batch.firstFrame + i,
        id: data[offset[i]!]! | (data[offset[i]! + 1]! << 8),
        offset: batch.timestampMicros[i]! - START,
        at,
      })
    }
  }
  return packets
}

describe('replayFrames', () => {
  const offsets = [0, 10_000, 10_100, 500_000, 2_000_000, 1_000_000, 3_000_000]

  it.each([1, 2, 0.5])('gives packets out at the pace of the capture × %d', async (speed) => {
    const packets = await replayed(offsets, speed)
    // a packet stamped earlier than the one before it is due with that one
    const due = [0, 10_000, 10_100, 500_000, 2_000_000, 2_000_000, 3_000_000]
    expect(packets.map(({ offset }) => offset)).toEqual(offsets)
    packets.forEach(({ at }, k) => {
      expect(Math.abs(at - due[k]! / speed)).toBeLessThanOrEqual(500)
    })
  })

  it('does not look at the clock at full speed', async () => {
    const clock = testClock()
    expect(await replayed(offsets, Number.POSITIVE_INFINITY, clock)).toHaveLength(7)
    expect(clock.sleeps).toEqual([])
  })

  it('catches up after a slow consumer, in larger batches', async () => {
    const clock = testClock(50_000)
    const even = Array.from({ length: 100 }, (_, k) => 1000 * k)
    const packets = await replayed(even, 1, clock, 64)
    expect(packets.map(({ id }) => id)).toEqual(even.map((_, k) => k))
    expect(new Set(packets.map(({ at }) => at)).size).toBeLessThan(10)
  })

  it('gives every packet once, in order, whatever the times, the batches and the pace', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(fc.integer({ min: 0, max: 5e6 }), fc.constant(0)), { maxLength: 60 }),
        fc.integer({ min: 1, max: 17 }),
        fc.constantFrom(0.1, 1, 7, 1e6, Number.POSITIVE_INFINITY),
        fc.constantFrom(0, 10, 100_000),
        async (times, batchFrames, speed, drag) => {
          const packets = await replayed(times, speed, testClock(drag), batchFrames)
          expect(packets.map(({ number, id, offset }) => [number, id, offset])).toEqual(
            times.map((time, k) => [k, k, time]),
          )
        },
      ),
    )
  })

  it('ends at its signal, asleep or not', async () => {
    const stop = new AbortController()
    const clock: ReplayClock = {
      nowMicros: () => 0,
      sleep: async () => stop.abort(),
    }
    const counts: number[] = []
    for await (const batch of replayFrames(capture(offsets), clock, { speed: 1, signal: stop.signal })) {
      counts.push(batch.count)
    }
    expect(counts).toEqual([1])
  })

  it.each([0, -1, Number.NaN])('refuses speed %d', (speed) => {
    expect(() => replayFrames(capture([]), testClock(), { speed })).toThrow(
      expect.objectContaining({ name: 'ArgumentError', field: 'speed' }),
    )
  })
})

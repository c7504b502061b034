/** How long after it is due a live verdict comes, by clocks that the test holds: docs/flows.md, When a verdict comes. */
import { createCaptureReader, encodePcap, type FrameBatch } from '@oddflow/capture'
import { flowSummaryContract } from '@oddflow/flows'
import { expect, it } from 'vitest'
import { CaptureClock, type Clock } from '../../src/input/clocks.js'
import type { Decider } from '../../src/pipeline/counters.js'
import { EXPIRE_MILLIS } from '../../src/pipeline/run-agent.js'
import { createWatcher } from '../../src/pipeline/watcher.js'

const START_MICROS = 1_700_000_000_000_000
const CUT_MILLIS = (flowSummaryContract().activeTimeoutMicros as number) / 1000

/** A TCP packet with these flags, or UDP where they are null. */
function packet(millis: number, flags: number | null, back = false) {
  const bytes = new Uint8Array(54)
  const [from, to] = back ? [2, 1] : [1, 2]
  bytes.set([2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64])
  bytes.set([flags === null ? 17 : 6, 0, 0, 192, 0, 2, from, 192, 0, 2, to], 23)
  bytes.set(back ? [0, 80, 0x30, 0x39] : [0x30, 0x39, 0, 80], 34)
  bytes.set([0x50, flags ?? 0], 46)
  return { timestampMicros: START_MICROS + 1000 * millis, bytes }
}

function framesOf(...packets: ReturnType<typeof packet>[]): FrameBatch {
  const reader = createCaptureReader()
  reader.push(encodePcap(packets))
  return reader.read() as FrameBatch
}

/** Milliseconds after the last packet at which the verdict comes, where the first look comes `phase` after that packet. */
function verdictMillis(packets: ReturnType<typeof packet>[], phase: number): number {
  const contract = flowSummaryContract({ activeTimeoutMicros: 1000 * CUT_MILLIS })
  let verdicts = 0
  const normal = { score: 0, rule: 'score', novel: false, threshold: -1, model: null } as const
  const decider: Decider = {
    contract,
    row: new Float64Array(contract.dimension),
    decide: () => normal,
    peek: () => normal,
    modelOf: () => null,
    rarity: () => null,
  }
  const watcher = createWatcher({
    decider,
    filter: null,
    memoryBytes: 1 << 20,
    hashSeed: 1,
    onNovel() {},
    onVerdict: () => verdicts++,
  })
  let millis = 0
  const clock = {
    wallMicros: () => START_MICROS + 1000 * millis,
    monotonicMillis: () => millis,
  } as Clock
  const captureClock = new CaptureClock(clock, 'live')
  watcher.add(framesOf(...packets))
  captureClock.note(watcher.counts.latestMicros)
  for (millis = phase; ; millis += EXPIRE_MILLIS) {
    const now = captureClock.nowMicros()
    if (now !== null) watcher.expire(now)
    if (verdicts > 0) return millis
    expect(millis).toBeLessThan(10 * CUT_MILLIS)
  }
}

const PHASES = [0, 1, 30, 60, 99]
const closed = [packet(0, 2), packet(1, 18, true), packet(2, 17), packet(3, 17, true)]

it.each([
  ['both FINs', closed],
  ['an RST', [packet(0, 2), packet(1, 18, true), packet(3, 4)]],
])('comes within a second after %s', (_, packets) => {
  for (const phase of PHASES) {
    const millis = verdictMillis(packets, phase)
    expect(millis).toBeGreaterThan(500)
    expect(millis).toBeLessThanOrEqual(850)
  }
})

it('comes at most 0.35 s after the cut for UDP, which has no close', () => {
  for (const phase of PHASES) {
    const millis = verdictMillis([packet(0, null)], phase)
    expect(millis).toBeGreaterThan(CUT_MILLIS)
    expect(millis).toBeLessThanOrEqual(CUT_MILLIS + 350)
  }
})

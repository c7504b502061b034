/** A clock that is set, a machine that sleeps and a process that is stopped are three things, and slewing is none. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createClockWatch } from '../../src/input/clocks.js'

function machine() {
  const clocks = { wallMillis: 1_700_000_000_000, bootMillis: 5_000_000, monotonicMillis: 3_000 }
  const watch = createClockWatch({
    wallMicros: () => 1000 * Math.round(clocks.wallMillis),
    // os.uptime() counts hundredths
    bootMillis: () => 10 * Math.floor(clocks.bootMillis / 10),
    monotonicMillis: () => clocks.monotonicMillis,
  })
  const pass = (millis: number, but: Partial<typeof clocks> = {}): void => {
    clocks.wallMillis += but.wallMillis ?? millis
    clocks.bootMillis += but.bootMillis ?? millis
    clocks.monotonicMillis += but.monotonicMillis ?? millis
  }
  return { watch, pass, clocks }
}

const YEARS = 365 * 86_400_000

describe('a look at the clocks', () => {
  it.each([1000, -1000, 60_000, -3_600_000, 86_400_000, -5 * YEARS, 56 * YEARS])(
    'finds that the wall clock was set by %i ms, once',
    (step) => {
      const { watch, pass } = machine()
      for (let i = 0; i < 10; i++) {
        pass(250)
        expect(watch.look()).toBeNull()
      }
      pass(250, { wallMillis: 250 + step })
      expect(watch.look()).toEqual({ setMicros: 1000 * step, suspendedSeconds: 0, stoppedSeconds: 0 })
      pass(250)
      expect(watch.look()).toBeNull()
    },
  )

  it('tells a suspend from that, and a suspend after which the clock was set', () => {
    const { watch, pass } = machine()
    pass(3_600_000, { monotonicMillis: 200 })
    expect(watch.look()).toMatchObject({ setMicros: 0, suspendedSeconds: 3599.8, stoppedSeconds: 0 })
    pass(3_600_000, { monotonicMillis: 200, wallMillis: 3_600_000 - 7_200_000 })
    const change = watch.look()
    expect(change?.setMicros).toBeCloseTo(-7_200_000_000, -5)
    expect(change?.suspendedSeconds).toBeCloseTo(3599.8, 1)
  })

  it('tells a process that was stopped, however long, and also one stopped between two clocks that it reads', () => {
    const { watch, pass, clocks } = machine()
    pass(10_000)
    expect(watch.look()).toEqual({ setMicros: 0, suspendedSeconds: 0, stoppedSeconds: 10 })
    pass(250)
    let reads = 0
    const interrupted = createClockWatch({
      wallMicros() {
        if (++reads === 2) pass(60_000)
        return 1000 * clocks.wallMillis
      },
      bootMillis: () => clocks.bootMillis,
      monotonicMillis: () => clocks.monotonicMillis,
    })
    pass(250)
    expect(interrupted.look()).toEqual({ setMicros: 0, suspendedSeconds: 0, stoppedSeconds: 60.25 })
  })

  it('finds nothing in a clock that is slewed, at any looks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 2900 }), fc.integer({ min: -500, max: 500 })), {
          maxLength: 200,
        }),
        (looks) => {
          const { watch, pass } = machine()
          for (const [millis, partsPerMillion] of looks) {
            pass(millis, { wallMillis: millis * (1 + partsPerMillion / 1e6) })
            expect(watch.look()).toBeNull()
          }
        },
      ),
    )
  })
})

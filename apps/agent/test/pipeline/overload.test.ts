import { describe, expect, it } from 'vitest'
import { Overload } from '../../src/pipeline/overload.js'
import { endpointHash } from '../../src/pipeline/watcher.js'

const LIMIT = 1000
const BUFFER_FRAMES = 15_000

interface Traffic {
  /** Packets that would begin a flow, a second. */
  readonly flows: number
  /** Packets of open flows, a second. */
  readonly others?: number
  readonly lagSeconds: number | null
  /** Milliseconds of a batch of a tenth of a second that go into work on it. */
  readonly workMillis?: number
  /** By their time stamps; as many as are given where it is left out. */
  readonly framesPerSecond?: number
}

function made() {
  const said: string[] = []
  const now = { millis: 0, residentBytes: 0 }
  const total = { shed: 0 }
  let newestSeconds = 0
  const overload = new Overload({
    memoryLimitBytes: LIMIT,
    bufferFrames: BUFFER_FRAMES,
    seed: 12_345,
    monotonicMillis: () => now.millis,
    residentBytes: () => now.residentBytes,
    shedPackets: () => total.shed,
    onEntered: (message) => said.push(message),
    onLeft: (message) => said.push(message),
  })
  /** A second of traffic in ten batches: the share of new flows that was left out, which follows from the rule. */
  const second = (traffic: Traffic): number => {
    const { flows, others = 0, lagSeconds, workMillis = 50 } = traffic
    const { framesPerSecond = flows + others } = traffic
    let shed = 0
    for (let i = 0; i < 10; i++) {
      const frames = (flows + others) / 10
      newestSeconds += frames / framesPerSecond
      overload.arrived(frames, lagSeconds, newestSeconds)
      let shedHere = 0
      for (let p = 0; p < flows / 10; p++) {
        const source = endpointHash(Uint32Array.of(0, 0, 0, 1000 * i + p), 0, 1024 + p, 7)
        const destination = endpointHash(Uint32Array.of(0, 0, 0, 9), 0, 80, 7)
        if (!overload.admits(source, destination) || overload.sheds(source, destination)) shedHere++
      }
      now.millis += workMillis
      total.shed += shedHere
      overload.judged(frames, shedHere, flows / 10 - shedHere)
      now.millis += 100 - workMillis
      shed += shedHere
    }
    return shed / flows
  }
  return { overload, said, now, total, second }
}

/** A machine with the kernel's buffer before it, where to begin a flow takes so long, and to leave one out 2 µs. */
function simulated(flowMicros: number) {
  const { overload, said, now, total } = made()
  const waiting: { at: number; count: number }[] = []
  const SLICE_MILLIS = 5
  let slices = 0
  let key = 0
  const machine = {
    flowMicros,
    came: 0,
    lost: 0,
    begun: 0,
    shed: 0,
    run(seconds: number, framesPerSecond: number): void {
      const end = now.millis + 1000 * seconds
      let buffered = waiting.reduce((sum, { count }) => sum + count, 0)
      while (now.millis < end) {
        for (; slices * SLICE_MILLIS <= now.millis; slices++) {
          const count = Math.round((framesPerSecond * SLICE_MILLIS) / 1000)
          const taken = Math.min(count, BUFFER_FRAMES - buffered)
          machine.came += count
          machine.lost += count - taken
          buffered += taken
          if (taken > 0) waiting.push({ at: slices * SLICE_MILLIS, count: taken })
        }
        let frames = 0
        let newest = 0
        while (waiting.length > 0 && frames < 1024) {
          const [oldest] = waiting
          const taken = Math.min(1024 - frames, oldest.count)
          newest = oldest.at
          frames += taken
          oldest.count -= taken
          if (oldest.count === 0) waiting.shift()
        }
        buffered -= frames
        if (frames === 0) {
          now.millis += 1
          overload.tick()
          continue
        }
        overload.arrived(frames, (now.millis - newest) / 1000, newest / 1000)
        let shed = 0
        for (let i = 0; i < frames; i++, key++) {
          if (
            !overload.admits(Math.imul(key, 0x9e3779b1), 0) ||
            overload.sheds(Math.imul(key, 0x9e3779b1), 0)
          )
            shed++
        }
        now.millis += ((frames - shed) * machine.flowMicros + shed * 2) / 1000
        machine.begun += frames - shed
        machine.shed += shed
        total.shed += shed
        overload.judged(frames, shed, frames - shed)
      }
    },
  }
  return { overload, said, machine }
}

describe('overload', () => {
  it('is entered as the buffer fills, soon enough that little is lost in it, and is one in a flood that goes on', () => {
    for (const flowMicros of [20, 120, 400]) {
      const { overload, said, machine } = simulated(flowMicros)
      const capacity = 1e6 / flowMicros
      machine.run(5, capacity / 8)
      expect(overload.isOverloaded).toBe(false)
      machine.run(20, 95_000)
      expect(overload.isOverloaded).toBe(true)
      expect(machine.lost / machine.came).toBeLessThan(0.05)
      const { begun } = machine
      machine.run(20, 95_000)
      // nearly nothing is lost by then, and a good part of what can be done is done
      expect(machine.lost / machine.came).toBeLessThan(0.05)
      expect((machine.begun - begun) / 20 / capacity).toBeGreaterThan(0.1)
      machine.run(60, capacity / 100)
      expect(overload.isOverloaded).toBe(false)
      expect(overload.times).toBe(1)
      expect(said).toHaveLength(2)
      expect(said[0]).toMatch(/^overload entered: the kernel's buffer is \d+ % full; /)
      expect(said[1]).toMatch(/^overload left after \d+ s: \d{5,} packets were dropped$/)
      expect(said[1]).toContain(` ${machine.shed} packets`)
    }
  })

  it('is not entered for a burst that the buffer holds, or by one who keeps up', () => {
    const { overload, machine } = simulated(30)
    for (let i = 0; i < 20; i++) {
      machine.run(0.05, 140_000)
      machine.run(0.95, 2000)
    }
    machine.run(10, 25_000)
    expect(machine.lost).toBe(0)
    expect(overload.times).toBe(0)
  })

  it('is not entered by a process that was stopped, for what has waited meanwhile, and is by what goes on waiting', () => {
    const stopped = (isTold: boolean) => {
      const { overload, said, now, second } = made()
      second({ flows: 1000, lagSeconds: 0.01 })
      now.millis += 300
      overload.tick()
      now.millis += 10_000
      if (isTold) overload.resume()
      overload.arrived(1000, 9.5, now.millis / 1000 - 9.5)
      now.millis += 1
      overload.judged(1000, 0, 10)
      second({ flows: 1000, lagSeconds: 0.01 })
      return { overload, said, second }
    }
    const { overload, said, second } = stopped(true)
    expect([overload.times, said]).toEqual([0, []])
    for (let i = 0; i < 2; i++) second({ flows: 1000, lagSeconds: 0.8, framesPerSecond: 100 })
    expect(overload.times).toBe(1)
    // not told, one late batch says as little
    expect(stopped(false).overload.times).toBe(0)
  })

  it('is not entered on a quiet network for one late batch, however long the window is, and is for batches late over a second', () => {
    const { overload, now } = made()
    const batch = (lagSeconds: number, millis: number): void => {
      now.millis += millis
      overload.arrived(1, lagSeconds, now.millis / 1000 - lagSeconds)
      overload.judged(1, 0, 1)
      overload.tick()
    }
    for (let i = 0; i < 20; i++) {
      batch(i % 2 === 0 ? 0.6 : 0.01, 1000)
      batch(i % 2 === 0 ? 0.6 : 0.01, 900)
    }
    expect(overload.times).toBe(0)
    for (let i = 0; i < 6; i++) batch(0.6, 250)
    expect(overload.times).toBe(1)
  })

  it('that the end of the run cuts short is reported as over, with its dropped packets, and is the last', () => {
    const { overload, said, now, second } = made()
    for (let i = 0; i < 3; i++) second({ flows: 1000, lagSeconds: 0.8, framesPerSecond: 100 })
    expect(said).toHaveLength(1)
    overload.end()
    overload.end()
    expect(said).toHaveLength(2)
    expect(said[1]).toMatch(/^overload ended by the end of the run after \d+ s: \d+ packets were dropped$/)
    // while the last alerts are delivered
    now.residentBytes = 2 * LIMIT
    for (let i = 0; i < 5; i++) {
      now.millis += 1000
      overload.tick()
    }
    expect(said).toHaveLength(2)
    expect(overload.isOverloaded).toBe(false)
  })

  it('goes further where each flow costs more than before', () => {
    const { overload, machine } = simulated(5)
    machine.run(3, 95_000)
    expect(overload.times).toBe(0)
    machine.flowMicros = 150
    machine.run(20, 95_000)
    expect(overload.isOverloaded).toBe(true)
    expect(machine.lost / machine.came).toBeLessThan(0.05)
  })

  it('lets open flows go on, and leaves them out only when nearly no new one is let in', () => {
    const { overload, second } = made()
    const late = { flows: 1000, others: 9000, lagSeconds: 0.8, framesPerSecond: 1000 }
    for (let i = 0; i < 2; i++) second(late)
    expect(overload.isOverloaded).toBe(true)
    expect(overload.shedsOpenFlows).toBe(false)
    for (let i = 0; i < 2; i++) second(late)
    expect(overload.shedsOpenFlows).toBe(true)
  })

  it('is left by one who has many packets of open flows and few new ones', () => {
    const { overload, second } = made()
    for (let i = 0; i < 2; i++) second({ flows: 1000, others: 9000, lagSeconds: 0.8, framesPerSecond: 1000 })
    expect(overload.isOverloaded).toBe(true)
    for (let i = 0; i < 40; i++) second({ flows: 100, others: 30_000, lagSeconds: 0.01 })
    expect(overload.isOverloaded).toBe(false)
  })

  it('is no matter of one late batch, a clock that was set, few new flows, silence, or an input that waits', () => {
    const { overload, now, second } = made()
    second({ flows: 1000, lagSeconds: 0.01 })
    overload.arrived(1000, 4.9, 10)
    overload.judged(1000, 0, 1000)
    overload.arrived(1000, 0.2, 11)
    overload.judged(1000, 0, 1000)
    overload.arrived(1000, 3600, 11.01)
    overload.judged(1000, 0, 1000)
    second({ flows: 1000, lagSeconds: 0.01 })
    for (let i = 0; i < 20; i++) {
      now.millis += 1000
      overload.tick()
    }
    for (let i = 0; i < 5; i++)
      second({ flows: 100, others: 9900, lagSeconds: 0.2, framesPerSecond: 100_000 })
    for (let i = 0; i < 5; i++) second({ flows: 10_000, lagSeconds: null })
    expect(overload.times).toBe(0)
  })

  it('is entered where memory nears its ceiling, keeps a quarter of the flows, and ends with silence', () => {
    const { overload, said, now, second } = made()
    now.residentBytes = 0.98 * LIMIT
    for (let i = 0; i < 10; i++) second({ flows: 1000, lagSeconds: null })
    expect(said).toHaveLength(1)
    expect(said[0]).toContain('resident memory is 98 % of its ceiling')
    expect(second({ flows: 1000, lagSeconds: null })).toBeCloseTo(0.75, 1)
    expect(overload.shedsOpenFlows).toBe(false)
    now.residentBytes = 0.96 * LIMIT
    for (let i = 0; i < 10; i++) second({ flows: 100, lagSeconds: null })
    expect(overload.isOverloaded).toBe(true)
    now.residentBytes = 0.9 * LIMIT
    for (let i = 0; i < 8; i++) {
      now.millis += 1000
      overload.tick()
    }
    expect(overload.isOverloaded).toBe(false)
    expect(said).toHaveLength(2)
  })

  it('leaves out both directions of a flow or neither', () => {
    const { overload, second } = made()
    for (let i = 0; i < 5; i++) second({ flows: 1000, lagSeconds: 1, framesPerSecond: 1000 })
    let refused = 0
    let shed = 0
    for (let i = 0; i < 4000; i++) {
      const one = endpointHash(Uint32Array.of(0, 0, 0, 0x0a000000 + i), 0, 1024 + i, 7)
      const other = endpointHash(Uint32Array.of(0x20010db8, 0, 0, i), 0, 443, 7)
      const isAdmitted = overload.admits(one, other)
      const isShed = overload.sheds(one, other)
      expect(overload.admits(other, one)).toBe(isAdmitted)
      expect(overload.sheds(other, one)).toBe(isShed)
      if (!isAdmitted) refused++
      if (isShed) shed++
    }
    expect(refused / 4000).toBeCloseTo(63 / 64, 1)
    expect(shed / 4000).toBeCloseTo(63 / 64, 1)
  })
})

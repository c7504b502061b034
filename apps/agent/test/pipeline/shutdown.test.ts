import { setImmediate } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { Clock } from '../../src/input/clocks.js'
import type { Delivery } from '../../src/outputs/delivery.js'
import { bringOut, closeAll, createStopTime, endFlows } from '../../src/pipeline/shutdown.js'
import { type AlertLog, createMemoryLog } from '../../src/spool/alert-log.js'
import { Notifier } from '../../src/spool/spool-reader.js'

it('a step that fails at the end is reported, and the others still run', async () => {
  const said: string[] = []
  const done: number[] = []
  const step = (n: number) => async () => {
    done.push(n)
    if (n % 2 === 0) throw new Error(`${n} cannot be written`)
  }
  await closeAll({ warn: (message) => said.push(message) }, [1, 2, 3, 4].map(step))
  expect(done).toEqual([1, 2, 3, 4])
  expect(said).toEqual(['2 cannot be written', '4 cannot be written'])
})

/** Time that passes only while everybody waits. */
function heldClock() {
  let now = 0
  const waiting = new Set<{ at: number; wake: () => void }>()
  const sleep = (millis: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const wait = { at: now + millis, wake: resolve }
      if (signal?.aborted) return resolve()
      waiting.add(wait)
      signal?.addEventListener('abort', () => {
        waiting.delete(wait)
        resolve()
      })
    })
  return {
    clock: { sleep, monotonicMillis: () => now } as Clock,
    /** Milliseconds until `work` is done. */
    async during(work: Promise<void>): Promise<number> {
      let isDone = false
      void work.finally(() => (isDone = true))
      const began = now
      for (;;) {
        await setImmediate()
        if (isDone) return now - began
        const next = [...waiting].sort((a, b) => a.at - b.at)[0]
        if (next === undefined) throw new Error('everybody waits, and nothing will wake them')
        waiting.delete(next)
        now = next.at
        next.wake()
      }
    },
  }
}

/** An output with so many alerts left, that takes one each time so long has passed; null: never. */
function startOutput(clock: Clock, alerts: number, eachMillis: number | null, trouble: Error | null = null) {
  const notifier = new Notifier()
  const output = {
    backlog: alerts,
    delivered: 0,
    lastError: trouble,
    async drained(signal: AbortSignal) {
      while (output.backlog > 0 && !signal.aborted) await notifier.wait(notifier.count, signal)
    },
  }
  const run = async (millis: number): Promise<void> => {
    while (output.backlog > 0) {
      await clock.sleep(millis)
      output.backlog--
      output.delivered++
      notifier.notify()
    }
  }
  if (eachMillis !== null) void run(eachMillis)
  return output as typeof output & Delivery
}

const memoryLog = (): AlertLog => createMemoryLog({ maximumBytes: 1000 })
const stopped = AbortSignal.abort()
const notStopped = new AbortController().signal
const down = new Error('connection refused')

it.each([
  // what outputs do, whether the agent is to stop, milliseconds until the end, alerts left of each output
  ['one that works', [[5, 10]], true, 50, [0]],
  ['a slow one, at a stop', [[4, 600]], true, 2400, [0]],
  ['a slow one that has too many, at a stop', [[100, 600]], true, 2500, [96]],
  ['a slow one, at the end of the input', [[20, 9000]], false, 180_000, [0]],
  ['one that fails, at a stop', [[5, null, down]], true, 700, [5]],
  ['one that fails, at the end of the input', [[5, null, down]], false, 10_000, [5]],
  ['one that hangs, at a stop', [[5, null]], true, 2100, [5]],
  ['one that hangs, at the end of the input', [[5, null]], false, 30_000, [5]],
  [
    'one that fails beside one that works',
    [
      [5, null, down],
      [4, 600],
    ],
    true,
    2500,
    [5, 0],
  ],
  [
    'one that hangs beside one that works',
    [
      [5, null],
      [2, 600],
    ],
    true,
    2500,
    [5, 0],
  ],
] as [string, [number, number | null, Error?][], boolean, number, number[]][])(
  '%s gets the time that it uses',
  async (_, outputs, isStopping, millis, left) => {
    const { clock, during } = heldClock()
    const started = outputs.map(([alerts, each, trouble]) => startOutput(clock, alerts, each, trouble))
    const stop = isStopping ? stopped : notStopped
    expect(
      await during(bringOut(memoryLog(), started, { clock, stop }, createStopTime({ clock, stop }))),
    ).toBe(millis)
    expect(started.map(({ backlog }) => backlog)).toEqual(left)
  },
)

it('a stop midway shortens the wait and takes no alert from an output that works', async () => {
  for (const [each, millis, left] of [
    [500, 4000, 0],
    [null, 2000 + 2100, 8],
  ] as const) {
    const { clock, during } = heldClock()
    const output = startOutput(clock, 8, each)
    const stop = new AbortController()
    void clock.sleep(2000).then(() => stop.abort())
    const environment = { clock, stop: stop.signal }
    expect(await during(bringOut(memoryLog(), [output], environment, createStopTime(environment)))).toBe(
      millis,
    )
    expect(output.backlog).toBe(left)
  }
})

it('a disk that takes no alerts is given up like an output', async () => {
  const { clock, during } = heldClock()
  const log = { ...memoryLog(), pending: 3, lastError: new Error('no space left') }
  const environment = { clock, stop: stopped }
  expect(await during(bringOut(log, [], environment, createStopTime(environment)))).toBe(700)
  const hangs = bringOut({ ...log, lastError: null }, [], environment, createStopTime(environment))
  expect(await during(hangs)).toBe(2100)
})

it('open flows get 1.5 s at a stop, and those that are left are counted in a warning', async () => {
  for (const [rounds, isWarned] of [
    [14, false],
    [100, true],
  ] as const) {
    const { clock, during } = heldClock()
    let open = rounds
    const warnings: string[] = []
    const watcher = {
      finish: () => --open > 0,
      get openFlows() {
        return open
      },
    }
    const environment = { clock, stop: stopped, log: { warn: (text: string) => warnings.push(text) } }
    // every round takes a tenth of a second
    const work = endFlows(watcher, () => clock.sleep(100), environment, createStopTime(environment))
    expect(await during(work)).toBe(isWarned ? 1500 : 1300)
    expect(warnings).toEqual(isWarned ? ['85 open flows were not judged: there was no time left'] : [])
  }
})

it('flows and alerts share the time of a stop, however late each begins', async () => {
  const { clock, during } = heldClock()
  const stop = new AbortController()
  const environment = { clock, stop: stop.signal, log: { warn: () => undefined } }
  const stoppedMillis = createStopTime(environment)
  const outputs = Array.from({ length: 12 }, () => startOutput(clock, 100, 600))
  const work = async (): Promise<void> => {
    stop.abort()
    await endFlows({ finish: () => true, openFlows: 1 }, () => clock.sleep(100), environment, stoppedMillis)
    await bringOut(memoryLog(), outputs, environment, stoppedMillis)
  }
  expect(await during(work())).toBe(2500)
})

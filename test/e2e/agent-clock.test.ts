/**
 * A clock that is set while the agent runs, or between two runs: no flow ends for it, nobody has learnt for longer or shorter,
 * and it is counted and told. The agent with a clock of this test and a recorder that stamps by the same clock.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Device } from '../../apps/agent/src/devices/device.js'
import { createSystemClock } from '../../apps/agent/src/input/clocks.js'
import { madeInterface, onMadeInterface } from './support/made-interface.js'
import { temporaryFolder } from './support/oddflow.js'

const [SECOND, HOUR, DAY] = [1000, 3_600_000, 86_400_000]
const FLOW_PACKETS = 4
let folder: string
const before = { ...process.env }

beforeEach(() => {
  folder = temporaryFolder()
  Object.assign(process.env, madeInterface(folder), { FLOW_PACKETS: String(FLOW_PACKETS) })
  writeFileSync(
    join(folder, 'agent.yaml'),
    `eve: eve.json
state: state
interface: made0
models: { per: device, features: { idleSeconds: 2 } }
devices: { learnHours: 1, learnFlows: 1, stableShare: 1, inventoryMinutes: 0 }
`,
  )
})
afterEach(() => {
  for (const name of ['MADE_RECORDER', 'FLOW_PACKETS']) delete process.env[name]
  process.env.PATH = before.PATH
})

type ClockRun = Awaited<ReturnType<typeof onMadeInterface>> & { offset: number }

/** A run in which the clock is set by so much, one step after another, while packets come. */
async function run(start: number, steps: readonly number[]): Promise<ClockRun> {
  let offset = start
  const set = (to: number): void => {
    offset = to
    // whole at once: the recorder reads it for every packet
    writeFileSync(join(folder, 'clock.new'), String(to))
    renameSync(join(folder, 'clock.new'), join(folder, 'clock'))
  }
  set(start)
  const system = createSystemClock()
  const clock = { ...system, wallMicros: () => system.wallMicros() + 1000 * offset }
  const result = await onMadeInterface(folder, clock, '512M', async () => {
    await system.sleep(3 * SECOND)
    for (const step of steps) {
      set(offset + step)
      await system.sleep(1500)
    }
    await system.sleep(3 * SECOND)
  })
  return { ...result, offset }
}

const deviceOf = (): Device =>
  (JSON.parse(readFileSync(join(folder, 'state/devices.json'), 'utf8')) as { devices: Device[] }).devices[0]!

/** What holds whatever the clock did: each flow is whole, and the device has learnt for as long as it ran. */
function expectSteady(result: ClockRun, seconds: number): void {
  const { counters, told, offset } = result
  expect(counters, told).toMatchObject({ captured: counters.processed, dropped: 0, overloads: 0 })
  expect(counters.flows, told).toBe(Math.ceil(counters.captured / FLOW_PACKETS))
  expect(counters.devices!.byState).toMatchObject({ learning: 1, ready: 0 })
  const { learningSinceMicros, lastSeenMicros } = deviceOf()
  const now = Date.now() * 1000 + 1000 * offset
  expect(Math.abs(now - lastSeenMicros) / 1e6).toBeLessThan(60)
  expect((lastSeenMicros - learningSinceMicros) / 1e6).toBeGreaterThanOrEqual(0)
  expect((lastSeenMicros - learningSinceMicros) / 1e6).toBeLessThan(seconds)
}

it('steps of a second to years, forward and back, end no flow and age nobody, and are counted and told', async () => {
  const steps = [1, 5, 90, -2, -7200]
    .map((s) => s * SECOND)
    .concat(2 * HOUR, 5 * DAY, -3 * 365 * DAY, 20 * 365 * DAY)
  const result = await run(0, steps)
  expectSteady(result, 120)
  expect(result.counters.clockSteps).toBe(steps.length)
  for (const text of [
    'forward by 1 s',
    'forward by 90 s',
    'back by 2 s',
    'back by 2 h',
    'forward by 5 days',
    'back by 1095 days',
  ])
    expect(result.told).toMatch(new RegExp(`the clock was set ${text.replace(/(\d+) s/, '$1(\\.\\d)? s')}`))
  expect(result.told).not.toMatch(/overload|did not run/)
  // one device, which is new once
  expect(result.counters.alerts).toMatchObject({ raised: 1, announced: 1 })
}, 120_000)

it('between two runs, back or far ahead, leaves learning where it was, and nothing in the future', async () => {
  expectSteady(await run(0, []), 60)
  const back = await run(-3 * 365 * DAY, [])
  expect(back.told).toMatch(/devices were last seen 1095 days in the future: the clock was set back since/)
  expectSteady(back, 120)
  const ahead = await run(10 * 365 * DAY, [])
  expectSteady(ahead, 180)
  expect(ahead.counters.alerts).toMatchObject({ announced: 0 })
}, 120_000)

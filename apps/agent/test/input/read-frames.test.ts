import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createFrameBatch, encodePcap, type FrameBatch } from '@oddflow/capture'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/input/clocks.js'
import { openInput, partsByTime, readFrames } from '../../src/input/read-frames.js'

/** Of frames of a byte each, at these times. */
function batchOf(times: readonly number[]): FrameBatch {
  const batch = createFrameBatch(times.length + 3)
  batch.count = times.length
  batch.firstFrame = 7
  batch.data = Uint8Array.from(times, (_, i) => i)
  times.forEach((time, i) => {
    batch.timestampMicros[i] = time
    batch.offset[i] = i
    batch.capturedBytes[i] = 1
  })
  return batch
}

const timesOf = (part: FrameBatch): number[] => [...part.timestampMicros.subarray(0, part.count)]

it('a batch is parted by time, the first frame after a silence by itself', () => {
  const parts = (...times: number[]) => [...partsByTime(batchOf(times), 60)].map(timesOf)
  expect(parts(0, 10, 59)).toEqual([[0, 10, 59]])
  expect(parts(0, 10, 60, 70)).toEqual([
    [0, 10],
    [60, 70],
  ])
  expect(parts(0, 10, 200, 201, 202)).toEqual([[0, 10], [200], [201, 202]])
  expect(parts(0, 200, 400)).toEqual([[0], [200], [400]])
  expect(parts(0, Number.NaN, 10)).toEqual([[0, Number.NaN, 10]])
  expect(parts()).toEqual([])
})

it('the parts are the batch', () => {
  const times = fc.array(fc.oneof(fc.integer({ min: 0, max: 500 }), fc.constant(Number.NaN)), {
    maxLength: 40,
  })
  fc.assert(
    fc.property(times, fc.integer({ min: 1, max: 100 }), (at, micros) => {
      const parts = [...partsByTime(batchOf(at), micros)]
      expect(parts.flatMap(timesOf)).toEqual(at)
      let next = 7
      for (const part of parts) {
        expect(part.count).toBeGreaterThan(0)
        expect(part.firstFrame).toBe(next)
        for (let i = 0; i < part.count; i++) expect(part.data[part.offset[i]]).toBe(next + i - 7)
        next += part.count
      }
    }),
  )
})

it('timers and requests have their turn while frames come without a wait', async () => {
  let millis = 0
  async function* frames(): AsyncGenerator<FrameBatch> {
    for (let i = 0; i < 100; i++) yield batchOf([i])
  }
  const input = { frames: frames(), abandon: null, stop: () => undefined }
  let turns = 0
  let isRead = false
  const turn = (): void => {
    turns++
    if (!isRead) setImmediate(turn)
  }
  setImmediate(turn)
  const clock = { monotonicMillis: () => millis }
  await readFrames(input as never, { clock, stop: new AbortController().signal } as never, async () => {
    // work of a tenth of a second in all
    millis += 1
  })
  isRead = true
  expect(turns).toBeGreaterThanOrEqual(1)
  expect(turns).toBeLessThan(10)
})

/** An agent is stopped at the first batch of a recorder that says these counts at its end; null: it says none. */
describe('packets that a stopped recorder leaves', () => {
  const PACKETS = 5000
  const folders: string[] = []
  afterEach(() => {
    vi.unstubAllEnvs()
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
  })
  /** @param drains - batches that there is time for after the stop */
  const stopped = async (
    counts: string | null,
    { name = 'test0', filter = null as string | null, drains = Number.POSITIVE_INFINITY } = {},
  ) => {
    const folder = mkdtempSync(join(tmpdir(), 'oddflow-input-'))
    folders.push(folder)
    const frames = Array.from({ length: PACKETS }, (_, i) => ({
      timestampMicros: i,
      bytes: new Uint8Array(60),
    }))
    writeFileSync(join(folder, 'capture.pcap'), encodePcap(frames))
    const recorder = join(folder, 'tcpdump')
    const atEnd =
      counts === null
        ? ''
        : `process.stdout.write('', () => { console.error(${JSON.stringify(counts)}); process.exit(0) })`
    writeFileSync(
      recorder,
      `#!${process.execPath}
      process.on('SIGTERM', () => { ${atEnd} })
      console.error('tcpdump: listening on test0')
      process.stdout.write(require('node:fs').readFileSync(${JSON.stringify(join(folder, 'capture.pcap'))}))
      setInterval(() => undefined, 1000)`,
    )
    chmodSync(recorder, 0o755)
    vi.stubEnv('PATH', `${folder}:${process.env.PATH}`)
    const stop = new AbortController()
    const limit = new AbortController()
    // there is time until `limit`; for the counts of a recorder that says some there always is
    let waits = 0
    const sleep = (millis: number, signal?: AbortSignal): Promise<void> =>
      new Promise((resolve) => {
        signal?.addEventListener('abort', () => resolve())
        if (millis !== 300 || (waits++ > 0 && counts !== null)) return
        if (limit.signal.aborted) resolve()
        limit.signal.addEventListener('abort', () => resolve())
      })
    const clock = { ...systemClock, sleep }
    const environment = { clock, log: { warn: expect.fail }, stop: stop.signal } as never
    const input = openInput({ input: { kind: 'live', interface: name, filter } } as never, environment)
    let processed = 0
    let drained = 0
    await readFrames(input, environment, async ({ count }) => {
      if (stop.signal.aborted) drained++
      stop.abort()
      if (drained >= drains) limit.abort()
      processed += count
    })
    return { processed, drops: input.kernelDrops(), warnings: input.warnings() }
  }
  const told = (captured: number, received: number, dropped: number): string =>
    `${captured} packets captured\n${received} packets received by filter\n${dropped} packets dropped by kernel`

  it('are counted: those in the kernel, and those in the pipe that there is no time for', async () => {
    const all = { processed: PACKETS, warnings: [] }
    expect(await stopped(told(PACKETS, PACKETS, 0))).toEqual({ ...all, drops: 0 })
    expect(await stopped(told(PACKETS, PACKETS + 120, 20))).toEqual({ ...all, drops: 120 })
    expect(await stopped(told(PACKETS, 2 * (PACKETS + 120), 20), { name: 'lo' })).toEqual({
      ...all,
      drops: 120,
    })
    const slow = await stopped(told(PACKETS, PACKETS + 120, 20), { drains: 1 })
    expect(slow.processed).toBeLessThan(PACKETS)
    expect(slow).toMatchObject({ drops: PACKETS + 120 - slow.processed, warnings: [] })
  })

  it('are told as at most so many where the kernel counts others too, or the recorder says nothing', async () => {
    const left = (name: string, most: number): string[] => [
      `interface ${name}: at most ${most} packets stayed in the kernel's buffer and are not counted`,
    ]
    const counts = told(PACKETS, PACKETS + 120, 20)
    const all = { processed: PACKETS, drops: 20 }
    expect(await stopped(counts, { filter: 'tcp' })).toEqual({ ...all, warnings: left('test0', 100) })
    expect(await stopped(counts, { name: 'any' })).toEqual({ ...all, warnings: left('any', 100) })
    expect(await stopped(null, { drains: 0 })).toMatchObject({ drops: 0, warnings: left('test0', 15_000) })
  })
})

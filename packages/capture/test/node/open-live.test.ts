/**
 * The live source with recorders of our own making, which behave as badly as a recorder can; with tcpdump and
 * dumpcap themselves on a real interface: test/e2e/live.test.ts.
 */
import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, describe, expect, it } from 'vitest'
import { encodePcap } from '../../src/index.js'
import { LiveCaptureError, type OpenLiveOptions, openLive } from '../../src/node/index.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-live-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const capture = join(folder, 'capture.pcap')
const packets = Array.from({ length: 300 }, (_, k) => ({
  timestampMicros: 1_700_000_000_000_000 + k,
  bytes: Uint8Array.from({ length: 60 + k }, (_, j) => (j * k) & 255),
}))
writeFileSync(capture, encodePcap(packets))

let recorders = 0
/** A recorder that runs `script`; `say`, `give` (bytes of the capture) and `forever` are there for it. */
function recorder(script: string): string {
  const file = join(folder, `recorder-${recorders++}`)
  writeFileSync(
    file,
    `#!${process.execPath}
    const { readFileSync, writeSync } = require('node:fs')
    const capture = readFileSync(${JSON.stringify(capture)})
    const say = (text) => writeSync(2, text + '\\n')
    const give = (from, to) => writeSync(1, capture.subarray(from, to))
    const forever = () => setInterval(() => {}, 1000)
    ${script}`,
  )
  chmodSync(file, 0o755)
  return file
}

interface Outcome {
  packets: number
  error: unknown
  millis: number
}

async function run(
  program: string,
  options: Partial<OpenLiveOptions> = {},
  onBatch: (packets: number, source: ReturnType<typeof openLive>) => void | Promise<void> = () => undefined,
) {
  const source = openLive({ interface: 'test0', program, ...options })
  const outcome: Outcome = { packets: 0, error: null, millis: 0 }
  const start = performance.now()
  try {
    for await (const batch of source) {
      outcome.packets += batch.count
      await onBatch(outcome.packets, source)
    }
  } catch (error) {
    outcome.error = error
  }
  outcome.millis = performance.now() - start
  return { ...outcome, source }
}

/** Collects 300 packets of a recorder that goes on for ever, then stops it. */
async function stopAfterAll(program: string) {
  const stop = new AbortController()
  let stoppedAt = 0
  const outcome = await run(program, { signal: stop.signal }, (count) => {
    if (count < packets.length) return
    stoppedAt = performance.now()
    stop.abort()
  })
  return { ...outcome, millisToStop: performance.now() - stoppedAt }
}

const TOLD = `'3 packets received by filter\\n1 packet dropped by kernel'`
const STOPS_WELL = `process.on('SIGTERM', () => { say('300 packets captured\\n' + ${TOLD}); process.exit(0) })`

describe('a recorder on a silent network', () => {
  it.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)(
    'ends with the process that reads it, also by %s',
    async (signal) => {
      const pidFile = join(folder, `pid-${signal}`)
      const program = recorder(
        `require('node:fs').writeFileSync(${JSON.stringify(pidFile)}, String(process.pid)); give(0, 24); forever()`,
      )
      const module = new URL('../../dist/node/index.js', import.meta.url).href
      const reads = `import { openLive } from ${JSON.stringify(module)}
      for await (const _ of openLive({ interface: 'test0', program: ${JSON.stringify(program)} })) {}`
      const reader = spawn(process.execPath, ['--input-type=module', '-e', reads], { stdio: 'inherit' })
      const isRunning = (pid: number): boolean => {
        try {
          process.kill(pid, 0)
          // a process that was not waited for yet has ended too
          return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
        } catch {
          return false
        }
      }
      const until = async (holds: () => boolean): Promise<void> => {
        for (let i = 0; i < 400 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 25))
        expect(holds()).toBe(true)
      }
      await until(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8') !== '')
      const pid = Number(readFileSync(pidFile, 'utf8'))
      expect(isRunning(pid)).toBe(true)
      reader.kill(signal)
      await until(() => !isRunning(pid))
    },
  )
})

describe('openLive', () => {
  it('hands the arguments to the program as they are, and reads what it writes', async () => {
    const told = join(folder, 'arguments.json')
    const program = recorder(
      `require('node:fs').writeFileSync(${JSON.stringify(told)}, JSON.stringify(process.argv.slice(2))); give(0)`,
    )
    const filter = `host 192.0.2.1 and $(touch ${join(folder, 'shell')}) ; 'x'`
    const { packets: count, error, source } = await run(program, { filter })
    expect(error).toBeNull()
    expect(count).toBe(300)
    expect(source.end).toMatchObject({ packets: 300, truncated: false, error: null })
    expect(JSON.parse(readFileSync(told, 'utf8'))).toEqual(
      '-i test0 -Q inout -U --immediate-mode -n -s 2048 -B 32768 -w - --'.split(' ').concat(filter),
    )
    expect(existsSync(join(folder, 'shell'))).toBe(false)
  })

  it('gives what has come at once, stops in order when asked, and tells the counts', async () => {
    const {
      packets: count,
      error,
      source,
    } = await stopAfterAll(
      recorder(`${STOPS_WELL}; say('tcpdump: listening on test0, link-type'); give(0); forever()`),
    )
    expect(error).toBeNull()
    expect(count).toBe(300)
    expect(source.counts).toEqual({
      captured: 300,
      received: 3,
      droppedByKernel: 1,
      droppedByInterface: null,
    })
    expect(source.end).toMatchObject({
      drops: { interfaceReceived: 3, systemDropped: 1, interfaceDropped: null },
      truncated: false,
    })
  })

  it('kills a recorder that does not stop', async () => {
    const {
      packets: count,
      error,
      millisToStop,
    } = await stopAfterAll(recorder(`process.on('SIGTERM', () => {}); give(0); forever()`))
    expect(error).toBeNull()
    expect(count).toBe(300)
    expect(millisToStop).toBeGreaterThan(1500)
  })

  it('ends well when it is stopped before the first packet, even before it was started', async () => {
    const stop = new AbortController()
    const program = recorder(`say('tcpdump: listening on test0'); forever()`)
    const source = openLive({ interface: 'test0', program, signal: stop.signal })
    source.begun.then(() => stop.abort())
    for await (const _ of source) throw new Error('a packet out of nothing')
    expect(source.end).toMatchObject({ packets: 0, truncated: false, error: null, detail: null })
    const early = await run(program, { signal: AbortSignal.abort() })
    expect(early.error).toBeNull()
    expect(early.source.end).toMatchObject({ packets: 0, error: null })
  })

  it('ends the recorder when the consumer leaves', async () => {
    const pid = join(folder, 'pid')
    const program = recorder(
      `require('node:fs').writeFileSync(${JSON.stringify(pid)}, String(process.pid)); give(0); forever()`,
    )
    for await (const batch of openLive({ interface: 'test0', program })) {
      expect(batch.count).toBeGreaterThan(0)
      break
    }
    expect(() => process.kill(Number(readFileSync(pid, 'utf8')), 0)).toThrow('ESRCH')
  })

  it.each([
    ['nothing at all', ''],
    ['half a file header', 'give(0, 11)'],
  ])('waits for a recorder that has written %s, and stops in order', async (_, script) => {
    const stop = new AbortController()
    setTimeout(() => stop.abort(), 300)
    const outcome = await run(recorder(`${script}; forever()`), { signal: stop.signal })
    expect(outcome.error).toBeNull()
    expect(outcome.source.end).toMatchObject({ packets: 0, error: null })
    expect(outcome.millis).toBeGreaterThan(250)
  })

  it('asks for the counts of a recorder that runs, and of none other', async () => {
    const program = recorder(
      `${STOPS_WELL}
      process.on('SIGUSR1', () => say('tcpdump: 5 packets captured, 6 packets received by filter, 0 packets dropped by kernel'))
      say('tcpdump: listening on test0'); setTimeout(() => give(0), 200); forever()`,
    )
    const stop = new AbortController()
    const asked = openLive({ interface: 'test0', program, signal: stop.signal })
    expect(await asked.askForCounts()).toMatchObject({ captured: null })
    for await (const _ of asked) {
      if (stop.signal.aborted) continue
      // a busy machine may not answer within the second that is waited
      for (let i = 0; i < 30 && asked.counts.captured === null; i++) await asked.askForCounts()
      expect(asked.counts).toMatchObject({ captured: 5, received: 6, droppedByKernel: 0 })
      stop.abort()
    }
    expect(await asked.askForCounts()).toMatchObject({ captured: 300, received: 3, droppedByKernel: 1 })
  })

  it('lets a recorder wait for a slow consumer instead of piling up', async () => {
    const told = join(folder, 'written')
    const program = recorder(
      `give(0, 24)
      const { writeFileSync, writeSync: write } = require('node:fs')
      const records = capture.subarray(24)
      for (let k = 0; k < 200; k++) {
        write(1, records)
        writeFileSync(${JSON.stringify(told)}, String(k + 1))
      }`,
    )
    let written = 0
    const { packets: count } = await run(program, {}, async () => {
      if (written > 0) return
      // until it stands still for half a second
      for (let still = 0; still < 10; still++) {
        await new Promise((resolve) => setTimeout(resolve, 50))
        const now = existsSync(told) ? Number(readFileSync(told, 'utf8')) : 0
        if (now > written || now === 0) still = 0
        written = now
      }
    })
    // 67 kB each: a pipe and a stream's buffer hold a few, and not 200
    expect(written).toBeLessThan(20)
    expect(count).toBe(200 * 300)
  })
})

describe('a recorder that has left a child behind', () => {
  // it lives for as long as this test may take, holding the pipes named, and writes its number to a file
  const pids: string[] = []
  const leave = (stdout: string, stderr: string, script = 'setTimeout(() => {}, 120000)'): string => {
    const pid = join(folder, `left-${pids.length}`)
    pids.push(pid)
    return `{
      const { spawn } = require('node:child_process')
      const left = spawn(process.execPath, ['-e', ${JSON.stringify(script)}],
        { stdio: ['ignore', ${stdout}, ${stderr}], detached: true })
      require('node:fs').writeFileSync(${JSON.stringify(pid)}, String(left.pid))
      left.unref()
    }`
  }
  /** Whoever waited for the child to go away would find it gone. */
  const expectLeftAlive = (): void => {
    for (const pid of pids.filter(existsSync)) process.kill(Number(readFileSync(pid, 'utf8')), 0)
  }
  afterAll(() => {
    for (const pid of pids) {
      try {
        process.kill(Number(readFileSync(pid, 'utf8')), 'SIGKILL')
      } catch {
        // it has ended by itself
      }
    }
  })
  const flood = `process.stdout.on('error', () => process.exit()); setInterval(() => process.stdout.write(Buffer.alloc(8192)), 1); setTimeout(() => process.exit(), 120000)`

  it.each([
    ['its standard error', leave(`'ignore'`, '2')],
    ['its standard output', leave('1', `'ignore'`)],
    ['both', leave('1', '2')],
  ])('which holds %s open, is noticed when it dies, after all that it wrote', async (_, script) => {
    const program = recorder(`${script}; give(0); say('gone'); process.exit(3)`)
    const outcome = await run(program)
    expect(outcome.error).toBeInstanceOf(LiveCaptureError)
    expect((outcome.error as Error).message).toContain('exit code 3) saying: gone')
    expect(outcome.packets).toBe(300)
    expectLeftAlive()
  })

  it('which goes on writing, is noticed all the same', async () => {
    const program = recorder(`${leave('1', '2', flood)}; give(0, 24); process.kill(process.pid, 'SIGKILL')`)
    const outcome = await run(program)
    expect(outcome.error).toBeInstanceOf(LiveCaptureError)
    expect((outcome.error as Error).message).toContain('signal SIGKILL')
  })

  it('is not hurried where the consumer is slow', async () => {
    const program = recorder(
      `${leave('1', '2')}; give(0, 24); for (let k = 0; k < 3; k++) give(24); process.exit(0)`,
    )
    let isFirst = true
    const outcome = await run(program, {}, async () => {
      if (isFirst) await new Promise((resolve) => setTimeout(resolve, 1500))
      isFirst = false
    })
    expect(outcome.error).toBeNull()
    expect(outcome.packets).toBe(900)
  })
})

describe('a recording that ends by itself', () => {
  it.each([
    ['no-program', join(folder, 'nowhere'), 0, 'there is no program'],
    ['permission', folder, 0, 'this user may not run'],
    [
      'permission',
      recorder(
        `say("tcpdump: test0: You don't have permission to perform this capture on that device"); process.exit(1)`,
      ),
      0,
      'setcap cap_net_raw',
    ],
    [
      'no-interface',
      recorder(`say('tcpdump: test0: No such device exists'); process.exit(1)`),
      0,
      'tcpdump -D',
    ],
    [
      'bad-filter',
      recorder(`say("tcpdump: can't parse filter expression: syntax error"); process.exit(1)`),
      0,
      'pcap-filter(7)',
    ],
    [
      'ended',
      recorder(`give(0); say('tcpdump: pcap_loop: The interface disappeared'); process.exit(1)`),
      300,
      'exit code 1) saying: tcpdump: pcap_loop: The interface disappeared',
    ],
    [
      'ended',
      recorder(`give(0, -5); process.kill(process.pid, 'SIGKILL')`),
      299,
      'signal SIGKILL) without a message',
    ],
    [
      'ended',
      recorder(`give(0, 1000); writeSync(1, Buffer.alloc(65536, 255)); forever()`),
      12,
      'is not a capture',
    ],
    ['ended', recorder(`writeSync(1, 'hello, hello'); forever()`), 0, 'is not a capture'],
    ['ended', recorder(''), 0, 'found no bytes'],
    ['ended', recorder('give(0, 11)'), 0, 'cut short: expected a file header'],
    [
      'ended',
      recorder(`give(0, 11); say('out of paper'); process.exit(2)`),
      0,
      'exit code 2) saying: out of paper',
    ],
  ])('%s: %s', async (problem, program, count, words) => {
    const outcome = await run(program)
    expect(outcome.error).toBeInstanceOf(LiveCaptureError)
    const error = outcome.error as LiveCaptureError
    expect(error).toMatchObject({ problem, interface: 'test0', code: `live-capture.${problem}` })
    expect(error.message).toMatch(/^interface test0: /)
    expect(error.message).toContain(words)
    expect(error.message).not.toContain('\n')
    expect(outcome.packets).toBe(count)
    expect(outcome.source.end).toBeNull()
  })
})

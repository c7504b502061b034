/** The program among others: pipes that close, signals, limits of memory, and silence where nobody watches. */
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { root } from '../../tools/workspace/layout.mjs'
import { arpFrame, capture, udpFrame } from './support/captures.js'
import {
  filesOf,
  jsonLines,
  lab,
  main,
  oddflow,
  runToEnd,
  succeeds,
  temporaryFolder,
  trainLabModel,
} from './support/oddflow.js'
import { untilIdle } from './support/until-idle.mjs'

const folder = temporaryFolder()
const model = join(folder, 'home.oddflow')
beforeAll(() => trainLabModel(model))

describe('a reader that goes away early', () => {
  it.each(['json', 'csv', 'table'])('ends score --format %s quietly', async (format) => {
    const { path } = lab('normal-4.pcap.gz')
    const child = spawn(process.execPath, [main, 'score', model, path, path, '--format', format])
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    // more than a pipe holds is still to come
    child.stdout.once('data', () => child.stdout.destroy())
    const code = await new Promise((resolve) => child.on('close', resolve))
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })

  it('a full disk is an error in one line', async () => {
    const script = `"$0" "$1" info "$2" > /dev/full`
    const run = await runToEnd('sh', ['-c', script, process.execPath, main, lab('normal-1.pcap').path])
    expect(run.code).toBe(1)
    expect(run.stderr).toMatch(/^oddflow: standard output: cannot write it: no space left[^\n]*\n$/)
  })
})

describe('signals', () => {
  it.each([
    ['SIGINT', 130, 'score'],
    ['SIGTERM', 143, 'extract'],
  ] as const)(
    '%s on a pipe ends the reading with exit code %i, and %s writes what there is',
    async (signal, code, command) => {
      const args =
        command === 'score'
          ? ['score', model, '-', '--format', 'json']
          : ['extract', '--flows', '-', '-o', '-']
      const bytes = readFileSync(lab('normal-1.pcap').path)
      const whole = await runToEnd(process.execPath, [main, ...args], { stdin: bytes })
      const child = spawn(process.execPath, [main, ...args], { stdio: ['pipe', 'pipe', 'pipe'] })
      let stdout = ''
      let stderr = ''
      child.stdout.on('data', (chunk: Buffer) => {
        stdout += chunk.toString()
      })
      child.stderr.on('data', (chunk: Buffer) => {
        stderr += chunk.toString()
      })
      // the pipe stays open; what it holds is taken when the program waits for more
      await new Promise<void>((resolve) => child.stdin.write(bytes, () => resolve()))
      await untilIdle(child.pid!)
      child.kill(signal)
      expect(await new Promise((resolve) => child.on('close', resolve))).toBe(code)
      expect(stdout).toBe(whole.stdout)
      expect(stdout.length).toBeGreaterThan(1000)
      expect(stderr).toMatch(
        new RegExp(`standard input: stopped by ${signal} after \\d+ packets, which were used`),
      )
    },
  )

  it.each(['SIGINT', 'SIGTERM'] as const)(
    '%s while reading ends it at once and leaves nothing',
    async (signal) => {
      const output = join(folder, 'interrupted.oddflow')
      const child = spawn(process.execPath, [main, 'train', '-', '-o', output], {
        stdio: ['pipe', 'pipe', 'pipe'],
      })
      const bytes = readFileSync(lab('normal-1.pcap').path)
      // more than the pipe holds: when it has been taken, the program is reading
      await new Promise<void>((resolve) => child.stdin.write(bytes, () => resolve()))
      child.kill(signal)
      const [code, by] = await new Promise<[number | null, string | null]>((resolve) => {
        child.on('close', (...ending) => resolve(ending))
      })
      expect({ code, by }).toEqual({ code: null, by: signal })
      expect(filesOf(folder).filter((name) => /interrupted|\.tmp/.test(name))).toEqual([])
    },
  )

  it('one that comes within a write waits until the file is whole', async () => {
    const module = pathToFileURL(join(root, 'packages/program/dist/files.js')).href
    const script = `
      const { writeFileWhole } = await import(${JSON.stringify(module)})
      writeFileWhole('first', 'x')
      process.kill(process.pid, 'SIGINT')
      writeFileWhole('second', Buffer.alloc(5e6, 'y'))
      setTimeout(() => {}, 60000)`
    const run = await runToEnd(process.execPath, ['--input-type=module', '-e', script], { cwd: folder })
    expect(run.code).toBe(130)
    expect(readFileSync(join(folder, 'second')).length).toBe(5e6)
    expect(filesOf(folder).filter((name) => name.includes('.tmp'))).toEqual([])
  })
})

describe('memory', () => {
  const peak =
    'data:text/javascript,process.on("exit",()=>console.error("peak",process.resourceUsage().maxRSS))'
  const peakMegabytes = (stderr: string): number => Number(/peak (\d+)/.exec(stderr)?.[1]) / 1024

  /** A capture whose one gzip member is repeated: half a gigabyte in a few megabytes. */
  function bomb(frame: Uint8Array): Buffer {
    const header = capture([])
    const records = capture(Array.from({ length: 12_000 }, () => frame)).subarray(header.length)
    const member = gzipSync(records)
    const times = Math.ceil(5e8 / records.length)
    return Buffer.concat([gzipSync(header), ...Array.from({ length: times }, () => member)])
  }

  it('is bounded on half a gigabyte out of a small gzip file', async () => {
    const path = join(folder, 'bomb.pcap.gz')
    const bytes = bomb(arpFrame(1400))
    expect(bytes.length).toBeLessThan(5e6)
    writeFileSync(path, bytes)
    const run = await succeeds(['info', path, '--format', 'json'], { node: ['--import', peak] })
    const [{ packets, wireBytes, skipped }] = jsonLines<{
      packets: number
      wireBytes: number
      skipped: { arp: number }
    }>(run) as [{ packets: number; wireBytes: number; skipped: { arp: number } }]
    expect(wireBytes).toBeGreaterThan(4.9e8)
    expect(skipped.arp).toBe(packets)
    expect(peakMegabytes(run.stderr)).toBeLessThan(250)
  })

  it('is bounded when scoring one endless flow', async () => {
    const path = join(folder, 'flow.pcap.gz')
    writeFileSync(path, bomb(udpFrame(40_000, 1400)))
    const run = await oddflow(['score', model, path, '--format', 'json', '--novel-only'], {
      node: ['--import', peak],
    })
    expect(run.code).toBe(0)
    expect(peakMegabytes(run.stderr)).toBeLessThan(400)
  })
})

describe('progress', () => {
  it('says nothing into a pipe: standard error is whole lines without control characters', async () => {
    const runs = [
      await succeeds(['train', lab('normal-1.pcap').path, '-o', join(folder, 'quiet.oddflow')]),
      await succeeds(['score', model, lab('novel-firmware.pcap').path]),
      await succeeds(['extract', lab('normal-1.pcap').path, '-o', join(folder, 'rows.npy')]),
    ]
    for (const { stderr } of runs) expect(stderr).toMatch(/^([^\p{Cc}]+\n)*$/u)
    // what is odd among the rows, and that one capture gives groups no level
    expect(runs[0]!.stderr).toMatch(
      /^(oddflow: warning: \d training rows? unlike all others: [^\n]+\n)?oddflow: warning: [^\n]*: one input, [^\n]+\n$/,
    )
  })
})

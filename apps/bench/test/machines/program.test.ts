import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Bundle } from '../../src/machines/make-bundle.js'
import { type ProgramRun, runProgram } from '../../src/machines/reach.js'
import { PROGRAM_FILE } from '../../src/machines/work.js'
import { makeSmallBundle, writeSmallWork } from '../support/small-bundle.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-program-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let bundle: Bundle
beforeAll(() => {
  bundle = makeSmallBundle(writeSmallWork(folder), join(folder, 'bundle'))
}, 60_000)

const options = (timeoutMillis = 30_000) => ({ bundle, timeoutMillis, onItem() {} })
/** A program in the place of the bundle's. */
const instead = (text: string, timeoutMillis?: number): Promise<ProgramRun> =>
  runProgram(process.execPath, ['-e', text], options(timeoutMillis))

describe('the program of a bundle', () => {
  it('refuses files that are not those of its work, and says which', async () => {
    const copy = makeSmallBundle(writeSmallWork(join(folder, 'again')), join(folder, 'damaged'))
    expect(copy.sha256).toBe(bundle.sha256)
    const model = Object.keys(copy.work.files).find((name) => name.endsWith('.model'))!
    writeFileSync(join(copy.folder, model), 'something else')
    const run = await runProgram(process.execPath, [join(copy.folder, PROGRAM_FILE)], options())
    expect(run.failure).toContain(`${model}: is not the file that work.json names`)
    expect(run.items).toEqual([])
  }, 60_000)

  it('has help', () => {
    const program = join(bundle.folder, PROGRAM_FILE)
    const help = execFileSync(process.execPath, [program, '--help'], { encoding: 'utf8' })
    expect(help).toMatch(/^Usage: node oddflow-bench\.mjs .*\n/)
    expect(help).toContain('--name <name>')
  })

  it('refuses another bundle than expected, and items that there are not', async () => {
    const program = join(bundle.folder, PROGRAM_FILE)
    const other = await runProgram(process.execPath, [program, '--expect', 'a'.repeat(64)], options())
    expect(other.failure).toContain('work.json: expected SHA-256 aaaa')
    const none = await runProgram(process.execPath, [program, '--items', '9999'], options())
    expect(none.failure).toContain('--items: expected numbers below')
    const unknown = await runProgram(process.execPath, [program, '--colour'], options())
    expect(unknown.failure).not.toBeNull()
    expect(unknown.process.code).toBe(2)
  })

  it.each([
    ['RSPI', '; try: --name rspi'],
    ['-my pi', '; try: --name my-pi'],
    ['', ''],
  ])('refuses a name that merge would not take, before anything is run: %j', async (name, advice) => {
    const program = join(bundle.folder, PROGRAM_FILE)
    const run = await runProgram(process.execPath, [program, `--name=${name}`], options())
    expect(run.process.code).toBe(2)
    expect(run.process.stdout).toBe('')
    expect(run.failure).toBe(
      `oddflow-bench: --name: expected a short name of a-z, 0-9, dots, hyphens, plus signs, found ${JSON.stringify(name)}${advice}`,
    )
  })

  it('does an item once that is asked for twice', async () => {
    const program = join(bundle.folder, PROGRAM_FILE)
    const asked = { ...options(), items: [0] }
    const run = await runProgram(process.execPath, [program, '--items', '0,0'], asked)
    expect(run).toMatchObject({ failure: null, items: [{ index: 0 }] })
  })

  it('ends with its standard input, with --end-with-stdin', async () => {
    const program = join(bundle.folder, PROGRAM_FILE)
    const shell = `exec "$0" "$1" --end-with-stdin < /dev/null`
    const run = await runProgram('sh', ['-c', shell, process.execPath, program], options())
    expect(run.process.code).toBe(1)
    expect(run.items.length).toBeLessThan(bundle.work.items.length)
  })
})

describe('what a program prints', () => {
  it.each<[string, string, RegExp]>([
    ['nothing', '', /exit code 0/],
    ['no JSON', 'console.log("hello")', /result: /],
    [
      'an item before its machine',
      'console.log(JSON.stringify({kind:"end",items:0,peakMemoryBytes:1}))',
      /does not begin/,
    ],
    ['a number too large for JSON', 'console.log("{\\"kind\\":1e999}")', /kind/],
    ['a line without end', 'process.stdout.write("x".repeat(200_000) + "\\n")', /at most 65536/],
    [
      'more than there is to say',
      'for (;;) require("fs").writeSync(1, "y".repeat(65536))',
      /printed more than \d+ bytes/,
    ],
  ])('is refused when it is %s', async (_, text, message) => {
    const run = await instead(text)
    expect(run.failure).toMatch(message)
    expect(run.items).toEqual([])
  })

  it('is refused when it says nothing for too long', async () => {
    const run = await instead('setInterval(() => {}, 1000)', 2000)
    expect(run).toMatchObject({ failure: 'took longer than 2 s', items: [] })
  })

  it('is refused when its machine holds control characters, or is of another bundle', async () => {
    const machine = (cpu: string, bundleSha256: string): string =>
      JSON.stringify({
        kind: 'machine',
        format: 1,
        name: 'x',
        bundleSha256,
        loadAverage: null,
        machine: {
          cpu,
          logicalCpus: 1,
          memoryBytes: 1,
          operatingSystem: 'Linux',
          architecture: 'arm',
          libc: null,
          node: '20.0.0',
          governor: null,
          maximumMegahertz: null,
          throttling: null,
          wasmSimd: true,
          vectorInstructions: [],
          emulated: false,
        },
      })
    const say = (line: string): string => `console.log(${JSON.stringify(line)})`
    expect((await instead(say(machine('a\u001b[31mb', bundle.sha256)))).failure).toMatch(/machine\.cpu/)
    expect((await instead(say(machine('a', 'b'.repeat(64))))).failure).toMatch(/another bundle/)
    const item = { ...bundle.work.items[0]!, kind: 'item', index: 0, outcome: { failure: 'no' } }
    const forged = {
      kind: 'item',
      index: 0,
      work: item.work,
      expected: { modelSha256: 'c'.repeat(64), scoresSha256: 'c'.repeat(64) },
      outcome: { failure: 'no' },
    }
    const both = `${say(machine('a', bundle.sha256))};${say(JSON.stringify(forged))}`
    expect((await instead(both)).failure).toMatch(/item 0 differs from the bundle's/)
    const honest = { ...forged, expected: item.expected }
    const twice = `${say(machine('a', bundle.sha256))};${say(JSON.stringify(honest)).concat(';').repeat(2)}`
    expect((await instead(twice)).failure).toMatch(/item 0 was not requested, or came twice/)
  })

  it('differs from a program that is missing', async () => {
    const run = await runProgram(join(folder, 'nothing'), [], options())
    expect(run.failure).toMatch(/cannot start/)
  })
})

it('a bundle goes into a new folder alone', () => {
  expect(existsSync(bundle.folder)).toBe(true)
  expect(() => makeSmallBundle(writeSmallWork(join(folder, 'third')), bundle.folder)).toThrow(/is not empty/)
}, 60_000)

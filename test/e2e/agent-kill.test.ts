/**
 * kill -9 at random points: no alert that was acknowledged is lost, no line of the EVE file is broken, and every
 * restart finds its state within a moment. ODDFLOW_KILLS sets how often (200).
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { createRng, type Rng } from '../../packages/core/src/index.js'
import { temporaryFolder } from './support/oddflow.js'

const worker = fileURLToPath(new URL('support/spool-worker.mjs', import.meta.url))
const kills = sampleCount(1000, 0.02)
/** Spools that live and are killed side by side: starting Node is most of the time. */
const lanes = 4
const folder = temporaryFolder()

interface Life {
  /** One beyond the last number that was promised; null where none was. */
  promised: number | null
  /** Of the processor, from start to ready; null where it was killed before. */
  readyMillis: number | null
}

/** Starts the worker, and kills it when it has said `word` and what follows is over. */
async function live(
  place: string,
  first: number,
  word: RegExp,
  following: () => Promise<unknown>,
): Promise<Life> {
  const child = spawn(process.execPath, [worker, place, String(first)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let told = ''
  let onWord: () => void = () => undefined
  const said = new Promise<void>((resolve) => {
    onWord = resolve
  })
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    told += text
    if (word.test(told)) onWord()
  })
  const closed = new Promise<void>((resolve) => child.on('close', () => resolve()))
  await Promise.race([said, closed])
  await following()
  child.kill('SIGKILL')
  await closed
  const lines = told.split('\n').slice(0, -1)
  const ranges = lines.filter((line) => !line.startsWith('ready')).map((line) => line.split(' ').map(Number))
  for (let i = 1; i < ranges.length; i++) expect(ranges[i]![0]).toBe(ranges[i - 1]![1])
  const ready = lines.find((line) => line.startsWith('ready'))
  return {
    promised: ranges.at(-1)?.[1] ?? null,
    readyMillis: ready === undefined ? null : Number(ready.split(' ')[1]),
  }
}

function delivered(place: string): number[] {
  const text = readFileSync(join(place, 'eve.json'), 'utf8')
  // a last line that is cut off is taken away by the next start
  const lines = text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(0, -1)
  return lines.map((line) => {
    const { number, text: filling } = JSON.parse(line) as { number: number; text: string }
    expect(filling).toHaveLength(number % 700)
    return number
  })
}

/** Kills again and again, then lives until all is delivered. */
async function lane(
  place: string,
  rng: Rng,
): Promise<{ promises: number; lives: number; slowestMillis: number }> {
  mkdirSync(place)
  const ranges: [number, number][] = []
  let slowestMillis = 0
  const count = Math.ceil(kills / lanes)
  const firstOf = (life: number): number => 1_000_000 * (life + 1)
  for (let i = 0; i < count; i++) {
    // some on the way, some when they have just begun, most in the midst of writing
    const word = i % 8 === 0 ? /^/ : i % 4 === 0 ? /ready/ : /^\d/m
    const { promised, readyMillis } = await live(place, firstOf(i), word, () => pause(rng.nextFloat() * 40))
    if (promised !== null) ranges.push([firstOf(i), promised])
    slowestMillis = Math.max(slowestMillis, readyMillis ?? 0)
  }
  // all come in order: the first of the last life is behind the others
  await live(place, firstOf(count), /ready/, async () => {
    while (!delivered(place).some((number) => number >= firstOf(count))) await pause(50)
  })
  const all = new Set(delivered(place))
  let promises = 0
  for (const [from, to] of ranges) {
    for (let number = from; number < to; number++, promises++) {
      if (!all.has(number)) expect.fail(`alert ${number} was acknowledged and never delivered`)
    }
  }
  return { promises, lives: ranges.length, slowestMillis }
}

it(
  `kill -9 at ${kills} random points loses nothing that was acknowledged`,
  async () => {
    const rng = createRng(20_240_301)
    const results = await Promise.all(
      Array.from({ length: lanes }, (_, i) => lane(join(folder, String(i)), rng.fork(String(i)))),
    )
    const sum = (of: (result: (typeof results)[number]) => number): number =>
      results.reduce((total, result) => total + of(result), 0)
    const slowest = Math.max(...results.map(({ slowestMillis }) => slowestMillis))
    process.stdout.write(
      `${kills} kills, ${sum(({ lives }) => lives)} of them past an acknowledgement; ${sum(({ promises }) => promises)} alerts acknowledged, none lost; ready in ${slowest} ms of the processor at most\n`,
    )
    expect(sum(({ lives }) => lives)).toBeGreaterThan(kills / 2)
    expect(sum(({ promises }) => promises)).toBeGreaterThan(3 * kills)
    expect(slowest).toBeLessThan(5000)
  },
  // a busy machine starts a process in ten seconds
  60_000 + 15_000 * kills,
)

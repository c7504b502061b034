/**
 * Mutated captures by the hundred thousand: npm run -s slow:fuzz -- [--files N] [--seed S] [--first K] [--minutes M]
 *
 * Each file is made of a capture of the repository or of the evidence folder, and of its own number and the
 * seed alone, so that one that fails can be read again by itself, and a run that was stopped goes on where it
 * was. A thread reads; this one watches. The limits are a second of processor time and 256 MB of resident
 * memory; a file that throws, breaks an account or passes a limit is named, and the exit code is then 1. A file
 * that has not ended after 30 s of processor time, or that ends the thread, is named too, and a new thread goes on behind it.
 *
 * How far it is goes to standard error, each second on a terminal and each ten otherwise. At --minutes, and at an
 * interrupt, it stops, sums up, and says with what numbers to go on.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { createRng } from '../../packages/core/dist/index.js'
import { root } from '../workspace/layout.mjs'
import { mutate } from './mutate.mjs'
import { tryCapture } from './try-capture.mjs'

const LIMIT_SECONDS = 1
const LIMIT_BYTES = 256e6
const HANGS_SECONDS = 30
/** By the clock, of which other work on the machine may take most. */
const STANDS_SECONDS = 600
const USUAL = { files: '100000', seed: '1', first: '0', minutes: 'Infinity' }
/** Longer captures are cut: what is beyond repeats itself. */
const SOURCE_BYTES = 65_536
const MAXIMUM_PIECES = 100

function capturesUnder(folder) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true })
    .sort()
    .map((name) => join(folder, name))
    .filter((file) => statSync(file).isFile() && !/\.(?:json|md|txt|csv)$/.test(file))
}

function readSources() {
  const shared = process.env.ODDFLOW_SHARED ?? join(root, '../shared')
  const folders = ['captures', 'golden-captures', 'hostile'].map((name) => join(shared, 'data', name))
  const files = [join(root, 'test/fixtures/lab'), ...folders].flatMap(capturesUnder)
  return files
    .map((file) => new Uint8Array(readFileSync(file).subarray(0, SOURCE_BYTES)))
    .filter(({ length }) => length > 0)
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')
/** Grown by so much, what the files before have left behind is collected before the next one is measured. */
const TIDY_BYTES = 32e6

/** Peak since the last call, in bytes; of the whole run where the system cannot set it back. */
function peakBytes() {
  if (process.platform !== 'linux') return process.memoryUsage().rss
  const peak = 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])
  writeFileSync('/proc/self/clear_refs', '5')
  return peak
}

/** The thread's account is a line of numbers that the watcher sees at any moment, also after the thread's end. */
const SUMS = ['done', 'packets', 'damaged', 'truncated', 'slowestSeconds', 'slowest', 'mostBytes', 'most']
const AT = Object.fromEntries(SUMS.map((name, place) => [name, place]))

async function work() {
  const { shared, seed, first, end } = workerData
  const sum = new Float64Array(shared)
  const sources = readSources()
  parentPort.postMessage({ sources: sources.length })
  collectGarbage()
  let tidyBytes = process.memoryUsage.rss()
  for (let number = first; number < end; number++) {
    sum[AT.done] = number
    const rng = createRng(seed * 16_777_216 + number)
    const source = sources[rng.nextBelow(sources.length)]
    const bytes = mutate(rng, source, sources[rng.nextBelow(sources.length)])
    const pieceBytes = Math.max(1 + rng.nextBelow(97), Math.ceil(bytes.length / MAXIMUM_PIECES))
    if (process.memoryUsage.rss() > tidyBytes + TIDY_BYTES) {
      collectGarbage()
      tidyBytes = process.memoryUsage.rss()
    }
    peakBytes()
    const start = process.cpuUsage()
    let failure = null
    try {
      const { packets, error, damage, truncated } = await tryCapture(bytes, pieceBytes)
      sum[AT.packets] += packets
      if (error !== null || damage !== null) sum[AT.damaged]++
      if (truncated) sum[AT.truncated]++
    } catch (error) {
      failure = error.stack
    }
    const { user, system } = process.cpuUsage(start)
    const seconds = (user + system) / 1e6
    const peak = peakBytes()
    if (seconds > sum[AT.slowestSeconds]) {
      sum[AT.slowestSeconds] = seconds
      sum[AT.slowest] = number
    }
    if (peak > sum[AT.mostBytes]) {
      sum[AT.mostBytes] = peak
      sum[AT.most] = number
    }
    if (seconds > LIMIT_SECONDS) failure ??= `${seconds.toFixed(2)} s of processor time`
    if (peak > LIMIT_BYTES) failure ??= `${(peak / 1e6).toFixed(0)} MB of resident memory`
    if (failure !== null) parentPort.postMessage({ number, failure })
  }
  sum[AT.done] = end
}

function readArguments() {
  const options = Object.fromEntries(Object.keys(USUAL).map((name) => [name, { type: 'string' }]))
  const { values } = parseArgs({ options })
  const numbers = {}
  for (const [name, usual] of Object.entries(USUAL)) {
    const text = values[name] ?? usual
    numbers[name] = text.trim() === '' ? Number.NaN : Number(text)
    const isRight =
      name === 'minutes' ? numbers[name] > 0 : Number.isInteger(numbers[name]) && numbers[name] >= 0
    if (!isRight) throw new Error(`--${name}: expected a number, found ${JSON.stringify(text)}`)
  }
  return numbers
}

/** Seconds as 1:02:03. */
function clock(seconds) {
  if (!Number.isFinite(seconds)) return '?'
  const whole = Math.round(seconds)
  const two = (value) => String(value).padStart(2, '0')
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`
}

/** Runs threads from number `first` on; resolves when all files are read or time is up. */
async function watch({ files, seed, first, minutes }) {
  const shared = new SharedArrayBuffer(8 * SUMS.length)
  const sum = new Float64Array(shared)
  const end = first + files
  const begun = process.hrtime.bigint()
  const seconds = () => Number(process.hrtime.bigint() - begun) / 1e9
  const findings = []
  let sources = 0
  let worker = null
  let isStopped = false
  /** Why the thread ended is said already. */
  let isNamed = false
  sum[AT.done] = first

  const find = (number, failure) => {
    findings.push(number)
    console.error(`\nfile ${number}: ${failure}`)
  }
  const stop = () => {
    isStopped = true
    worker?.terminate()
  }
  const tell = () => {
    const done = sum[AT.done] - first
    const rate = done / seconds()
    const left = Math.min((files - done) / rate, 60 * minutes - seconds())
    process.stderr.write(
      `${process.stderr.isTTY ? '\r' : ''}${done} of ${files} files, ${rate.toFixed(0)} a second, ${clock(left)} to go, ` +
        `${findings.length} findings${process.stderr.isTTY ? '   ' : '\n'}`,
    )
  }
  const cpuSeconds = () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }
  let told = 0
  let last = { number: -1, seconds: 0, cpu: 0 }
  const timer = setInterval(() => {
    const now = seconds()
    const cpu = cpuSeconds()
    if (sum[AT.done] !== last.number) last = { number: sum[AT.done], seconds: now, cpu }
    else if (worker !== null && (cpu - last.cpu > HANGS_SECONDS || now - last.seconds > STANDS_SECONDS)) {
      last = { ...last, seconds: now, cpu }
      isNamed = true
      find(last.number, `has not ended after ${HANGS_SECONDS} s of processor time, or ${STANDS_SECONDS} s`)
      worker.terminate()
    }
    if (now > 60 * minutes) stop()
    if (process.stderr.isTTY || now - told >= 10) {
      told = now
      tell()
    }
  }, 1000)
  process.once('SIGINT', stop)

  while (sum[AT.done] < end && !isStopped) {
    const from = sum[AT.done]
    await new Promise((resolve) => {
      worker = new Worker(new URL(import.meta.url), { workerData: { shared, seed, first: from, end } })
      worker.on('message', (message) => {
        if (message.sources !== undefined) sources = message.sources
        else find(message.number, message.failure)
      })
      worker.on('error', (error) => {
        isNamed = true
        find(sum[AT.done], error.stack)
      })
      worker.on('exit', resolve)
    })
    worker = null
    if (sum[AT.done] < end && !isStopped) {
      if (!isNamed) find(sum[AT.done], 'the thread that read it has ended')
      isNamed = false
      // behind the file that ended it
      sum[AT.done]++
    }
  }
  clearInterval(timer)
  process.removeListener('SIGINT', stop)
  return { sum, sources, findings, seconds: seconds(), left: end - sum[AT.done] }
}

async function run() {
  const wish = readArguments()
  const { sum, sources, findings, seconds, left } = await watch(wish)
  const next = sum[AT.done]
  console.log(
    `${next - wish.first} mutated files of ${sources} captures, seed ${wish.seed}, numbers ${wish.first} to ${next - 1}, in ` +
      `${seconds.toFixed(0)} s: ${sum[AT.packets]} packets, ${sum[AT.damaged]} files damaged, ${sum[AT.truncated]} cut short; ` +
      `slowest ${sum[AT.slowestSeconds].toFixed(2)} s (file ${sum[AT.slowest]}), ` +
      `most memory ${(sum[AT.mostBytes] / 1e6).toFixed(0)} MB (file ${sum[AT.most]}); ${findings.length} findings`,
  )
  if (left > 0)
    console.log(`to go on: npm run -s slow:fuzz -- --files ${left} --seed ${wish.seed} --first ${next}`)
  if (findings.length > 0) process.exitCode = 1
}

if (!isMainThread) await work()
else
  await run().catch((error) => {
    console.error(error.message)
    process.exitCode = 2
  })

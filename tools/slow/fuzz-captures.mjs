/**
 * Mutated captures by the hundred thousand: npm run -s slow:fuzz -- [FILES] [SEED] [FIRST]
 *
 * Each file is made of a capture of the repository or of the evidence folder, and of its own number and the
 * seed alone, so that one that fails can be read again by itself. A thread reads; this one watches. The limits
 * are a second of processor time and 256 MB of resident memory; a file that throws, breaks an account or
 * passes a limit is named, and the exit code is then 1. A file that has not ended after 30 s ends the run.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { createRng } from '../../packages/core/dist/index.js'
import { root } from '../workspace/layout.mjs'
import { mutate } from './mutate.mjs'
import { tryCapture } from './try-capture.mjs'

const [FILES, SEED, FIRST] = [100_000, 1, 0].map((usual, k) => Number(process.argv[2 + k] ?? usual))
const LIMIT_SECONDS = 1
const LIMIT_BYTES = 256e6
const HANGS_SECONDS = 30
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
/** Above this, what the files before have left behind is collected before the next one is measured. */
const TIDY_BYTES = 128e6

/** Peak since the last call, in bytes; of the whole run where the system cannot set it back. */
function peakBytes() {
  if (process.platform !== 'linux') return process.memoryUsage().rss
  const peak = 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])
  writeFileSync('/proc/self/clear_refs', '5')
  return peak
}

async function work() {
  const { progress } = workerData
  const sources = readSources()
  parentPort.postMessage({ sources: sources.length })
  const sum = { packets: 0, damaged: 0, truncated: 0, slowestSeconds: 0, slowest: 0, mostBytes: 0, most: 0 }
  collectGarbage()
  for (let number = FIRST; number < FIRST + FILES; number++) {
    Atomics.store(progress, 0, number - FIRST)
    const rng = createRng(SEED * 16_777_216 + number)
    const source = sources[rng.nextBelow(sources.length)]
    const bytes = mutate(rng, source, sources[rng.nextBelow(sources.length)])
    const pieceBytes = Math.max(1 + rng.nextBelow(97), Math.ceil(bytes.length / MAXIMUM_PIECES))
    if (process.memoryUsage.rss() > TIDY_BYTES) collectGarbage()
    peakBytes()
    const start = process.cpuUsage()
    let failure = null
    try {
      const { packets, error, damage, truncated } = await tryCapture(bytes, pieceBytes)
      sum.packets += packets
      if (error !== null || damage !== null) sum.damaged++
      if (truncated) sum.truncated++
    } catch (error) {
      failure = error.stack
    }
    const { user, system } = process.cpuUsage(start)
    const seconds = (user + system) / 1e6
    const peak = peakBytes()
    if (seconds > sum.slowestSeconds) [sum.slowestSeconds, sum.slowest] = [seconds, number]
    if (peak > sum.mostBytes) [sum.mostBytes, sum.most] = [peak, number]
    if (seconds > LIMIT_SECONDS) failure ??= `${seconds.toFixed(2)} s of processor time`
    if (peak > LIMIT_BYTES) failure ??= `${(peak / 1e6).toFixed(0)} MB of resident memory`
    if (failure !== null) parentPort.postMessage({ number, failure })
  }
  Atomics.store(progress, 0, FILES)
  parentPort.postMessage({ sum })
}

function watch() {
  const progress = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { progress },
    argv: process.argv.slice(2),
  })
  const begun = process.hrtime.bigint()
  const seconds = () => Number(process.hrtime.bigint() - begun) / 1e9
  let sources = 0
  let failures = 0
  let last = -1
  let lastSeconds = 0
  const timer = setInterval(() => {
    const done = Atomics.load(progress, 0)
    if (done !== last) [last, lastSeconds] = [done, seconds()]
    else if (seconds() - lastSeconds > HANGS_SECONDS) {
      console.error(`file ${FIRST + done}: has not ended after ${HANGS_SECONDS} s`)
      process.exit(1)
    }
    if (process.stderr.isTTY) process.stderr.write(`\r${done} of ${FILES} files, ${failures} failures `)
  }, 1000)
  worker.on('message', (message) => {
    if (message.sources !== undefined) sources = message.sources
    else if (message.failure !== undefined) {
      failures++
      console.error(`file ${message.number}: ${message.failure}`)
    } else {
      const { packets, damaged, truncated, slowestSeconds, slowest, mostBytes, most } = message.sum
      console.log(
        `${FILES} mutated files of ${sources} captures, seed ${SEED}, in ${seconds().toFixed(0)} s: ${packets} packets, ` +
          `${damaged} files damaged, ${truncated} cut short; slowest ${slowestSeconds.toFixed(2)} s (file ${slowest}), ` +
          `most memory ${(mostBytes / 1e6).toFixed(0)} MB (file ${most}); ${failures} failures`,
      )
    }
  })
  worker.on('error', (error) => {
    console.error(`file ${FIRST + Atomics.load(progress, 0)}: ${error.stack}`)
    failures++
  })
  worker.on('exit', () => {
    clearInterval(timer)
    if (failures > 0) process.exitCode = 1
  })
}

if (isMainThread) watch()
else await work()

/**
 * The program of a bundle: one file that needs only Node, beside its models and rows (see HELP). It checks every file's
 * hash before it runs anything. Exit code 0: every item was tried; 1: the bundle is unusable; 2: wrong command line.
 */
import { readFileSync, writeSync } from 'node:fs'
import { hostname, loadavg, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createRng, decodeNpyMatrix } from '@oddflow/core'
import {
  checkStoredParameters,
  createScoreWorkspace,
  decodeModelFile,
  encodeModelFile,
  fitDetector,
  scoreSamples,
} from '@oddflow/detectors'
import { timeRuns } from '@oddflow/evaluation'
import { encodeTrialModel, measureScores } from '../../run/trial-model.js'
import { describeMachineFully, EXPECTED_NAME, SHORT_NAME, toShortName } from '../machine-description.js'
import type { ItemOutcome, RunnerLine } from '../runner-line.js'
import {
  describeWork,
  type FitItem,
  hashScores,
  isFitItem,
  type ScoreItem,
  sha256,
  WORK_FILE,
  type Work,
} from '../work.js'

const HELP = `Usage: node oddflow-bench.mjs [options] > NAME.jsonl

tests the models beside it on this machine; results are JSON lines on standard output

Options:
  --name <name>      what tables call this machine: a-z, 0-9, dots, hyphens (default: its host name)
  --items <list>     these items alone, by number from 0, separated by commas
  --expect <sha256>  refuse any other bundle
  --end-with-stdin   stop as soon as standard input ends
  -h, --help         print this help and end

Bring NAME.jsonl back to the machine that made the bundle; there: oddflow-bench merge NAME.jsonl
`

const folder = dirname(fileURLToPath(import.meta.url))

/** Of the command line. */
class Misuse extends Error {}

function print(line: RunnerLine): void {
  const bytes = Buffer.from(`${JSON.stringify(line)}\n`)
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(1, bytes, at)
    } catch (error) {
      // a pipe that is full for the moment
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
  }
}

function readWork(expected: string | undefined): { work: Work; bundleSha256: string } {
  const bytes = readFileSync(join(folder, WORK_FILE))
  const bundleSha256 = sha256(bytes)
  if (expected !== undefined && expected !== bundleSha256) {
    throw new Error(`${WORK_FILE}: expected SHA-256 ${expected}, found ${bundleSha256}`)
  }
  const work = JSON.parse(bytes.toString('utf8')) as Work
  if (work.format !== 1) throw new Error(`${WORK_FILE}: expected format 1, found ${work.format}`)
  for (const [path, expectedHash] of Object.entries(work.files)) {
    if (sha256(readFileSync(join(folder, path))) !== expectedHash) {
      throw new Error(`${path}: is not the file that ${WORK_FILE} names (SHA-256 differs)`)
    }
  }
  return { work, bundleSha256 }
}

function chosenItems(list: string | undefined, total: number): number[] {
  if (list === undefined) return Array.from({ length: total }, (_, i) => i)
  const indices = list.split(',').map((entry) => {
    const index = Number(entry)
    if (!/^\d+$/.test(entry) || index >= total) {
      throw new Error(`--items: expected numbers below ${total}, found ${entry}`)
    }
    return index
  })
  // an item that is asked for twice is not done twice
  return [...new Set(indices)]
}

/** Asked before anything is run: `merge` takes no other, and by then the work is done. */
function checkName(name: string): string {
  if (SHORT_NAME.test(name)) return name
  const near = toShortName(name)
  throw new Misuse(
    `--name: ${EXPECTED_NAME}, found ${JSON.stringify(name)}${near === '' ? '' : `; try: --name ${near}`}`,
  )
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      name: { type: 'string', default: toShortName(hostname()) || 'machine' },
      items: { type: 'string' },
      expect: { type: 'string' },
      'end-with-stdin': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) {
    process.stdout.write(HELP)
    return
  }
  const name = checkName(values.name)
  if (values['end-with-stdin']) {
    process.stdin.on('end', () => process.exit(1)).on('error', () => process.exit(1))
    process.stdin.resume()
  }
  const { work, bundleSha256 } = readWork(values.expect)
  const indices = chosenItems(values.items, work.items.length)
  print({
    kind: 'machine',
    format: 1,
    name,
    bundleSha256,
    machine: describeMachineFully(),
    loadAverage: platform() === 'win32' ? null : (loadavg()[0] ?? null),
  })
  for (const [done, index] of indices.entries()) {
    const item = work.items[index]!
    process.stderr.write(`${done + 1} of ${indices.length}: ${describeWork(item.work)}\n`)
    print({
      kind: 'item',
      index,
      work: item.work,
      expected: item.expected,
      outcome: tryItem(() => (isFitItem(item) ? runFit(item, work) : runScore(item, work))),
    })
    // so that the end of standard input is noticed between two items
    await setImmediate()
  }
  print({ kind: 'end', items: indices.length, peakMemoryBytes: peakMemoryBytes() })
  process.exit(0)
}

/** Peak memory. Linux's VmHWM starts with this program; getrusage includes the program that started it. */
function peakMemoryBytes(): number {
  try {
    const kilobytes = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
    if (kilobytes !== undefined) return Number(kilobytes) * 1024
  } catch {
    // no Linux
  }
  return process.resourceUsage().maxRSS * 1024
}

function tryItem<T>(run: () => T): T | { failure: string } {
  try {
    return run()
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { failure: message.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ').slice(0, 200) || 'failed' }
  }
}

// ---- items

const clock = (): number => performance.now()

/** Reads a model, writes it again (the bytes must be equal), scores the rows, and scores them again for the time. */
function runScore(item: ScoreItem, { testRuns }: Work): ItemOutcome {
  const saved = decodeModelFile(readFileSync(join(folder, item.model)))
  const rows = decodeNpyMatrix(readFileSync(join(folder, item.rows)))
  const labels = decodeNpyMatrix(readFileSync(join(folder, item.labels)))
  const workspace = createScoreWorkspace(saved.detector)
  const scores = scoreSamples(saved.detector, rows, new Float64Array(rows.rows), workspace)
  const out = new Float64Array(rows.rows)
  const testMillis = timeRuns(() => scoreSamples(saved.detector, rows, out, workspace), {
    clock,
    runs: testRuns,
  })
  return {
    modelSha256: sha256(encodeModelFile(saved)),
    scoresSha256: hashScores(scores),
    result: { sample: item.work.sample, ...measureScores(scores, labels.data) },
    testRows: rows.rows,
    testMillis: [...testMillis],
    fitMillis: null,
  }
}

/** Fits a model and writes it. */
function runFit(item: FitItem, { oddflowVersion }: Work): ItemOutcome {
  const train = decodeNpyMatrix(readFileSync(join(folder, item.rows)))
  const { seed, dataSha256 } = item.work
  const parameters = checkStoredParameters(item.parameters)
  const started = clock()
  const detector = fitDetector(train, parameters, createRng(seed))
  const fitMillis = clock() - started
  const bytes = encodeTrialModel(detector, train, { oddflowVersion, seed, dataSha256 })
  return {
    modelSha256: sha256(bytes),
    scoresSha256: null,
    result: null,
    testRows: null,
    testMillis: null,
    fitMillis,
  }
}

// ---- run

try {
  await main()
} catch (error) {
  const isOption =
    error instanceof Misuse || (error as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS') === true
  process.stderr.write(`oddflow-bench: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(isOption ? 2 : 1)
}

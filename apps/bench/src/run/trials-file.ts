/**
 * The trials file: JSON lines that runs append, each written whole and flushed. A last line that a killed run left
 * unfinished is cut off, and its work is done again. A lock keeps a second run out.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { DataError, FormatError } from '@oddflow/core'
import { FileError, isRunning, runInWorkers } from '@oddflow/program'
import { decodeLines, inFile, makeFolder, requireSize, writeFileWhole } from '../files.js'
import { complain, createProgress, note } from '../output.js'
import type { Job, RunSettings } from './job.js'
import { describeMachine, describeVersions } from './machine.js'
import { dataKey, decodeTrial, encodeTrial, type Trial, trialKey } from './trial.js'
import type { WorkerAnswer } from './worker.js'

/** A lock beside the real file, whatever link led there, with its owner's process number. A dead owner's is taken over. */

/** What is there of a path, with no symbolic link in it; its last part need not be there. The folder must be. */
export function realTarget(path: string): string {
  let target = path
  // as many links as Linux follows
  for (let links = 0; links < 40; links++) {
    target = join(realpathSync(dirname(target)), basename(target))
    if (lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return target
    target = resolve(dirname(target), readlinkSync(target))
  }
  throw Object.assign(new Error('too many links'), { code: 'ELOOP' })
}

/** `target`: of `realTarget`. Gives back what releases it. Throws FileError when another run holds it. */
function takeLock(target: string): () => void {
  const lock = `${target}.lock`
  for (let attempt = 0; ; attempt++) {
    try {
      writeFileSync(lock, `${process.pid}\n`, { flag: 'wx' })
      return () => rmSync(lock, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || attempt === 3) throw error
    }
    if (!lstatSync(lock, { throwIfNoEntry: false })?.isFile()) {
      throw new FileError('file.locked', `its lock ${lock} is not a file of oddflow-bench; remove it`)
    }
    const owner = Number(readFileSync(lock, 'utf8'))
    if (owner !== process.pid && isRunning(owner)) {
      throw new FileError('file.locked', `another run (process ${owner}) has it open; if not, remove ${lock}`)
    }
    rmSync(lock, { force: true })
  }
}

/** A quarter of a million trials. */
const MAXIMUM_FILE_BYTES = 500_000_000

/** What a trial is of: no file has two trials of one key. */
type KeyOf = (trial: Trial) => string

interface TrialsFile {
  /** What was there when it was opened. */
  readonly trials: readonly Trial[]
  /** Bytes of a last line without its end that were cut off. */
  readonly tornBytes: number
  append(trial: Trial): void
  /** Rewrites the file, completely or not at all: for trials that newer ones take the place of. */
  rewrite(trials: readonly Trial[]): void
  close(): void
}

/** The trials of a file that no run is writing to. Throws an error that begins with the path and names the line. */
export function readTrials(path: string, keyOf: KeyOf = trialKey): Trial[] {
  return inFile(path, () => {
    requireSize(path, 'trials', MAXIMUM_FILE_BYTES)
    const bytes = readFileSync(path)
    if (wholeLines(bytes) !== bytes.length) {
      throw new FormatError('trials', 'the last line is cut off; resume the run that wrote it')
    }
    return parse(bytes, keyOf)
  })
}

/** Opens or creates a file to append to. Throws FileError if another run has it open. `append` refuses a known key. */
export function openTrials(path: string, keyOf: KeyOf = trialKey): TrialsFile {
  return inFile(path, () => openLocked(path, keyOf), 'write')
}

function openLocked(path: string, keyOf: KeyOf): TrialsFile {
  makeFolder(dirname(path))
  const target = realTarget(path)
  const release = takeLock(target)
  try {
    if (existsSync(target)) requireSize(target, 'trials', MAXIMUM_FILE_BYTES)
    let file = openSync(target, 'a+')
    const bytes = readFileSync(file)
    const whole = wholeLines(bytes)
    const trials = parse(bytes.subarray(0, whole), keyOf)
    const keys = new Set(trials.map(keyOf))
    if (whole < bytes.length) ftruncateSync(file, whole)
    return {
      trials,
      tornBytes: bytes.length - whole,
      append(trial) {
        const write = (): void => {
          const key = keyOf(trial)
          if (keys.has(key)) throw new FormatError('trials', `there is a trial of ${key} already`)
          writeWhole(file, Buffer.from(`${encodeTrial(trial)}\n`))
          fsyncSync(file)
          keys.add(key)
        }
        inFile(path, write, 'write')
      },
      rewrite(all) {
        writeFileWhole(target, all.map((trial) => `${encodeTrial(trial)}\n`).join(''))
        closeSync(file)
        file = openSync(target, 'a+')
        keys.clear()
        for (const trial of all) keys.add(keyOf(trial))
      },
      close() {
        closeSync(file)
        release()
      },
    }
  } catch (error) {
    release()
    throw error
  }
}

function writeWhole(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at)
}

/** Bytes up to the last line that has its end. */
function wholeLines(bytes: Uint8Array): number {
  return bytes.lastIndexOf(0x0a) + 1
}

function parse(bytes: Uint8Array, keyOf: KeyOf): Trial[] {
  const lineOf = new Map<string, number>()
  const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  return decodeLines(text.split('\n').slice(0, -1), 'trials', (line, i) => {
    const trial = decodeTrial(line)
    const key = keyOf(trial)
    const before = lineOf.get(key)
    if (before !== undefined) {
      throw new FormatError('trials', `two trials of ${key}: remove this line or line ${before}`)
    }
    lineOf.set(key, i + 1)
    return trial
  })
}

interface RunOptions {
  readonly jobs: readonly Job[]
  /** Equal for a job and the trial that comes of it. */
  readonly keyOf: KeyOf
  readonly keyOfJob: (job: Job, machine: string) => string
  readonly data: string
  readonly trials: string
  readonly machine: string
  /** Trials at the same time; one CPU less than there are when it is not given. */
  readonly workers?: number
  readonly testRuns: number
  /** Throws where the trials that are there are not of the kind that is asked for. */
  readonly checkThere?: (trials: readonly Trial[]) => void
}

function requireSameRows({ dataset, dataSha256 }: Trial, known: string | undefined, path: string): void {
  if (known === undefined || known === dataSha256) return
  throw new DataError(
    `${dataset}: the rows differ from those of the trials in ${path}; give another --trials`,
  )
}

/**
 * Runs the jobs whose trials are missing, in worker threads, and writes each trial as it comes. Resolves to the exit
 * code: 1 when a trial could not be made.
 */
export async function runIntoFile({
  jobs,
  keyOf,
  keyOfJob,
  checkThere,
  ...options
}: RunOptions): Promise<number> {
  const workers = options.workers ?? Math.max(1, availableParallelism() - 1)
  const machine = describeMachine(options.machine, workers)
  const file = openTrials(options.trials, keyOf)
  const progress = createProgress()
  const said = new Set<string>()
  let failures = 0
  let made = 0
  try {
    if (file.tornBytes > 0)
      note(`${options.trials}: a stopped run left an unfinished last line; its trial is done again`)
    checkThere?.(file.trials)
    const dataOf = new Map(file.trials.map((trial) => [dataKey(trial), trial.dataSha256]))
    const there = new Set(file.trials.map(keyOf))
    const missing = jobs.filter((job) => !there.has(keyOfJob(job, machine.name)))
    const before = jobs.length - missing.length
    progress.start(jobs.length)
    const settings: RunSettings = {
      data: resolve(options.data),
      machine,
      versions: describeVersions(),
      testRuns: options.testRuns,
    }
    const take = (trial: Trial): void => {
      requireSameRows(trial, dataOf.get(dataKey(trial)), options.trials)
      file.append(trial)
      made++
      progress.update(before + made, `${trial.dataset} ${trial.detector} ${trial.tuning}`)
    }
    await runInWorkers<Job, WorkerAnswer>(missing, {
      script: new URL('./worker.js', import.meta.url),
      workers,
      data: settings,
      onSaid(answer, { manifest, detector, tuning, repeat }) {
        if ('line' in answer) return take(decodeTrial(answer.line))
        failures++
        // an unusable file fails every trial in the same way
        const once = `${manifest.name}: ${answer.failure}`
        if (said.has(once)) return
        said.add(once)
        complain(`${manifest.name}, ${detector}, tuning ${tuning}, repeat ${repeat}: ${answer.failure}`)
      },
    })
    progress.stop()
    const failed = failures === 0 ? '' : `, ${failures} failed`
    note(`${options.trials}: ${jobs.length} trials requested, ${before} already there, ${made} new${failed}`)
  } finally {
    progress.stop()
    file.close()
  }
  return failures === 0 ? 0 : 1
}

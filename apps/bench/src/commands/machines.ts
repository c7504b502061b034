/**
 * `oddflow-bench machines`: the models of trials, tested on every target. Exit code 1 when a target could not do it,
 * or did not get the same bytes and scores.
 */

import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { FormatError, OddFlowError } from '@oddflow/core'
import { openScratchFolder } from '@oddflow/program'
import { inFile, UsageError } from '../errors.js'
import type { Bundle } from '../machines/make-bundle.js'
import { isComplete, type ProgramOptions, runEmulated, runLocal, type TargetRun } from '../machines/reach.js'
import {
  describeReadings,
  describeRecorded,
  type Reading,
  readReadings,
  recordReadings,
} from '../machines/reading.js'
import { decodeRunnerLine, type RunnerLine } from '../machines/runner-line.js'
import { runSsh } from '../machines/ssh.js'
import { readTargets, type Target } from '../machines/target.js'
import { workItemKey } from '../machines/work.js'
import { complain, createProgress, note, print } from '../output.js'
import { bundleOfTrials, type WorkOptions } from './bundle.js'

/** What the program of a bundle printed on a machine where somebody ran it by hand: a file of its lines. */

const MAXIMUM_BYTES = 100_000_000

/** Throws an error that begins with the path and names the line; a file without its end is not whole. */
export function readCarried(path: string): Reading[] {
  return inFile(path, () => {
    const { size } = statSync(path)
    if (size > MAXIMUM_BYTES) throw new FormatError('result', `${size} bytes; at most ${MAXIMUM_BYTES}`)
    const texts = readFileSync(path, 'utf8').split('\n')
    if (texts[texts.length - 1] === '') texts.pop()
    const lines = texts.map((text, i) => {
      try {
        return decodeRunnerLine(text.replace(/\r$/, ''))
      } catch (error) {
        if (error instanceof FormatError) throw new FormatError('result', `line ${i + 1}: ${error.message}`)
        throw error
      }
    })
    return carriedReadings(lines)
  })
}

function carriedReadings(lines: readonly RunnerLine[]): Reading[] {
  const [first, ...rest] = lines
  const last = rest.pop()
  if (first?.kind !== 'machine') throw new FormatError('result', 'expected a machine in the first line')
  if (last?.kind !== 'end' || last.items !== rest.length) {
    throw new FormatError('result', 'the run did not come to its end: run it again')
  }
  const seen = new Set<string>()
  return rest.map((line): Reading => {
    if (line.kind !== 'item') throw new FormatError('result', `expected an item, found ${line.kind}`)
    const key = workItemKey(line.work)
    if (seen.has(key)) throw new FormatError('result', `item ${line.index}: ${key} stands there twice`)
    seen.add(key)
    if (!isComplete(line)) throw new FormatError('result', `item ${line.index}: is not what such work gives`)
    return {
      format: 1,
      target: first.name,
      reach: 'carried',
      memoryCeilingBytes: null,
      bundleSha256: first.bundleSha256,
      machine: first.machine,
      loadAverage: first.loadAverage,
      peakMemoryBytes: last.peakMemoryBytes,
      work: line.work,
      expected: line.expected,
      outcome: line.outcome,
    }
  })
}

/** `oddflow-bench merge FILE…`: what was measured by hand elsewhere, into readings and trials. */

export interface MergeOptions {
  readonly trials: string
  readonly readings: string
}

/** Resolves to the exit code: 1 when bytes, scores or results were not the same. */
export function merge(files: readonly string[], options: MergeOptions): number {
  const carried = files.map(readCarried)
  let allEqual = true
  for (const [i, readings] of carried.entries()) {
    const recorded = recordReadings(readings, options)
    const { text, equal } = describeReadings(readings)
    print(`${files[i]}: ${readings[0]?.target ?? 'nothing'}: ${text}; ${describeRecorded(recorded)}`)
    allEqual &&= equal && recorded.unlike === 0
  }
  return allEqual ? 0 : 1
}

export interface MachinesOptions extends WorkOptions {
  readonly targets: string
  readonly only?: readonly string[]
  readonly readings: string
}

export async function machines(options: MachinesOptions): Promise<number> {
  const targets = chooseTargets(readTargets(options.targets), options.only, options.targets)
  const temporary = openScratchFolder('oddflow-bench')
  try {
    note('making the bundle')
    const bundle = bundleOfTrials(join(temporary.path, 'bundle'), options)
    const equal: boolean[] = []
    for (const target of targets) equal.push(await tryTarget(target, bundle, options))
    return equal.every(Boolean) ? 0 : 1
  } finally {
    temporary.remove()
  }
}

/** Whether it did all, and got what was expected. */
async function tryTarget(target: Target, bundle: Bundle, options: MachinesOptions): Promise<boolean> {
  const { name } = target
  const known = readReadings(options.readings).filter((reading) => isOf(reading, target, bundle))
  const done = new Set(known.map(({ work }) => workItemKey(work)))
  if (bundle.work.items.every(({ work }) => done.has(workItemKey(work)))) {
    const { text, equal } = describeReadings(known)
    print(`${name}: was there: ${text}`)
    return equal
  }
  const progress = createProgress()
  try {
    progress.start(bundle.work.items.length)
    let items = 0
    const run = await runTarget(target, {
      bundle,
      timeoutMillis: target.timeoutSeconds * 1000,
      onItem: (item) => progress.update(++items, `${name}: ${item}`),
    })
    progress.stop()
    const readings = readingsOf(target, bundle, run)
    const recorded = recordReadings(readings, { readings: options.readings, trials: options.trials })
    const { text, equal } = describeReadings(readings)
    print(`${name}: ${text}; ${describeRecorded(recorded)}`)
    return equal && recorded.unlike === 0
  } catch (error) {
    progress.stop()
    if (!(error instanceof OddFlowError)) throw error
    complain(error.message)
    return false
  }
}

function runTarget(target: Target, options: ProgramOptions): Promise<TargetRun> {
  switch (target.kind) {
    case 'local':
      return runLocal(target, options)
    case 'ssh':
      return runSsh(target, options)
    case 'emulated':
      return runEmulated(target, options)
  }
}

const ceilingOf = (target: Target): number | null =>
  target.kind === 'local' && target.memoryCeilingMegabytes !== undefined
    ? target.memoryCeilingMegabytes * 2 ** 20
    : null

function isOf(reading: Reading, target: Target, bundle: Bundle): boolean {
  return (
    reading.target === target.name &&
    reading.reach === target.kind &&
    reading.bundleSha256 === bundle.sha256 &&
    reading.memoryCeilingBytes === ceilingOf(target)
  )
}

function readingsOf(target: Target, bundle: Bundle, { machine, items }: TargetRun): Reading[] {
  return items.map(({ work, expected, outcome, peakMemoryBytes }) => ({
    format: 1,
    target: target.name,
    reach: target.kind,
    memoryCeilingBytes: ceilingOf(target),
    bundleSha256: bundle.sha256,
    machine: machine.machine,
    loadAverage: machine.loadAverage,
    peakMemoryBytes,
    work,
    expected,
    outcome,
  }))
}

function chooseTargets(all: readonly Target[], names: readonly string[] | undefined, path: string): Target[] {
  if (names === undefined) return [...all]
  return names.map((name) => {
    const found = all.find((target) => target.name === name)
    if (found === undefined) {
      throw new UsageError(
        `${name}: no such target in ${path}; there are ${all.map((t) => t.name).join(', ')}`,
      )
    }
    return found
  })
}

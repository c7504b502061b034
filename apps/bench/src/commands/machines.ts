/**
 * `oddflow-bench machines`: the models of trials, tested on every target. Exit code 1 when a target could not do it,
 * or did not get the same bytes and scores.
 */
import { join } from 'node:path'
import { OddFlowError } from '@oddflow/core'
import { openScratchFolder } from '@oddflow/program'
import { UsageError } from '../errors.js'
import type { Bundle } from '../machines/make-bundle.js'
import { runEmulated } from '../machines/reach/emulated.js'
import { runLocal } from '../machines/reach/local.js'
import type { ProgramOptions } from '../machines/reach/run-program.js'
import { runSsh } from '../machines/reach/ssh.js'
import type { TargetRun } from '../machines/reach/target-run.js'
import { readTargets } from '../machines/read-targets.js'
import { type Reading, readReadings } from '../machines/reading.js'
import { describeReadings, describeRecorded, recordReadings } from '../machines/record-readings.js'
import type { Target } from '../machines/target.js'
import { workItemKey } from '../machines/work.js'
import { complain, note, print } from '../output/messages.js'
import { createProgress } from '../output/progress.js'
import { bundleOfTrials, type WorkOptions } from './bundle.js'

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

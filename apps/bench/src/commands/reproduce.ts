/** `oddflow-bench reproduce`: data sets × detectors × tuning, each a few repeats, into a file of trials. */
import { DataError, OddFlowError } from '@oddflow/core'
import { PAPER_PROTOCOL } from '@oddflow/evaluation'
import { UsageError } from '@oddflow/program'
import { Command, InvalidArgumentError } from 'commander'
import { availableManifests, featuresOf, repeatsOf, trainRowsThere } from '../datasets/load-repeat.js'
import { FEATURES, type Manifest } from '../datasets/manifest.js'
import { EXPECTED_NAME, SHORT_NAME } from '../machines/machine-description.js'
import { type Job, jobKey } from '../run/job.js'
import { type Trial, trialKey } from '../run/trial.js'
import { isMethodName, isTunable, METHOD_NAMES, type MethodName } from '../run/trial-model.js'
import { runIntoFile } from '../run/trials-file.js'
import { type CommandOptions, names, RESULTS, TRIALS, tuningsOf, whole, withOptions } from './options.js'

export function reproduceCommand(): Command {
  return withOptions(
    new Command('reproduce'),
    ...(['manifests', 'data', 'datasets', 'detectors', 'tuning', 'trainRows', 'testRuns'] as const),
  )
    .description('run trials; a stopped run continues where it stopped')
    .option('--features <names>', 'iat-size, stats-header, samp-size (default: all that are present)', names)
    .option(
      '--repeats <count>',
      'number of repeats, each on different training rows',
      whole(1, 1000),
      PAPER_PROTOCOL.repeats,
    )
    .option(
      '--workers <count>',
      'number of parallel trials (default: the number of CPUs minus one)',
      whole(1, 256),
    )
    .option(
      '--machine <name>',
      'name of this machine in the tables: server, rspi, nano, …',
      machineName,
      'server',
    )
    .option('--trials <file>', 'file for the trials', TRIALS)
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench reproduce --tuning none
  oddflow-bench reproduce --tuning minimal --datasets ctu-rows --detectors ocsvm,oc-kjl-qs --workers 1
  oddflow-bench reproduce --machine rspi --trials rspi.jsonl
  oddflow-bench reproduce --datasets ctu --train-rows 500 --trials ctu-500.jsonl

Times are wall-clock times: for a speed table, run with --workers 1 on an idle machine.`,
    )
    .action(async (options) => {
      process.exitCode = await reproduce(options)
    })
}

function machineName(value: string): string {
  if (!SHORT_NAME.test(value)) throw new InvalidArgumentError(EXPECTED_NAME)
  return value
}

/** Refuses a file whose trials have another n: a trial's key does not hold n, so both would stand in one table. */

/** Throws DataError that names the data set and both numbers. */
function checkTrainRows(
  trials: readonly Trial[],
  manifests: readonly Manifest[],
  { data, trainRows, trials: path }: Pick<ReproduceOptions, 'data' | 'trainRows' | 'trials'>,
): void {
  const asked = new Map<string, number | null>()
  for (const { dataset, repeat, trainRows: found } of trials) {
    const manifest = manifests.find(({ name }) => name === dataset)
    if (manifest === undefined) continue
    const key = `${dataset} ${repeat}`
    if (!asked.has(key)) asked.set(key, trainRows ?? rowsThere(manifest, data, repeat))
    const expected = asked.get(key) ?? null
    if (expected !== null && expected !== found) {
      throw new DataError(
        `${path}: has trials of ${dataset} with ${found} training rows, and ${expected} are requested; give another --trials`,
      )
    }
  }
}

/** null where they cannot be read, which each trial says for itself. */
function rowsThere(manifest: Manifest, data: string, repeat: number): number | null {
  try {
    return trainRowsThere(manifest, data, repeat)
  } catch (error) {
    if (error instanceof OddFlowError) return null
    throw error
  }
}

interface ReproduceOptions extends CommandOptions {
  readonly features?: readonly string[]
  readonly trainRows?: number
  readonly workers?: number
  readonly machine: string
}

/** Resolves to the exit code: 1 when a trial could not be made. */
export async function reproduce(options: ReproduceOptions): Promise<number> {
  const detectors = (options.detectors ?? METHOD_NAMES).map(checkMethod)
  for (const name of options.features ?? []) {
    if ((FEATURES as readonly string[]).includes(name)) continue
    throw new UsageError(`${name}: no such features; there are ${FEATURES.join(', ')}`)
  }
  if (options.tuning === 'minimal') {
    const fixed = options.detectors === undefined ? [] : detectors.filter((detector) => !isTunable(detector))
    if (fixed.length > 0) {
      throw new UsageError(
        `${fixed.join(', ')}: nothing to tune; leave it out, or take --tuning none or both`,
      )
    }
  }
  const manifests = availableManifests(options)
  const isAsked = (features: string): boolean => options.features?.includes(features) ?? true
  const featuresFor = (manifest: Manifest): string[] => featuresOf(manifest, options.data).filter(isAsked)
  const there = new Set(manifests.flatMap(featuresFor))
  const absent = options.features?.filter((features) => !there.has(features)) ?? []
  if (absent.length > 0) {
    const of = manifests.map(({ name }) => name).join(', ')
    throw new DataError(`${options.data}: holds no rows of ${absent.join(', ')} for ${of}`)
  }
  const stated = options.trainRows === undefined ? {} : { trainRows: options.trainRows }
  // repeats outermost: a run cut short has all methods side by side
  const jobs = tuningsOf(options).flatMap((tuning) =>
    Array.from({ length: options.repeats }, (_, repeat) =>
      manifests
        .filter((manifest) => repeat < repeatsOf(manifest))
        .flatMap((manifest) => featuresFor(manifest).map((features) => ({ manifest, features })))
        .flatMap((rows) =>
          detectors
            .filter((detector) => tuning === 'none' || isTunable(detector))
            .map((detector): Job => ({ ...rows, detector, tuning, repeat, ...stated })),
        ),
    ).flat(),
  )
  const checkThere = (trials: readonly Trial[]): void => checkTrainRows(trials, manifests, options)
  return runIntoFile({ ...options, jobs, keyOf: trialKey, keyOfJob: jobKey, checkThere })
}

function checkMethod(name: string): MethodName {
  if (isMethodName(name)) return name
  throw new UsageError(`${name}: no such detector; there are ${METHOD_NAMES.join(', ')}`)
}

export function tablesCommand(): Command {
  return withOptions(new Command('tables'), 'manifests')
    .description("write the paper's tables with the figures of existing trials")
    .option('--trials <files>', 'files of trials, separated by commas; several machines are merged', names, [
      TRIALS,
    ])
    .option(
      '--results <dir>',
      'folder from which machines.jsonl and sweep-*.jsonl are read; each becomes a page in --out',
      RESULTS,
    )
    .option('--out <dir>', 'folder for paper-tables.md, .tex, .csv and the other pages', RESULTS)
    .addHelpText(
      'after',
      '\nExamples:\n  oddflow-bench tables\n  oddflow-bench tables --trials server.jsonl,rspi.jsonl --out results',
    )
    .action(async (options) => {
      // the library of its pictures takes long to load
      const { tables } = await import('../tables/report.js')
      await tables(options)
    })
}

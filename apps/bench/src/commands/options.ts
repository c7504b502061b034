/** Values of options as the command line gives them: each parser takes one or says what was expected. */

import { join } from 'node:path'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Tuning } from '../run/trial.js'

/** Each once, in the order in which they first came: what is asked for twice is not done twice. */
export function names(value: string): string[] {
  const found = [...new Set(value.split(',').map((name) => name.trim()))]
  if (found.includes('')) throw new InvalidArgumentError('expected names separated by commas')
  return found
}

export function whole(least: number, most: number): (value: string) => number {
  return (value) => {
    const found = Number(value)
    if (!/^\d+$/.test(value) || found < least || found > most) {
      throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`)
    }
    return found
  }
}

export const RESULTS = 'docs/results'
export const TRIALS = `${RESULTS}/trials.jsonl`

export function defaultData(): string {
  return join(process.env.ODDFLOW_SHARED ?? join('..', 'shared'), 'data', 'paper')
}

/** What the commands' options hold, each under the name of the function that adds it. */
export interface CommandOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets?: readonly string[]
  readonly detectors?: readonly string[]
  readonly tuning: 'none' | 'minimal' | 'both'
  readonly repeats: number
  readonly testRuns: number
  /** A file. */
  readonly trials: string
}

export const tuningsOf = ({ tuning }: Pick<CommandOptions, 'tuning'>): Tuning[] =>
  tuning === 'both' ? ['none', 'minimal'] : [tuning]

/** Options that several commands take, by their names in code. */
const SHARED = {
  manifests: () =>
    new Option('--manifests <dir>', "folder of manifests (default: those of the paper's data sets)"),
  data: () => new Option('--data <dir>', 'folder of the data sets').default(defaultData()),
  datasets: () =>
    new Option(
      '--datasets <names>',
      'only these data sets, separated by commas (default: all that are present)',
    ).argParser(names),
  detectors: () =>
    new Option('--detectors <names>', 'only these detectors, separated by commas (default: all)').argParser(
      names,
    ),
  tuning: () =>
    new Option('--tuning <which>', 'none, minimal, or both')
      .choices(['none', 'minimal', 'both'])
      .default('both'),
  repeats: () =>
    new Option('--repeats <count>', 'number of repeats, each on different training rows')
      .argParser(whole(1, 1000))
      .default(3),
  /** For manifests of rows: from the first row of each repeat on. */
  trainRows: () =>
    new Option(
      '--train-rows <count>',
      "training rows in each repeat, instead of the paper's 5000 (a pool needs 375 more normal rows to validate and test, and over 300 novel rows)",
    ).argParser(whole(1, 1_000_000)),
  testRuns: () =>
    new Option('--test-runs <count>', 'timed passes over the test rows')
      .argParser(whole(1, 1000))
      .default(20),
}

export function withOptions(command: Command, ...options: readonly (keyof typeof SHARED)[]): Command {
  for (const option of options) command.addOption(SHARED[option]())
  return command
}

/** The inputs of a command, messages about them, and the version of this package. */

import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { DataError } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { createMessages, UsageError } from '@oddflow/program'
import { createProgress, type Progress } from '@oddflow/program/progress'
import { givenFlag } from './flags.js'

/** The key of the flow tables' hash: random, so that a sender cannot choose flows that share one slot. No result depends on it. */
export function hashSeed(): number {
  return randomInt(2 ** 48 - 1)
}

/** Feature rows by their file name (.npy, .csv), otherwise a capture; standard input is a capture. */
export type InputKind = 'capture' | 'rows'

export function inputKind(path: string): InputKind {
  return /\.(npy|csv)$/i.test(path) ? 'rows' : 'capture'
}

/** The kind of all inputs. Throws UsageError when they are mixed, or name standard input twice. */
export function inputKindOfAll(paths: readonly string[]): InputKind {
  const kind = inputKind(paths[0])
  const other = paths.find((path) => inputKind(path) !== kind)
  if (other !== undefined) {
    throw new UsageError(`${paths[0]} and ${other}: captures and feature rows cannot be mixed; give one kind`)
  }
  if (paths.filter((path) => path === '-').length > 1)
    throw new UsageError('-: standard input can be read once')
  return kind
}

/** Throws UsageError naming the first capture option that was given though the inputs are feature rows. */
export function refuseCaptureOptions(options: object, names: readonly string[]): void {
  const flag = givenFlag(options, names)
  if (flag !== undefined) throw new UsageError(`${flag}: does not apply to feature rows, only to captures`)
}

/** "a.pcap", "a.pcap and 2 more inputs", "standard input". */
export function nameInputs(paths: readonly string[]): string {
  const first = paths[0] === '-' ? 'standard input' : paths[0]
  const more = paths.length - 1
  return more === 0 ? first : `${first} and ${more} more input${more === 1 ? '' : 's'}`
}

/** Captures without a single flow of the transports asked for: the wrong interface, or a filter that fits nothing. */
export function noFlowIn(paths: readonly string[], packets: string): DataError {
  return new DataError(`${nameInputs(paths)}: no flows (${packets}); check the capture and the filter`)
}

/** Runs `work`; a DataError from it is thrown with the inputs' names before its message. */
export function namingInputs<T>(paths: readonly string[], work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw namedError(paths, error)
  }
}

/** A DataError with the inputs' names before its message; any other error as it is. */
export function namedError(paths: readonly string[], error: unknown): unknown {
  if (!(error instanceof DataError)) return error
  // in the command line's words
  const message = error.message
    .replace(/\bbandwidthQuantile\b/g, '--bandwidth-quantile')
    .replace(/\bquantileCompat\b/g, '--quantile-compat')
  return new DataError(`${nameInputs(paths)}: ${message}`, error.field)
}

export const { warn, complain, note } = createMessages('oddflow')

/** Runs `work` with a progress bar, which is gone afterwards. */
export async function withProgress<T>(work: (progress: Progress) => Promise<T>): Promise<T> {
  const progress = createProgress()
  try {
    return await work(progress)
  } finally {
    progress.stop()
  }
}

/** Says what cannot be checked when a model that knows how rows are made is given rows. */
export function warnOfBareRows(saved: SavedModel, kind: InputKind): void {
  if (kind === 'rows' && saved.contract.featureSet !== 'rows') {
    warn(
      'rows carry no feature contract: only their number of columns and the column names of a .csv are checked; use rows that oddflow extract --model writes',
    )
  }
}

/**
 * The folder of this package: one above the compiled modules, and above the bundle's files, so this file must stay at the
 * top of src/.
 */
export const PACKAGE_FOLDER = new URL('../', import.meta.url)

/** Of this package, from its package.json. */
export const VERSION: string = (
  JSON.parse(readFileSync(new URL('package.json', PACKAGE_FOLDER), 'utf8')) as { version: string }
).version

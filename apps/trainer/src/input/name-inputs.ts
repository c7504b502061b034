/** Puts the inputs' names before what a method says of their data, which it knows as numbers alone. */
import { DataError } from '@oddflow/core'

/** "a.pcap", "a.pcap and 2 more inputs", "standard input". */
export function nameInputs(paths: readonly string[]): string {
  const first = paths[0] === '-' ? 'standard input' : paths[0]
  const more = paths.length - 1
  return more === 0 ? first : `${first} and ${more} more input${more === 1 ? '' : 's'}`
}

/** Captures without a single flow of the transports asked for: the wrong interface, or a filter that fits nothing. */
export function noFlowIn(paths: readonly string[], packets: string): DataError {
  return new DataError(
    `${nameInputs(paths)}: no flow in it (${packets}); check what was captured, and the filter`,
  )
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

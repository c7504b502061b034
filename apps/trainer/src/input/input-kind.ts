/**
 * What an INPUT is: feature rows by their file name (.npy, .csv), a capture otherwise. Standard input is a
 * capture.
 */
import { UsageError } from '@oddflow/program'

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
export function refuseCaptureOptions(
  options: Readonly<Record<string, unknown>>,
  flags: Readonly<Record<string, string>>,
): void {
  for (const [key, flag] of Object.entries(flags)) {
    if (options[key] !== undefined)
      throw new UsageError(`${flag}: does not apply to feature rows, only to captures`)
  }
}

/**
 * Where a model file goes when it is to go to standard output (`-o -`): its bytes alone, for a pipe or a file. What
 * the command has to tell then stands on standard error, and a terminal gets no bytes.
 */
import { checkWritable, createLineWriter, type LineWriter, UsageError } from '@oddflow/program'

/** As checkWritable; throws UsageError where "-" is a terminal. */
export function checkModelOutput(path: string, taken: readonly string[]): void {
  if (path !== '-') checkWritable(path, taken)
  else if (process.stdout.isTTY) {
    throw new UsageError(
      '--output -: a model file is bytes, and standard output is a terminal; name a file, or redirect it',
    )
  }
}

/** For what is told beside a model that goes to `path`. */
export function tellingWriter(path: string): LineWriter {
  return createLineWriter(path === '-' ? 2 : 1)
}

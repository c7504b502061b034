/** A secret of one line in a file: a regular file of at most 64 KiB, so that no wrong name costs memory or waits for ever. */
import { readFileBounded } from '@oddflow/program'

const MAXIMUM_BYTES = 65_536

/** The file's first line, without its end. Throws FileError; what the file holds is not told. */
export function readFirstLine(path: string): string {
  const bytes = readFileBounded(path, { maximumBytes: MAXIMUM_BYTES, onlyRegular: true })
  return new TextDecoder().decode(bytes).split('\n', 1)[0].replace(/\r$/, '')
}

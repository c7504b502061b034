/**
 * What may go wrong outside this program, said in one line: the command line (exit code 2), or a file (1).
 */
import { OddFlowError } from '@oddflow/core'

/** The command line itself is wrong. The message says what to write instead. */
export class UsageError extends Error {}

export class FileError extends OddFlowError {
  override readonly name = 'FileError'
}

const ADVICE: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of the path is not a folder',
  EACCES: 'permission denied',
  ENOSPC: 'no space left',
  EROFS: 'the file system is read-only',
}

/** An error of node:fs as a FileError that begins with the path; an error of ours as it is. */
export function fileError(path: string, error: unknown): OddFlowError {
  if (error instanceof OddFlowError) return error
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? 'unknown'
  const reason = ADVICE[code] ?? (error instanceof Error ? error.message : String(error))
  return new FileError(`file.${code}`, `${path}: ${reason}`, { field: path })
}

/** Runs `work`; what it throws begins with the path. */
export function inFile<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof OddFlowError && !error.message.startsWith(path)) {
      throw new FileError(error.code, `${path}: ${error.message}`, { field: path })
    }
    throw fileError(path, error)
  }
}

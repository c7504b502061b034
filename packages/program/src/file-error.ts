/**
 * FileError: what the operating system said of a file, in a line that says what to do.
 */
import { OddFlowError } from '@oddflow/core'

export class FileError extends OddFlowError {
  override readonly name = 'FileError'
}

const ADVICE: Record<string, string> = {
  ENOENT: 'no such file or folder; check the path',
  EISDIR: 'is a directory; name a file',
  ENOTDIR: 'a part of the path is not a folder; check the path',
  EACCES: 'permission denied; check who may use it',
  EPERM: 'not permitted; check who may use it',
  ENOSPC: 'no space left; free some or choose another place',
  EROFS: 'the file system is read-only; choose another place',
  EMFILE: 'too many open files; close some or raise the limit (ulimit -n)',
  ELOOP: 'symbolic links go round in a circle; check the path',
  ENAMETOOLONG: 'the name is too long; choose a shorter one',
}

/** Turns an error of node:fs into a FileError; returns errors that are ours already as they are. */
export function fileError(action: 'read' | 'write', path: string, error: unknown): OddFlowError {
  if (error instanceof OddFlowError) return error
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? 'unknown'
  const advice = ADVICE[code] ?? (error instanceof Error ? error.message : String(error))
  return new FileError(`file.${code}`, `${path}: cannot ${action} it: ${advice}`, { field: path })
}

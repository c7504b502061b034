/**
 * CaptureFileError: why a named input could not be read, in one line that begins with its name and ends
 * with what to do.
 *
 * Damage within a capture is no such error (see CaptureEnd): this is for inputs that give nothing at all.
 */
import { OddFlowError } from '@oddflow/core'

export type CaptureFileProblem = 'missing' | 'directory' | 'permission' | 'not-a-capture' | 'unreadable'

export class CaptureFileError extends OddFlowError {
  override readonly name = 'CaptureFileError'
  /** As the caller named it; `-` for standard input. */
  readonly file: string
  readonly problem: CaptureFileProblem
  /** With `not-a-capture`: the file stops within its file header. */
  readonly truncated: boolean

  constructor(
    file: string,
    problem: CaptureFileProblem,
    message: string,
    place: { readonly offsetBytes?: number | undefined; readonly truncated?: boolean } = {},
  ) {
    super(
      `capture-file.${problem}`,
      `${file === '-' ? 'standard input' : file}: ${message}`,
      place.offsetBytes === undefined ? {} : { offsetBytes: place.offsetBytes },
    )
    this.file = file
    this.problem = problem
    this.truncated = place.truncated ?? false
  }
}

/** Turns an error of node:fs into one line. */
export function describeSystemError(file: string, cause: unknown): CaptureFileError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new CaptureFileError(file, 'missing', 'no such file; check the path')
    case 'EISDIR':
      return new CaptureFileError(file, 'directory', 'is a directory; give the capture files within it')
    case 'EACCES':
    case 'EPERM':
      return new CaptureFileError(
        file,
        'permission',
        'permission denied; make it readable for this user, or run as one who may read it',
      )
    default:
      return new CaptureFileError(
        file,
        'unreadable',
        `cannot be read: ${cause instanceof Error ? cause.message.split('\n')[0] : String(cause)}`,
      )
  }
}

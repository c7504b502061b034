/** Errors about the content of a file: the file's name goes before what its decoder says. */
import { FormatError, OddFlowError } from '@oddflow/core'

/** Puts the file's name before the message of an error of ours, and what to do after it. */
export function inFile(path: string, error: unknown, advice = ''): unknown {
  if (!(error instanceof OddFlowError)) return error
  const message = `${path}: ${error.message}${advice}`
  const place = {
    ...(error.offsetBytes === undefined ? {} : { offsetBytes: error.offsetBytes }),
    ...(error.field === undefined ? {} : { field: error.field }),
  }
  return error instanceof FormatError
    ? new FileFormatError(error.code, message, place)
    : new OddFlowError(error.code, message, place)
}

class FileFormatError extends OddFlowError {
  override readonly name = 'FormatError'
}

/**
 * What may go wrong outside this program, said in one line: the command line (exit code 2), or a file (1).
 */
import { OddFlowError } from '@oddflow/core'
import { FileError, fileError } from '@oddflow/program'

export { FileError, UsageError } from '@oddflow/program'

/** Runs `work`; what it throws begins with the path. */
export function inFile<T>(path: string, work: () => T, action: 'read' | 'write' = 'read'): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof OddFlowError && !error.message.startsWith(path)) {
      throw new FileError(error.code, `${path}: ${error.message}`, { field: path })
    }
    throw fileError(action, path, error)
  }
}

/**
 * One command line, from arguments to exit code: 0 done, 1 an input, a model or an output is unusable, 2 the
 * command line or the configuration was wrong. An error is one line on standard error; a stack trace means a
 * fault of OddFlow's own, and says so.
 */
import { OddFlowError } from '@oddflow/core'
import { UsageError } from '@oddflow/program'
import { CommanderError } from 'commander'
import { standardErrorLog } from './log.js'
import { createProgram } from './program.js'

/** Runs `argv` (as process.argv has it) and leaves the exit code in process.exitCode. */
export async function run(argv: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(argv)
  } catch (error) {
    process.exitCode = report(error)
  }
}

function report(error: unknown): number {
  // commander has printed its own message by now; its code 0 is --help and --version
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  if (error instanceof UsageError) {
    standardErrorLog.error(error.message)
    return 2
  }
  if (error instanceof OddFlowError) {
    standardErrorLog.error(error.message)
    return 1
  }
  const { code = '' } = (error ?? {}) as { code?: unknown }
  if (code === 'EMFILE' || code === 'ENFILE') {
    standardErrorLog.error('too many open files; raise the limit (ulimit -n, or LimitNOFILE= of a unit)')
    return 1
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(
    `oddflow-agent: a fault in OddFlow itself; please report it with the command and this text:\n${text}\n`,
  )
  return 1
}

/**
 * One command line, from arguments to exit code: 0 done, 1 the input or the data is unusable, 2 the command
 * line is wrong, 128 + its number where a signal ended the reading. An error is one line on standard error; a stack trace means a fault of OddFlow's own, and
 * says so.
 */
import { OddFlowError } from '@oddflow/core'
import { OutputClosed, stoppedExitCode, UsageError } from '@oddflow/program'
import { CommanderError } from 'commander'
import { complain } from './output/messages.js'
import { createProgram } from './program.js'

/** Runs `argv` (as process.argv has it) and leaves the exit code in process.exitCode. */
export async function run(argv: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(argv)
  } catch (error) {
    process.exitCode = report(error)
  }
  // what was stopped is done, and a pipe that is still open must not keep the process
  const stopped = stoppedExitCode()
  if (stopped !== null) process.exit(stopped)
}

function report(error: unknown): number {
  if (error instanceof OutputClosed) return 0
  // commander has printed its own message by now; its code 0 is --help and --version
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  if (error instanceof UsageError) {
    complain(error.message)
    return 2
  }
  if (error instanceof OddFlowError) {
    complain(error.message)
    return 1
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(
    `oddflow: a fault in OddFlow itself; please report it with the command and this text:\n${text}\n`,
  )
  return 1
}

#!/usr/bin/env node
/**
 * The `oddflow-bench` program: parses the command line, runs one command, and turns every outcome into an exit
 * code: 0 done, 1 the data is unusable or a trial failed, 2 the command line was wrong. An error is one line on
 * standard error; a stack trace means a fault of OddFlow's own, and says so.
 */
import { OddFlowError } from '@oddflow/core'
import { CommanderError } from 'commander'
import { UsageError } from './errors.js'
import { complain } from './output.js'
import { createProgram } from './program.js'

// a reader that goes away early (… | head) is no fault
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

try {
  await createProgram().parseAsync(process.argv)
} catch (error) {
  process.exitCode = report(error)
}

function report(error: unknown): number {
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
    `oddflow-bench: a bug in OddFlow; please report it with the command and this text:\n${text}\n`,
  )
  return 1
}

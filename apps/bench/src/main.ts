#!/usr/bin/env node
/**
 * The `oddflow-bench` program: parses the command line, runs one command, and turns every outcome into an exit
 * code: 0 done, 1 the data is unusable or a trial failed, 2 the command line was wrong. An error is one line on
 * standard error; a stack trace means a bug.
 */
import { reportFailure } from '@oddflow/program'
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
  process.exitCode = reportFailure('oddflow-bench', error)
}

#!/usr/bin/env node
/** The `oddflow-bench` program. Exit code 0: done; 1: unusable data or a failed trial; 2: wrong command line. */
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

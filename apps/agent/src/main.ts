#!/usr/bin/env node
/** The `oddflow-agent` program: runs the command line that it was started with. */
import { run } from './run.js'

// a reader of help or messages that goes away early is no fault
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') process.exitCode = 1
  })
}

await run(process.argv)

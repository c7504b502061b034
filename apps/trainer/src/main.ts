#!/usr/bin/env node
/** The `oddflow` program: runs the command line that it was started with. */
import { complain } from './inputs.js'
import { run } from './run.js'

// help and messages go through Node's own streams; a reader that closes them early is no fault
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    if (stream === process.stdout)
      complain(`standard output: cannot write it: ${error.message.split(',')[0]}`)
    process.exitCode = 1
  })
}

await run(process.argv)

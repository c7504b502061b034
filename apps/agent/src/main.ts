#!/usr/bin/env node
/** The `oddflow-agent` program: runs the command line that it was started with. */
// first: before it SIGHUP would end the program
import './service/service.js'
import { setFlagsFromString } from 'node:v8'
import { run } from './run.js'

// V8 lets its nursery grow to 48 MB where memory seems plenty; here a flood of alerts would fill it
setFlagsFromString('--max-semi-space-size=2')
setFlagsFromString('--semi-space-growth-factor=1')
// collects when there is little more garbage than what lives: a flood of alerts else takes 30 MB more (decision 0009)
setFlagsFromString('--optimize-for-size')

// a reader of help or messages that goes away early is no fault
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') process.exitCode = 1
  })
}

await run(process.argv)

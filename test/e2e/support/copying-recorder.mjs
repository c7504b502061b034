#!/usr/bin/env node
/**
 * The recorder that RECORDER names, with a copy of what it writes in the file COPY: two recorders of one
 * interface stamp a packet a microsecond apart, and only the file that a child wrote has the child's times.
 */
import { spawn } from 'node:child_process'
import { openSync, writeSync } from 'node:fs'
import process from 'node:process'

const copy = openSync(process.env.COPY, 'w')
const child = spawn(process.env.RECORDER, process.argv.slice(2), { stdio: ['ignore', 'pipe', 'inherit'] })
for (const signal of ['SIGTERM', 'SIGUSR1']) process.on(signal, () => child.kill(signal))
child.stdout.on('data', (chunk) => {
  writeSync(copy, chunk)
  process.stdout.write(chunk)
})
child.on('close', (code) => {
  process.exitCode = code
})

/**
 * The compiled program, kept: runs one command line after another as its parent asks, since starting Node is
 * most of the time of a refusal. Standard output and error are the process's own; a mark on both ends a run.
 */
import { writeSync } from 'node:fs'
import { run } from '../../../apps/trainer/build/run.js'

process.on('message', async ({ args, cwd, mark }) => {
  process.chdir(cwd)
  process.exitCode = undefined
  await run([process.execPath, 'oddflow', ...args])
  const code = process.exitCode ?? 0
  process.exitCode = undefined
  writeWhole(1, mark)
  writeWhole(2, mark)
  process.send(code)
})

/** A pipe that its reader has not emptied yet takes nothing for a moment. */
function writeWhole(file, text) {
  let rest = Buffer.from(text)
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(file, rest))
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}

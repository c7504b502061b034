/**
 * A job of tools/slow, on what is built of the packages as they are now.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ensureBuilt } from './build.mjs'
import { root } from './layout.mjs'

/** Jobs that run the programs too. */
const OF_PROGRAMS = ['agent-load']

export async function runSlowJob(name, args) {
  if (!/^[a-z][a-z-]*$/.test(name ?? '')) throw new Error('usage: run.mjs slow JOB [ARGUMENT…]')
  await ensureBuilt(OF_PROGRAMS.includes(name) ? undefined : 'packages/flows')
  const job = join(root, 'tools/slow', `${name}.mjs`)
  process.argv = [process.argv[0], job, ...args]
  await import(pathToFileURL(job).href)
}

/**
 * Running one of the apps from the checkout as if it were installed.
 *
 * What is stale is built first, without a word. The app then runs in this very process: a second Node
 * would cost 40 ms, and exit code, signals and standard input need no passing on. npm runs scripts in
 * the checkout's root, but the paths that a user types are relative to where the user stands: npm keeps
 * that in INIT_CWD. It is believed only when npm started this very script, since it is inherited by
 * everything below an `npm test`, where it says nothing.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ensureBuilt } from './build.mjs'
import { tell } from './command.mjs'
import { readJson, root } from './layout.mjs'

function callerDirectory() {
  const { npm_lifecycle_script: script = '', INIT_CWD: caller } = process.env
  const isOurs = /tools\/workspace\/run\.mjs (?:app|demo)\b/.test(script) && process.cwd() === root
  return isOurs && caller !== undefined && existsSync(caller) ? caller : process.cwd()
}

export async function runApp(name, args) {
  if (!/^[a-z][a-z0-9-]*$/.test(name ?? '')) throw new Error('usage: run.mjs app NAME [ARGUMENT…]')
  const directory = `apps/${name}`
  await ensureBuilt(directory)
  const [bin] = Object.values(readJson(join(root, directory, 'package.json')).bin)
  const main = join(root, directory, bin)
  process.chdir(callerDirectory())
  process.argv = [process.argv[0], main, ...args]
  await import(pathToFileURL(main).href)
}

/** The demonstration, with the time that each stage before it took and its own. */
export async function runDemo(args) {
  const { runStages } = await import('./stages.mjs')
  await runStages(['install', 'build'], 'apps/trainer')
  const start = performance.now()
  process.once('exit', (code) => {
    if (code === 0) tell(`${'demo'.padEnd(10)} ok  ${((performance.now() - start) / 1000).toFixed(1)} s`)
  })
  await runApp('trainer', ['demo', ...args])
}

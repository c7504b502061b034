/**
 * The stages before the tests: each a tool that says yes or no to the repository as a whole.
 *
 * build       compiles every workspace (turbo, tsc)
 * boundaries  the direction in which packages may depend on each other (turbo boundaries, turbo.json)
 * lint        formatting and common mistakes (biome)
 * checks      the rules of this repository that no tool knows (tools/checks)
 * unused      dependencies and files that nothing uses (knip)
 * types       the type check of sources and tests (turbo, tsc; then test/ and its helpers)
 */
import { join } from 'node:path'
import { ensureBuilt, turbo } from './build.mjs'
import { runQuietly, ToolFailure } from './command.mjs'
import { ensureInstalled, pnpmEnvironment } from './install.mjs'
import { root } from './layout.mjs'

const bin = (name) => join(root, 'node_modules', '.bin', name)

async function quietly(what, command, args) {
  await runQuietly(what, command, args, { env: await pnpmEnvironment() })
}

const stages = {
  install: () => ensureInstalled(),
  build: () => ensureBuilt(),
  boundaries: () => quietly('the direction rule', turbo, ['boundaries']),
  lint: () => quietly('biome', bin('biome'), ['check', '--error-on-warnings', '.']),
  checks: () => quietly('the repository checks', process.execPath, [join(root, 'tools/checks/run.mjs')]),
  unused: () => quietly('knip', bin('knip'), ['--no-progress']),
  types: async () => {
    const args = ['run', 'typecheck', '--cache=local:rw', '--output-logs=errors-only']
    await quietly('the type check', turbo, args)
    await quietly('the type check of test/', bin('tsc'), ['-p', join(root, 'test'), '--noEmit'])
  },
}

/** Runs one stage; resolves to `{ name, error, seconds }`, where `error` is undefined if it passed. */
export async function runStage(name) {
  const start = performance.now()
  let error
  try {
    if (name !== 'install') await ensureInstalled()
    await stages[name]()
  } catch (failure) {
    if (!(failure instanceof ToolFailure)) throw failure
    error = failure
  }
  return { name, error, seconds: (performance.now() - start) / 1000 }
}

/** Runs stages in turn and stops at the first that fails. */
export async function runStages(names) {
  for (const name of names) {
    const { error, seconds } = await runStage(name)
    if (error !== undefined) throw error
    process.stderr.write(`${name.padEnd(10)} ok  ${seconds.toFixed(1)} s\n`)
  }
}

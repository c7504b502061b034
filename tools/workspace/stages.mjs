/**
 * The stages beside the tests: each a tool that says yes or no to the repository as a whole.
 *
 * install     dependencies at the versions of the lock file (pnpm)
 * build       compiles every workspace (turbo, tsc)
 * boundaries  the direction in which packages may depend on each other (turbo boundaries, turbo.json)
 * lint        formatting and common mistakes (biome)
 * checks      the rules of this repository that no tool knows (tools/checks)
 * unused      dependencies and files that nothing uses (knip)
 * types       the type check of the tests against what the build made of the sources (tsc, by project references)
 */
import { join } from 'node:path'
import { ensureBuilt, turbo } from './build.mjs'
import { runQuietly, ToolFailure, tell } from './command.mjs'
import { ensureInstalled, pnpmEnvironment } from './install.mjs'
import { readWorkspaces, root } from './layout.mjs'

const bin = (name) => join(root, 'node_modules', '.bin', name)

async function quietly(what, command, args) {
  await runQuietly(what, command, args, { env: await pnpmEnvironment() })
}

const stages = {
  install: () => ensureInstalled(),
  build: (directory) => ensureBuilt(directory),
  boundaries: () => quietly('the direction rule', turbo, ['boundaries']),
  lint: () => quietly('biome', bin('biome'), ['check', '--error-on-warnings', '.']),
  checks: () => quietly('the repository checks', process.execPath, [join(root, 'tools/checks/run.mjs')]),
  unused: () => quietly('knip', bin('knip'), ['--no-progress']),
  types: () => {
    const projects = readWorkspaces().map(({ directory }) => join(root, directory, 'tsconfig.test.json'))
    return quietly('the type check', bin('tsc'), ['-b', ...projects, join(root, 'test')])
  },
}

/** Runs one stage, a build of `directory` alone if one is given; resolves to `{ name, error, seconds }`, where `error` is undefined if it passed. */
export async function runStage(name, directory) {
  const start = performance.now()
  let error
  try {
    if (name !== 'install') await ensureInstalled()
    await stages[name](directory)
  } catch (failure) {
    if (!(failure instanceof ToolFailure)) throw failure
    error = failure
  }
  return { name, error, seconds: (performance.now() - start) / 1000 }
}

/** Runs stages in turn and stops at the first that fails. */
export async function runStages(names, directory) {
  for (const name of names) {
    const { error, seconds } = await runStage(name, directory)
    if (error !== undefined) throw error
    tell(`${name.padEnd(10)} ok  ${seconds.toFixed(1)} s`)
  }
}

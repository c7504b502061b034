/**
 * Building what is stale, through turbo, under the checkout's lock.
 *
 * turbo orders the packages and keeps a local cache of what it built; tsc compiles. Neither removes the
 * output of a source that is gone, which would then be packed and published: that is done here.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { runQuietly } from './command.mjs'
import { forgetBuilt, inputsOf, isFresh, recordBuilt } from './freshness.mjs'
import { ensureInstalled, pnpmEnvironment } from './install.mjs'
import { readWorkspaces, root, withDependencies } from './layout.mjs'
import { withLock } from './lock.mjs'

export const turbo = join(root, 'node_modules', '.bin', 'turbo')

/**
 * Removes what tsc made of a source that is gone. Where a program is bundled, tsc writes to build/, and dist/ is made
 * anew each time (bundle-program.mjs); elsewhere tsc writes to dist/.
 */
export function pruneOutputs(directory, at = '') {
  const folder = existsSync(join(directory, 'build')) ? 'build' : 'dist'
  const output = join(directory, folder, at)
  if (!existsSync(output)) return
  for (const entry of readdirSync(output, { withFileTypes: true })) {
    const name = join(at, entry.name)
    if (entry.isDirectory()) {
      if (existsSync(join(directory, 'src', name))) pruneOutputs(directory, name)
      else rmSync(join(output, entry.name), { recursive: true })
      continue
    }
    const source = name.replace(/\.d\.ts$|\.js$/, '.ts')
    const isOf = (path) => existsSync(join(directory, 'src', path))
    if (source !== name && !isOf(source) && !isOf(`${source}x`)) rmSync(join(output, entry.name))
  }
}

async function build(stale) {
  const inputs = stale.map(({ directory }) => inputsOf(directory))
  const filters = stale.map(({ manifest }) => `--filter=${manifest.name}`)
  const env = await pnpmEnvironment()
  // one tsc for all of them: one a package would read the libraries' types anew each time; turbo finds them compiled
  const projects = stale.map(({ directory }) => join(root, directory))
  await runQuietly('compiling', join(root, 'node_modules', '.bin', 'tsc'), ['-b', ...projects], { env })
  const args = ['run', 'build', '--cache=local:rw', '--output-logs=errors-only', ...filters]
  await runQuietly('building', turbo, args, { env })
  stale.forEach((workspace, index) => {
    pruneOutputs(join(root, workspace.directory))
    recordBuilt(workspace, inputs[index])
  })
}

/** Installs and builds what `directory` needs to run (all workspaces without one), if it is stale. */
export async function ensureBuilt(directory) {
  const all = readWorkspaces()
  await ensureInstalled(all)
  const wanted = directory === undefined ? all : withDependencies(directory, all)
  if (wanted.every(isFresh)) return
  await withLock(async () => {
    const changed = new Set(
      wanted.filter((workspace) => !isFresh(workspace)).map(({ directory }) => directory),
    )
    if (changed.size === 0) return
    // A package's types may no longer fit those who use it, though none of their own files changed.
    const touched = ({ directory }) =>
      withDependencies(directory, all).some((workspace) => changed.has(workspace.directory))
    // what is not wanted now may be bundled of what changes
    for (const workspace of all) if (touched(workspace) && !wanted.includes(workspace)) forgetBuilt(workspace)
    await build(wanted.filter(touched))
  })
}

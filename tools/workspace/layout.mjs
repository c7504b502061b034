/**
 * Where things are: the checkout's root, its workspaces, the one pinned pnpm version.
 *
 * Everything here is read from the files that already say it (package.json, the folders under
 * packages/ and apps/), so that no second list can fall behind. Left out: pnpm-workspace.yaml is not
 * parsed; its two globs, `packages/*` and `apps/*`, are the layout that the whole repository assumes.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

/** Build and install records live beside what they describe, and go when it goes. */
export const stateDirectory = join(root, 'node_modules', '.oddflow')

export const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'))

/** The pnpm version that the root package.json pins: the only place where it is written. */
export function pinnedPnpmVersion() {
  return readJson(join(root, 'package.json')).devEngines.packageManager.version
}

/** All workspaces: `{ directory: 'packages/core', manifest }`, sorted by directory. */
export function readWorkspaces(checkout = root) {
  const found = []
  for (const group of ['apps', 'packages']) {
    for (const entry of readdirSync(join(checkout, group)).sort()) {
      const path = join(checkout, group, entry, 'package.json')
      if (existsSync(path)) found.push({ directory: `${group}/${entry}`, manifest: readJson(path) })
    }
  }
  return found
}

/** `directory` and every workspace that it is made with or needs to run, dependencies first. */
export function withDependencies(directory, workspaces = readWorkspaces()) {
  const byName = new Map(workspaces.map((workspace) => [workspace.manifest.name, workspace]))
  const ordered = new Set()
  const visit = (workspace) => {
    const { dependencies, devDependencies } = workspace.manifest
    // a program that is bundled has its libraries among what it is made with
    for (const name of Object.keys({ ...dependencies, ...devDependencies })) {
      if (byName.has(name)) visit(byName.get(name))
    }
    ordered.add(workspace)
  }
  const start = workspaces.find((workspace) => workspace.directory === directory)
  if (start === undefined) {
    const known = workspaces.map((workspace) => workspace.directory).join(', ')
    throw new Error(`there is no workspace ${directory}; there are ${known}`)
  }
  visit(start)
  return [...ordered]
}

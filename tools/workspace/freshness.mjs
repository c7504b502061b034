/**
 * Is a workspace's dist/ what its sources say? Answered by file times and sizes, in a few milliseconds.
 *
 * After a build the time and size of every input and output is recorded; a workspace is fresh while all
 * of them are as recorded, and none came or went. The times are compared for equality, never by order,
 * so that a restored or copied file counts as changed. What that costs is a needless build now and then,
 * which turbo answers from its cache. The inputs are those of turbo.json's build task and of its hash.
 */
import { mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readJson, root, stateDirectory } from './layout.mjs'

const SHARED_INPUTS = [
  'package.json',
  'pnpm-lock.yaml',
  'tsconfig.base.json',
  'turbo.json',
  'tools/wasm/build-module.mjs',
  'tools/workspace/bundle-page.mjs',
  'tools/workspace/bundle-program.mjs',
  'tools/workspace/licences.mjs',
]

/** Time and size of all files at and below some paths, as one text. */
function signatureOf(paths) {
  const lines = []
  const add = (path) => {
    const status = statSync(join(root, path), { throwIfNoEntry: false })
    if (status?.isDirectory()) for (const name of readdirSync(join(root, path)).sort()) add(`${path}/${name}`)
    else if (status !== undefined) lines.push(`${path} ${status.mtimeMs} ${status.size}`)
  }
  paths.forEach(add)
  return lines.join('\n')
}

/** What a build of `directory` reads. */
export const inputsOf = (directory) =>
  signatureOf([
    ...SHARED_INPUTS,
    ...['package.json', 'tsconfig.json', 'turbo.json', 'src', 'assembly'].map(
      (name) => `${directory}/${name}`,
    ),
  ])

/** What it writes: `build` where a program is bundled from what tsc makes; else there is `dist` alone. */
const outputsOf = (directory) => signatureOf([`${directory}/build`, `${directory}/dist`])

const recordPath = (directory) => join(stateDirectory, 'built', `${directory}.json`)

export function isFresh({ directory }) {
  try {
    const { inputs, outputs } = readJson(recordPath(directory))
    return inputs === inputsOf(directory) && outputs === outputsOf(directory)
  } catch {
    return false // never built, or built by another process just now
  }
}

/** The next build makes it anew. */
export function forgetBuilt({ directory }) {
  rmSync(recordPath(directory), { force: true })
}

/** `inputs` as they were before the build: a source saved during it is seen as changed next time. */
export function recordBuilt({ directory }, inputs) {
  const path = recordPath(directory)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(`${path}.new`, JSON.stringify({ inputs, outputs: outputsOf(directory) }))
  renameSync(`${path}.new`, path)
}

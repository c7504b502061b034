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

/** `build` where a program is bundled from what tsc makes; else there is `dist` alone. */
const OUTPUTS = ['build', 'dist']

function addFile(signature, path) {
  const status = statSync(join(root, path), { throwIfNoEntry: false })
  if (status !== undefined) signature[path] = `${status.mtimeMs} ${status.size}`
}

function addTree(signature, path) {
  let entries
  try {
    entries = readdirSync(join(root, path), { withFileTypes: true })
  } catch {
    return
  }
  for (const entry of entries) {
    if (entry.isDirectory()) addTree(signature, `${path}/${entry.name}`)
    else addFile(signature, `${path}/${entry.name}`)
  }
}

/** Time and size of everything that a build of `directory` reads. */
export function inputsOf(directory) {
  const signature = {}
  for (const path of SHARED_INPUTS) addFile(signature, path)
  for (const name of ['package.json', 'tsconfig.json', 'turbo.json'])
    addFile(signature, `${directory}/${name}`)
  addTree(signature, `${directory}/src`)
  addTree(signature, `${directory}/assembly`)
  return signature
}

/** Time and size of everything that a build of `directory` writes. */
export function outputsOf(directory) {
  const signature = {}
  for (const folder of OUTPUTS) addTree(signature, `${directory}/${folder}`)
  return signature
}

const recordPath = (directory) => join(stateDirectory, 'built', `${directory}.json`)

function isEqual(left, right) {
  const names = Object.keys(left)
  return names.length === Object.keys(right).length && names.every((name) => left[name] === right[name])
}

export function isFresh({ directory }) {
  let record
  try {
    record = readJson(recordPath(directory))
  } catch {
    return false
  }
  return isEqual(record.inputs, inputsOf(directory)) && isEqual(record.outputs, outputsOf(directory))
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

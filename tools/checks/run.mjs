/**
 * The rules of this repository that no ready-made tool knows, each in a file of its own beside this one.
 *
 * Prints one line a complaint, `path:line: what is wrong`, and exits with 1 if there is any.
 * test/workspace-checks.test.ts shows for each rule a file that breaks it.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkAddresses } from './addresses.mjs'
import { checkAmbient } from './ambient.mjs'
import { checkExports, checkImports, readSources } from './exports.mjs'
import { listFiles, readTextFiles } from './files.mjs'
import { checkLinks } from './links.mjs'
import { checkManifests } from './manifests.mjs'
import { checkMethods } from './methods.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const paths = listFiles(root)
const files = readTextFiles(root, paths)
const sources = readSources(files)
const complaints = [
  ...checkAmbient(files),
  ...checkAddresses(files),
  ...checkManifests(files),
  ...checkExports(sources),
  ...checkImports(sources),
  ...checkLinks(files, paths),
  ...checkMethods(
    root,
    paths
      .filter((path) => /^(packages|apps)\/[^/]+\/src\/.*\.tsx?$/.test(path))
      .map((path) => join(root, path)),
  ),
]
for (const { path, line, message } of complaints) process.stdout.write(`${path}:${line}: ${message}\n`)
if (complaints.length > 0) process.exitCode = 1

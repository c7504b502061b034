/** Packages inside a bundle, and their terms. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

/** The folder and manifest of the package that a file belongs to. */
function packageOf(file) {
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
    const path = join(folder, 'package.json')
    if (!existsSync(path)) continue
    const manifest = JSON.parse(readFileSync(path, 'utf8'))
    // a package.json inside a package has no version: it says the type of modules, or where a part's entry is
    if (manifest.version !== undefined) return { folder, manifest }
  }
  throw new Error(`${file}: belongs to no package`)
}

function termsOf({ folder, manifest }) {
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name))
  const head = `${manifest.name} ${manifest.version} (${manifest.license})`
  if (file === undefined) return `${head}\n\nNo text of the licence comes with this package.\n`
  return `${head}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
}

/** The packages that the inputs of a bundle by esbuild were taken from, by name, without the one in `own`. */
export function packagesOf(inputs, own) {
  const packages = new Map()
  for (const input of Object.keys(inputs)) {
    const found = packageOf(resolve(input))
    if (found.folder !== own) packages.set(`${found.manifest.name} ${found.manifest.version}`, found)
  }
  return [...packages.keys()].sort().map((name) => packages.get(name))
}

/** Under what terms. */
export const licences = (packages) => packages.map(termsOf).join(`\n${'-'.repeat(80)}\n\n`)

/**
 * Makes of a program, run in its folder as `node ../../tools/workspace/bundle-program.mjs ENTRY…`, the few files that
 * are run and published: what tsc left in build/ with every package that it imports, by esbuild, into dist/.
 *
 * Why (docs/decisions/0013): Node takes longer to find and load some three hundred small modules than a short command
 * takes for its work. A program is one file, and each package that it imports when it is wanted (`await import('mqtt')`) another:
 * a file takes 1 ms to load, and esbuild makes one for each set of commands that share modules. dist/ is flat, and a sibling of
 * build/: what a module finds by `new URL('../…', import.meta.url)` must be looked for from the top of src/, and a worker by its
 * mere name. Modules of Node load with the file that names them, unless they are imported when they are wanted.
 *
 * Nothing is minified, so that the text of an error shows the code. dist/LICENSES.txt holds the terms of all that was
 * taken in, dist/bom.cdx.json lists it (CycloneDX). An entry that is a folder becomes a page for browsers. node: modules alone are
 * left outside, and what linkedom asks for in vain (canvas).
 *
 * A program with build/index.js is a library too: index.js for Node, which shares files with the program, browser.js
 * in one file for browsers, and the declarations of both, which name no other package.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, resolve } from 'node:path'
import { build } from 'esbuild'
import { rollup } from 'rollup'
import { dts } from 'rollup-plugin-dts'
import { bundlePage } from './bundle-page.mjs'
import { licences, packagesOf } from './licences.mjs'

/** Packages of CommonJS call `require` for modules of Node. */
const REQUIRE =
  "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);"

/** ml-matrix as CommonJS, which esbuild wraps in a function; its module for ESM reads the wrapper as soon as it loads. */
const alias = {
  'ml-matrix': createRequire(resolve('../../packages/linalg/package.json')).resolve('ml-matrix'),
}

/** Versions, for code that no longer finds the package.json they are in. */
const versionIn = (folder) =>
  JSON.stringify(JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')).version)
const define = {
  ODDFLOW_VERSION: versionIn('.'),
  ODDFLOW_DETECTORS_VERSION: versionIn('../../packages/detectors'),
}

/** Marks ml-matrix as free of side effects, so that a bundler leaves it out where only `loadModel` is imported. */
function markMatrixPure() {
  for (const name of readdirSync('dist').filter((each) => each.endsWith('.js'))) {
    const text = readFileSync(`dist/${name}`, 'utf8')
    const marked = text
      .replace('var require_matrix = __commonJS(', 'var require_matrix = /* @__PURE__ */ __commonJS(')
      .replace(
        '= __toESM(require_matrix(), 1)',
        '= /* @__PURE__ */ __toESM(/* @__PURE__ */ require_matrix(), 1)',
      )
    if (marked !== text) writeFileSync(`dist/${name}`, marked)
  }
}

/** CycloneDX 1.6; without a time or a number of its own, so that the same sources give the same bytes. */
function billOfMaterials(packages) {
  const purlOf = ({ name, version }) => `pkg:npm/${name.replace('@', '%40')}@${version}`
  const component = (type, manifest) => ({
    type,
    'bom-ref': purlOf(manifest),
    name: manifest.name,
    version: manifest.version,
    licenses: [{ expression: manifest.license }],
    purl: purlOf(manifest),
  })
  const own = JSON.parse(readFileSync('package.json', 'utf8'))
  const bom = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: component('application', own) },
    components: packages.map(({ manifest }) => component('library', manifest)),
    dependencies: [{ ref: purlOf(own), dependsOn: packages.map(({ manifest }) => purlOf(manifest)) }],
  }
  return `${JSON.stringify(bom, null, 2)}\n`
}

async function bundleLibrary() {
  const { metafile } = await build({
    entryPoints: { browser: 'build/browser.js' },
    outdir: 'dist',
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    alias,
    define,
    // what imports them is left out: no entry of the library needs it
    external: ['node:*'],
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
  })
  const [{ imports }] = Object.values(metafile.outputs)
  if (imports.length > 0) throw new Error(`dist/browser.js imports ${imports[0].path}, which no browser has`)
  const declarations = await rollup({
    input: { index: 'build/index.d.ts', browser: 'build/browser.d.ts' },
    plugins: [dts({ respectExternal: true, tsconfig: 'tsconfig.json' })],
    onwarn: ({ message }) => {
      throw new Error(`declarations of the library: ${message}`)
    },
  })
  await declarations.write({ dir: 'dist', entryFileNames: '[name].d.ts', chunkFileNames: 'library.d.ts' })
  await declarations.close()
}

/** Packages that the program imports when it wants them: the name of the file of each, and its entry. */
const wanted = new Map()

/** Leaves them out: each becomes a file of its own. */
const packagesApart = {
  name: 'packages-apart',
  setup({ onResolve, resolve }) {
    onResolve({ filter: /^[@\w]/ }, async ({ path, kind, importer, resolveDir, pluginData }) => {
      if (kind !== 'dynamic-import' || /^(node:|@oddflow\/)/.test(path) || pluginData === packagesApart)
        return
      const found = await resolve(path, { kind, importer, resolveDir, pluginData: packagesApart })
      const name = path.replace(/^@|\.js$/g, '').replaceAll('/', '-')
      wanted.set(name, found.path)
      return { path: `./${name}.js`, external: true }
    })
  },
}

/** @param splitting - what entries share is a file of its own */
const bundle = (entryPoints, splitting) =>
  build({
    entryPoints,
    outdir: 'dist',
    bundle: true,
    splitting,
    chunkNames: '[name]-[hash]',
    format: 'esm',
    platform: 'node',
    target: 'node20',
    alias,
    define,
    external: ['canvas'],
    banner: { js: REQUIRE },
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
    plugins: splitting ? [] : [packagesApart],
  })

const entries = process.argv.slice(2)
const folders = entries.filter((entry) => existsSync(`build/${entry}`))
const isLibrary = existsSync('build/index.js')
const modules = [...entries.filter((entry) => !folders.includes(entry)), ...(isLibrary ? ['index'] : [])]
if (entries.length === 0)
  throw new Error('usage: bundle-program.mjs ENTRY…, each a module of build/ without .js, or a folder')
rmSync('dist', { recursive: true, force: true })
const { metafile } = await bundle(
  Object.fromEntries(modules.map((entry) => [basename(entry), `build/${entry}.js`])),
  isLibrary,
)
const inputs = { ...metafile.inputs }
if (wanted.size > 0) Object.assign(inputs, (await bundle(Object.fromEntries(wanted), true)).metafile.inputs)
if (isLibrary) {
  await bundleLibrary()
  markMatrixPure()
}
for (const folder of folders) Object.assign(inputs, await bundlePage(process.cwd(), `dist/${folder}`))
// a worker that is no entry would be missed only when it is wanted
for (const name of readdirSync('dist').filter((each) => each.endsWith('.js'))) {
  const text = readFileSync(`dist/${name}`, 'utf8')
  for (const [, worker] of text.matchAll(/new URL\(['"]\.\/([\w-]+\.js)['"], import\.meta\.url\)/g)) {
    if (!existsSync(`dist/${worker}`)) throw new Error(`dist/${name} runs ${worker}, which is no entry`)
  }
}
const packages = packagesOf(inputs, process.cwd())
writeFileSync('dist/LICENSES.txt', licences(packages))
writeFileSync('dist/bom.cdx.json', billOfMaterials(packages))

/**
 * Compiles a package's assembly/ (AssemblyScript) into a TypeScript file with the WebAssembly module as text, so that
 * it is loaded with the code that uses it, in Node, in a bundle and in a browser, without a path or a request.
 *
 *   node tools/wasm/build-module.mjs PACKAGE   writes the file if it differs (the first half of its build);
 *                                              where CI is set, exits 1 instead
 *
 * assembly/module.json says what is special: `output` (the file), `title` (its comment's beginning), `options` of the
 * compiler, and `reservedBytes`: the module's constants must end below that byte. The file is part of the repository, since tests and type checks read sources. The compiler's output depends on its version alone, which is pinned.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import process from 'node:process'
import asc from 'assemblyscript/asc'

const folder = resolve(process.argv[2])
const assembly = join(folder, 'assembly')
const { output, title, options, reservedBytes } = JSON.parse(
  readFileSync(join(assembly, 'module.json'), 'utf8'),
)

/** The module's bytes. */
async function compile() {
  let bytes
  const messages = []
  const collect = { write: (text) => messages.push(text) }
  const { error } = await asc.main(
    ['index.ts', '--outFile', 'module.wasm', '-O3', '--runtime', 'stub', '--noAssert', ...options],
    {
      stdout: collect,
      stderr: collect,
      readFile(name, base) {
        try {
          return readFileSync(join(base === '.' ? assembly : join(assembly, base), name), 'utf8')
        } catch {
          return null
        }
      },
      writeFile(name, contents) {
        if (name === 'module.wasm') bytes = contents
      },
      listFiles: () => [],
    },
  )
  if (error !== null || bytes === undefined) throw new Error(`${messages.join('')}${error ?? 'no output'}`)
  return bytes
}

const bytes = await compile()
if (reservedBytes !== undefined) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes))
  if (exports.heapBase.value > reservedBytes)
    throw new Error(`constants reach up to ${exports.heapBase.value}`)
}
const wanted = `/** ${title}, compiled from assembly/ by tools/wasm/build-module.mjs. Do not edit. */
export const MODULE_BASE64 =
  '${Buffer.from(bytes).toString('base64')}'
`
const file = join(folder, output)
let found = ''
try {
  found = readFileSync(file, 'utf8')
} catch (error) {
  if (error.code !== 'ENOENT') throw error
}
if (wanted !== found) {
  if (process.env.CI !== undefined) {
    console.error(`${file} is not what assembly/ compiles to: build the package, and commit the file`)
    process.exit(1)
  }
  writeFileSync(file, wanted)
}

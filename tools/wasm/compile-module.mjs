/**
 * Compiles a package's assembly/ (AssemblyScript) into a TypeScript file with the WebAssembly module as text, so that
 * it is loaded with the code that uses it, in Node, in a bundle and in a browser, without a path or a request.
 *
 * The file is part of the repository, since tests and type checks read sources; a test of the package compiles
 * again and compares. The compiler's output depends on its version alone, which is pinned.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The module's bytes.
 * @param asc - the compiler, `assemblyscript/asc`, as the package has it.
 * @param folder - assembly/, which holds index.ts.
 * @param options - further options of the compiler.
 */
async function compile(asc, folder, options) {
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
          return readFileSync(join(base === '.' ? folder : join(folder, base), name), 'utf8')
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

/**
 * Writes `output` if it differs from what the folder compiles to; with --check exits 1 if it does.
 * @param check - looks at the bytes, and throws if they are not as they should be.
 */
export async function buildModule({ asc, folder, options, output, title, check }) {
  const bytes = await compile(asc, folder, options)
  check?.(bytes)
  const wanted = `/** ${title}, compiled from assembly/ by assembly/build.mjs: never edited by hand. */
export const MODULE_BASE64 =
  '${Buffer.from(bytes).toString('base64')}'
`
  let found = ''
  try {
    found = readFileSync(output, 'utf8')
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  if (wanted === found) return
  if (process.argv.includes('--check')) {
    console.error(`${output} is not what assembly/ compiles to: build the package`)
    process.exit(1)
  }
  writeFileSync(output, wanted)
}

/**
 * Compiles this folder into src/simd/module-bytes.ts: the WebAssembly module as text, so that it is loaded with
 * the code that uses it, in Node, in a bundle and in a browser, without a path or a request.
 *
 *   node assembly/build.mjs          writes the file if it differs (the first half of the package's build)
 *   node assembly/build.mjs --check  exits 1 if it differs
 *
 * The file is part of the repository, since tests and type checks read sources; test/simd/module-bytes.test.ts
 * compiles again and compares. The compiler's output depends on its version alone, which is pinned.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import asc from 'assemblyscript/asc'

const here = dirname(fileURLToPath(import.meta.url))
const output = join(here, '../src/simd/module-bytes.ts')

/** First byte that a caller may use; the kernels' constants must end below it. */
const RESERVED_BYTES = 1024

/** Pages of 64 KiB that the memory may grow to: 256 MiB. */
const MAXIMUM_PAGES = 4096

async function compile() {
  let bytes
  const messages = []
  const { error } = await asc.main(
    [
      ...[
        'index.ts',
        '--outFile',
        'module.wasm',
        '-O3',
        '--runtime',
        'stub',
        '--enable',
        'simd',
        '--noAssert',
      ],
      ...['--memoryBase', '16', '--initialMemory', '1', '--maximumMemory', String(MAXIMUM_PAGES)],
    ],
    {
      stdout: { write: (text) => messages.push(text) },
      stderr: { write: (text) => messages.push(text) },
      readFile(name, base) {
        try {
          return readFileSync(join(base === '.' ? here : join(here, base), name), 'utf8')
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
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes))
  if (exports.heapBase.value > RESERVED_BYTES)
    throw new Error(`constants reach up to ${exports.heapBase.value}`)
  return bytes
}

/** The text of src/simd/module-bytes.ts. */
export async function moduleSource() {
  const base64 = Buffer.from(await compile()).toString('base64')
  return `/** The SIMD kernels' module, compiled from assembly/ by assembly/build.mjs: never edited by hand. */
export const MODULE_BASE64 =
  '${base64}'
`
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const wanted = await moduleSource()
  let found = ''
  try {
    found = readFileSync(output, 'utf8')
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  if (wanted !== found) {
    if (process.argv.includes('--check')) {
      console.error('src/simd/module-bytes.ts is not what assembly/ compiles to: build the package')
      process.exit(1)
    }
    writeFileSync(output, wanted)
  }
}

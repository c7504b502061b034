/**
 * Compiles this folder into src/simd/module-bytes.ts (tools/wasm/compile-module.mjs).
 *
 *   node assembly/build.mjs          writes the file if it differs (the first half of the package's build)
 *   node assembly/build.mjs --check  exits 1 if it differs
 */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import asc from 'assemblyscript/asc'
import { buildModule } from '../../../tools/wasm/compile-module.mjs'

const here = dirname(fileURLToPath(import.meta.url))

/** First byte that a caller may use; the kernels' constants must end below it. */
const RESERVED_BYTES = 1024
/** Pages of 64 KiB that the memory may grow to: 256 MiB. */
const MAXIMUM_PAGES = 4096

await buildModule({
  asc,
  folder: here,
  options: [
    ...['--enable', 'simd', '--memoryBase', '16', '--initialMemory', '1'],
    ...['--maximumMemory', String(MAXIMUM_PAGES)],
  ],
  output: join(here, '../src/simd/module-bytes.ts'),
  title: "The SIMD kernels' module",
  check(bytes) {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes))
    if (exports.heapBase.value > RESERVED_BYTES)
      throw new Error(`constants reach up to ${exports.heapBase.value}`)
  },
})

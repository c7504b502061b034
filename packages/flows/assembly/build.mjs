/**
 * Compiles this folder into src/packet-pass-module.ts (tools/wasm/compile-module.mjs).
 *
 *   node assembly/build.mjs          writes the file if it differs (the first half of the package's build)
 *   node assembly/build.mjs --check  exits 1 if it differs
 */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import asc from 'assemblyscript/asc'
import { buildModule } from '../../../tools/wasm/compile-module.mjs'

const here = dirname(fileURLToPath(import.meta.url))
await buildModule({
  asc,
  folder: here,
  // The memory is the caller's, as large as its flow table.
  options: ['--importMemory', '--maximumMemory', '65536'],
  output: join(here, '../src/packet-pass-module.ts'),
  title: 'The packet pass',
})

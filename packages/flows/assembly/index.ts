/**
 * The packet pass in WebAssembly, written in AssemblyScript: this folder is compiled by
 * tools/wasm/build-module.mjs into src/packet-pass-module.ts. It allocates nothing, and keeps no state but in the memory that it is given.
 */
export { run } from './packet-pass'

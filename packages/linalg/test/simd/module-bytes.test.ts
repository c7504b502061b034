/** The committed module is what assembly/ compiles to, and needs nothing but its own memory. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { MODULE_BASE64 } from '../../src/simd/module-bytes.js'
import { MAXIMUM_BYTES } from '../../src/simd/simd-kernels.js'

/** Not among the types that tests have. */
interface Memory {
  readonly buffer: ArrayBuffer
  grow(pages: number): number
}
declare const WebAssembly: {
  readonly Module: { new (bytes: Uint8Array): object; imports(module: object): unknown[] }
  readonly Instance: new (module: object) => { readonly exports: unknown }
}

describe('the SIMD module', () => {
  it('is compiled from the sources beside it', () => {
    const build = fileURLToPath(new URL('../../../../tools/wasm/build-module.mjs', import.meta.url))
    const folder = fileURLToPath(new URL('../..', import.meta.url))
    const output = execFileSync(process.execPath, [build, folder, '--check'], { encoding: 'utf8' })
    expect(output).toBe('')
  })

  it('imports nothing, and its memory is bounded', () => {
    const module = new WebAssembly.Module(Buffer.from(MODULE_BASE64, 'base64'))
    expect(WebAssembly.Module.imports(module)).toEqual([])
    const { memory } = new WebAssembly.Instance(module).exports as { memory: Memory }
    expect(memory.buffer.byteLength).toBe(65536)
    expect(() => memory.grow(MAXIMUM_BYTES / 65536)).toThrow(RangeError)
  })
})

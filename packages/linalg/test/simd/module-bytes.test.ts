/** The committed module needs nothing but its own memory; the build compares it with what assembly/ compiles to. */
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
  it('imports nothing, and its memory is bounded', () => {
    const module = new WebAssembly.Module(Buffer.from(MODULE_BASE64, 'base64'))
    expect(WebAssembly.Module.imports(module)).toEqual([])
    const { memory } = new WebAssembly.Instance(module).exports as { memory: Memory }
    expect(memory.buffer.byteLength).toBe(65536)
    expect(() => memory.grow(MAXIMUM_BYTES / 65536)).toThrow(RangeError)
  })
})

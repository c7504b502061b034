import fc from 'fast-check'
import type { Safetensors, Tensor } from '../../src/index.js'

/** One or two sizes, zero included, and data to fill them. */
const shape = fc.array(fc.nat(4), { minLength: 0, maxLength: 3 })
const size = (s: readonly number[]): number => s.reduce((a, b) => a * b, 1)

function tensorOf<T extends Tensor>(
  dtype: T['dtype'],
  make: (bytes: ArrayBuffer) => T['data'],
  width: number,
): fc.Arbitrary<Tensor> {
  return shape.chain((s) =>
    fc
      .uint8Array({ minLength: size(s) * width, maxLength: size(s) * width })
      .map((raw) => ({ dtype, shape: s, data: make(Uint8Array.from(raw).buffer) }) as Tensor),
  )
}

export const tensor: fc.Arbitrary<Tensor> = fc.oneof(
  tensorOf('F64', (b) => new Float64Array(b), 8),
  tensorOf('F32', (b) => new Float32Array(b), 4),
  tensorOf('I32', (b) => new Int32Array(b), 4),
  tensorOf('U32', (b) => new Uint32Array(b), 4),
  tensorOf('U16', (b) => new Uint16Array(b), 2),
  tensorOf('U8', (b) => new Uint8Array(b), 1),
)

const name = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  fc.constantFrom('__proto__', 'constructor', 'toString', '', '7', '"', '\\', 'é', '\u0000'),
)

export const safetensors: fc.Arbitrary<Safetensors> = fc.record({
  tensors: fc
    .uniqueArray(fc.tuple(name, tensor), { maxLength: 5, selector: ([key]) => key })
    .map((entries) => new Map(entries)),
  metadata: fc
    .uniqueArray(fc.tuple(name, fc.string({ unit: 'grapheme' })), { maxLength: 4, selector: ([key]) => key })
    .map((entries) => new Map(entries)),
})

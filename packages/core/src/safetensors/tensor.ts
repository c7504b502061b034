/**
 * What a safetensors file holds: named tensors and string metadata
 * (https://github.com/huggingface/safetensors#format).
 *
 *     8 bytes   N, the header's length, unsigned little-endian
 *     N bytes   a JSON object: name → { dtype, shape, data_offsets: [begin, end) }, offsets counted from the
 *               end of the header; optionally "__metadata__": an object of strings. Spaces may follow it.
 *     the rest  raw little-endian numbers, row-major, the tensors side by side without holes
 *
 * Six element types are carried, those that typed arrays have and OddFlow uses; files with others (BF16, F16,
 * I64, …) are refused by name. Names and metadata live in Maps, so that a tensor may be called `__proto__`.
 */

export type Tensor =
  | { readonly dtype: 'F64'; readonly shape: readonly number[]; readonly data: Float64Array }
  | { readonly dtype: 'F32'; readonly shape: readonly number[]; readonly data: Float32Array }
  | { readonly dtype: 'I32'; readonly shape: readonly number[]; readonly data: Int32Array }
  | { readonly dtype: 'U32'; readonly shape: readonly number[]; readonly data: Uint32Array }
  | { readonly dtype: 'U16'; readonly shape: readonly number[]; readonly data: Uint16Array }
  | { readonly dtype: 'U8'; readonly shape: readonly number[]; readonly data: Uint8Array }

export type TensorDtype = Tensor['dtype']

export interface Safetensors {
  /** Decoded files list them in the order of their bytes. */
  readonly tensors: ReadonlyMap<string, Tensor>
  readonly metadata: ReadonlyMap<string, string>
}

export const ELEMENT_BYTES: ReadonlyMap<string, number> = new Map<TensorDtype, number>([
  ['F64', 8],
  ['F32', 4],
  ['I32', 4],
  ['U32', 4],
  ['U16', 2],
  ['U8', 1],
])

/** The name under which the format keeps its metadata; no tensor may have it. */
export const METADATA_KEY = '__metadata__'

/** Longest header that is read or written. The format allows 100 MB; a model needs a few thousand bytes. */
export const MAXIMUM_HEADER_BYTES = 8 * 1024 * 1024

/** Most tensors that a file may have, and most entries of its metadata. The format sets no limit; a model has ten. */
export const MAXIMUM_TENSORS = 1024

export function isSize(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** The product of a shape; null when a size is not a whole number ≥ 0 or the product passes 2^53. */
export function shapeSize(shape: readonly unknown[]): number | null {
  let size = 1
  for (const length of shape) {
    if (!isSize(length)) return null
    size *= length
    if (size > Number.MAX_SAFE_INTEGER) return null
  }
  return size
}

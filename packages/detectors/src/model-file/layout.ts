/** The layout of a model file: tensors and metadata by name, as detectors write and read them. */
import {
  crc32,
  FormatError,
  type Matrix,
  parseStrictJson,
  type Safetensors,
  type Tensor,
} from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'

export const FORMAT = 'model-file'

/**
 * Layout of a model file (docs/model-file.md): the metadata and tensors that make a safetensors file an OddFlow model.
 *
 * The metadata comes first with sorted keys, so `checksum` is at the same place in every file, and a damaged file can
 * be told from a newer one. CRC-32 of the whole file, with its own digits as zeros, detects worn flash and cut copies;
 * reading validates everything anyway.
 */

export const FORMAT_VERSION = '1'

/** Text that starts at byte 8 of every model file. */
export const SIGNATURE = '{"__metadata__":{"checksum":"'
export const CHECKSUM_DIGITS = 8
export const CHECKSUM_OFFSET = 8 + SIGNATURE.length

/**
 * Metadata of every model besides `checksum`; a detector may add its own. All except `formatVersion` and `kind` are
 * JSON.
 */
export const METADATA_KEYS = [
  'featureContract',
  'fitReport',
  'formatVersion',
  'kind',
  'onePacketRule',
  'parameters',
  'provenance',
  'threshold',
] as const

/** Metadata of models with a column of names: its number. The rest of a scaler is in tensors. */
export const SCALER_KEY = 'scaler'

/** Metadata of updated models. */
export const LEARNED_KEY = 'learned'
/** What the names of their further tensors start with. */
export const LEARNED_PREFIX = 'learned.'

export type MetadataKey = (typeof METADATA_KEYS)[number]

/** The expected checksum of a file: CRC-32 of all its bytes with its own eight digits as '0'. */
export function modelFileChecksum(bytes: Uint8Array): string {
  const end = CHECKSUM_OFFSET + CHECKSUM_DIGITS
  const zeros = new Uint8Array(CHECKSUM_DIGITS).fill(0x30)
  const front = crc32(zeros, crc32(bytes.subarray(0, CHECKSUM_OFFSET)))
  return crc32(bytes.subarray(end), front).toString(16).padStart(CHECKSUM_DIGITS, '0')
}

/** The checksum that a file says it has. */
export function statedChecksum(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes.subarray(CHECKSUM_OFFSET, CHECKSUM_OFFSET + CHECKSUM_DIGITS))
}

export interface ModelFileParts {
  /** Values that JSON can hold, by metadata key. */
  readonly metadata: Readonly<Record<string, unknown>>
  readonly tensors: Readonly<Record<string, Tensor>>
}

/** What a field of a model is in a file. Numbers of `matrix-f32` already are float32 numbers. */
const TENSOR_KINDS = {
  vector: { dtype: 'F64', dimensions: 1 },
  matrix: { dtype: 'F64', dimensions: 2 },
  'matrix-f32': { dtype: 'F32', dimensions: 2 },
  int32: { dtype: 'I32', dimensions: 1 },
  uint32: { dtype: 'U32', dimensions: 1 },
} as const

type TensorKind = keyof typeof TENSOR_KINDS

/** The fields of a part that are tensors. */
export type TensorFields = Readonly<Record<string, TensorKind>>

type TensorValue = Matrix | Float64Array | Int32Array | Uint32Array

function tensorOf(value: TensorValue, kind: TensorKind): Tensor {
  const { dtype } = TENSOR_KINDS[kind]
  const [shape, data] = 'rows' in value ? [[value.rows, value.cols], value.data] : [[value.length], value]
  return { dtype, shape, data: dtype === 'F32' ? Float32Array.from(data) : data } as Tensor
}

/** A tensor of a matrix for a model file. */
export function matrixTensor(matrix: Matrix): Tensor {
  return tensorOf(matrix, 'matrix')
}

/** Rows of a model of that precision. */
export function matrixIn(precision: Precision): TensorKind {
  return precision === 'f32' ? 'matrix-f32' : 'matrix'
}

/** A tensor of numbers for a model file. */
export function vectorTensor(data: Float64Array): Tensor {
  return tensorOf(data, 'vector')
}

/** Those fields of a part as tensors, named by `prefix` and the field. */
export function encodeFields(part: object, fields: TensorFields, prefix: string): Record<string, Tensor> {
  const values = part as Readonly<Record<string, TensorValue>>
  return Object.fromEntries(
    Object.entries(fields).map(([field, kind]) => [prefix + field, tensorOf(values[field]!, kind)]),
  )
}

/** Reads parts by name, checks the type and dimensions of each, and knows which were not read. */
export class ModelFileReader {
  private constructor(
    private readonly file: Safetensors,
    private readonly asked: Set<string>,
    private readonly prefix: string,
    /** Metadata by key, if not the file's own: values of a JSON object inside it. */
    private readonly inner: Readonly<Record<string, unknown>> | null,
  ) {}

  static of(file: Safetensors): ModelFileReader {
    return new ModelFileReader(file, new Set(), '', null)
  }

  /** Tensors by names after `prefix`, and metadata from the fields of `inner`: a model inside a model. */
  within(prefix: string, inner: Readonly<Record<string, unknown>>): ModelFileReader {
    return new ModelFileReader(this.file, this.asked, this.prefix + prefix, inner)
  }

  has(name: string): boolean {
    return this.file.tensors.has(this.prefix + name)
  }

  text(key: string): string {
    return this.file.metadata.get(key) ?? refusePart(key, 'the metadata lacks it')
  }

  json(key: string): unknown {
    if (this.inner !== null) {
      return Object.hasOwn(this.inner, key) ? this.inner[key] : refusePart(this.prefix + key, 'it is missing')
    }
    return parseStrictJson(this.text(key), (message) => refusePart(key, `the text ${message}`)).value
  }

  vector(name: string): Float64Array {
    return this.value(name, 'vector') as Float64Array
  }

  matrix(name: string): Matrix {
    return this.value(name, 'matrix') as Matrix
  }

  /** What `encodeFields` wrote, unchecked. */
  fields(fields: TensorFields, prefix: string): Record<string, unknown> {
    return Object.fromEntries(
      Object.entries(fields).map(([field, kind]) => [field, this.value(prefix + field, kind)]),
    )
  }

  /** A tensor of exactly this shape, as its numbers. */
  shaped(name: string, shape: readonly number[]): Float64Array {
    const found = this.tensor(name, 'F64', shape.length)
    if (found.shape.some((length, i) => length !== shape[i])) {
      return refusePart(this.prefix + name, `expected ${shape.join(' × ')}, found ${found.shape.join(' × ')}`)
    }
    return found.data
  }

  /** A × B × C numbers. */
  uint16Cube(name: string): { readonly shape: readonly number[]; readonly data: Uint16Array } {
    return this.tensor(name, 'U16', 3)
  }

  /** All tensors whose names start with `prefix`, by name. */
  allWith(prefix: string): Record<string, Tensor> {
    const found = [...this.file.tensors].filter(([name]) => name.startsWith(prefix))
    for (const [name] of found) this.asked.add(name)
    return Object.fromEntries(found)
  }

  /** Throws FormatError for a tensor that nothing read. */
  refuseOthers(): void {
    for (const name of this.file.tensors.keys()) {
      if (!this.asked.has(name)) refusePart(name, 'no such tensor is known here')
    }
  }

  private value(name: string, kind: TensorKind): TensorValue {
    const { dtype, dimensions } = TENSOR_KINDS[kind]
    const { shape, data } = this.tensor(name, dtype, dimensions)
    if (dimensions === 1) return data as TensorValue
    const [rows, cols] = shape as [number, number]
    return { rows, cols, data: dtype === 'F32' ? Float64Array.from(data) : (data as Float64Array) }
  }

  private tensor<Type extends Tensor['dtype']>(
    within: string,
    dtype: Type,
    dimensions: number,
  ): Extract<Tensor, { readonly dtype: Type }> {
    const name = this.prefix + within
    this.asked.add(name)
    const tensor = this.file.tensors.get(name) ?? refusePart(name, 'the file lacks this tensor')
    if (tensor.dtype !== dtype) return refusePart(name, `expected dtype ${dtype}, found ${tensor.dtype}`)
    if (tensor.shape.length !== dimensions) {
      return refusePart(name, `expected ${dimensions} dimensions, found ${tensor.shape.length}`)
    }
    return tensor as Extract<Tensor, { readonly dtype: Type }>
  }
}

export function refusePart(field: string, message: string): never {
  throw new FormatError(FORMAT, `${field}: ${message}`, { field })
}

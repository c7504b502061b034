/**
 * What a detector puts into a model file and takes out of it, beside what all detectors have.
 */
import {
  categoryColumn,
  type FeatureContract,
  FormatError,
  type Matrix,
  type OnePacketRule,
  parseStrictJson,
  type Safetensors,
  type ScalerName,
  type Tensor,
} from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'
import { encodeGroups } from '../calibration/groups.js'
import type { Fields } from '../check-model.js'
import type { DetectorModel, ScalerModel } from '../model.js'
import { DETECTORS } from '../registry.js'
import { FORMAT, type MetadataKey, SCALER_KEY } from './decode.js'
import { encodeLearned } from './learned-parts.js'
import type { SavedModel } from './saved-model.js'

/**
 * The metadata of a saved model that is JSON, as values: what is written, and what a file that was read must have
 * had in it.
 */

type MetadataValues = Readonly<Record<Exclude<MetadataKey, 'formatVersion' | 'kind'>, unknown>> &
  Readonly<Record<string, unknown>>

/** By metadata key, those of the detector's own family last. Every part is checked already. */
export function metadataValues(saved: SavedModel): MetadataValues {
  const { kind, parameters, fitReport, scaler } = saved.detector
  return {
    featureContract: saved.contract,
    fitReport,
    onePacketRule: saved.onePacketRule,
    parameters,
    provenance: saved.provenance,
    threshold: saved.threshold,
    ...(scaler.categoryColumn === undefined
      ? {}
      : { [SCALER_KEY]: { categoryColumn: scaler.categoryColumn } }),
    ...DETECTORS[kind].encode(saved.detector).metadata,
    ...(saved.groups === undefined ? {} : encodeGroups(saved.groups).metadata),
    ...(saved.learned === undefined ? {} : encodeLearned(saved.learned).metadata),
  }
}

/**
 * The parts of a saved model are each checked on their own; this is where they must agree with one another.
 */

/** Throws FormatError when contract, one-packet rule and detector do not belong together. */
export function checkAgreement(
  contract: FeatureContract,
  onePacketRule: OnePacketRule | null,
  { fitReport, scaler }: DetectorModel,
): void {
  const fail = (field: string, message: string): never => {
    throw new FormatError(FORMAT, `${field}: ${message}`, { field })
  }
  if (contract.dimension !== fitReport.dimension) {
    fail(
      'featureContract.dimension',
      `expected ${fitReport.dimension} as the detector has, found ${contract.dimension}`,
    )
  }
  if (contract.scaler !== scaler.kind) {
    fail('featureContract.scaler', `expected ${scaler.kind} as the detector has, found ${contract.scaler}`)
  }
  const names = categoryColumn(contract)
  // files from before there was such a column took its numbers for numbers
  if (
    scaler.categoryColumn !== undefined &&
    contract.featureSet !== 'rows' &&
    scaler.categoryColumn !== names
  ) {
    fail(
      'scaler.categoryColumn',
      `expected ${names ?? 'none'} as the contract has, found ${scaler.categoryColumn}`,
    )
  }
  if (onePacketRule !== null && contract.featureSet === 'rows') {
    fail('onePacketRule', 'expected null, since bare rows know no packets')
  }
  if (onePacketRule !== null && contract.featureSet === 'flow-summary') {
    fail('onePacketRule', 'expected null, since flows of one packet have rows')
  }
}

export interface ModelFileParts {
  /** Values that JSON can hold, by metadata key. */
  readonly metadata: Readonly<Record<string, unknown>>
  readonly tensors: Readonly<Record<string, Tensor>>
}

/** For `f32` the numbers are float32 numbers already. */
export function matrixTensor({ rows, cols, data }: Matrix, precision: Precision = 'f64'): Tensor {
  const shape = [rows, cols]
  return precision === 'f32'
    ? { dtype: 'F32', shape, data: Float32Array.from(data) }
    : { dtype: 'F64', shape, data }
}

export function vectorTensor(data: Float64Array): Tensor {
  return { dtype: 'F64', shape: [data.length], data }
}

export function int32Tensor(data: Int32Array): Tensor {
  return { dtype: 'I32', shape: [data.length], data }
}

/** Reads parts by name, each checked for type and number of dimensions, and knows which were never asked for. */
export class ModelFileReader {
  private constructor(
    private readonly file: Safetensors,
    private readonly asked: Set<string>,
    private readonly prefix: string,
    /** Metadata by key where it is not the file's own: values of a JSON object in it. */
    private readonly inner: Readonly<Record<string, unknown>> | null,
  ) {}

  static of(file: Safetensors): ModelFileReader {
    return new ModelFileReader(file, new Set(), '', null)
  }

  /** Tensors by names after `prefix`, and for metadata the fields of `inner`: a model within a model. */
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
    return this.float64(name, 1).data
  }

  /** A matrix of F64 or, for `f32`, F32. */
  matrix(name: string, precision: Precision = 'f64'): Matrix {
    if (precision === 'f64') {
      const { shape, data } = this.float64(name, 2)
      return { rows: shape[0]!, cols: shape[1]!, data }
    }
    const { shape, data } = this.float32(name, 2)
    return { rows: shape[0]!, cols: shape[1]!, data: Float64Array.from(data) }
  }

  /** A tensor of exactly this shape, as its numbers. */
  shaped(name: string, shape: readonly number[]): Float64Array {
    const found = this.float64(name, shape.length)
    if (found.shape.some((length, i) => length !== shape[i])) {
      return refusePart(this.prefix + name, `expected ${shape.join(' × ')}, found ${found.shape.join(' × ')}`)
    }
    return found.data
  }

  int32(name: string): Int32Array {
    const { dtype, shape, data } = this.tensor(name)
    if (dtype !== 'I32') return refusePart(this.prefix + name, `expected dtype I32, found ${dtype}`)
    if (shape.length !== 1)
      return refusePart(this.prefix + name, `expected 1 dimensions, found ${shape.length}`)
    return data
  }

  /** A × B × C numbers. */
  uint16Cube(name: string): { readonly shape: readonly number[]; readonly data: Uint16Array } {
    const { dtype, shape, data } = this.tensor(name)
    if (dtype !== 'U16') return refusePart(this.prefix + name, `expected dtype U16, found ${dtype}`)
    if (shape.length !== 3)
      return refusePart(this.prefix + name, `expected 3 dimensions, found ${shape.length}`)
    return { shape, data }
  }

  uint32(name: string): Uint32Array {
    const { dtype, shape, data } = this.tensor(name)
    if (dtype !== 'U32') return refusePart(this.prefix + name, `expected dtype U32, found ${dtype}`)
    if (shape.length !== 1)
      return refusePart(this.prefix + name, `expected 1 dimensions, found ${shape.length}`)
    return data
  }

  /** Throws FormatError for a tensor that nothing has asked for; those whose names begin with `later` may still be. */
  refuseOthers(later?: string): void {
    for (const name of this.file.tensors.keys()) {
      if (later !== undefined && name.startsWith(later)) continue
      if (!this.asked.has(name)) refusePart(name, 'no such tensor is known here')
    }
  }

  private float64(name: string, dimensions: number): { shape: readonly number[]; data: Float64Array } {
    const { dtype, shape, data } = this.tensor(name)
    if (dtype !== 'F64') return refusePart(this.prefix + name, `expected dtype F64, found ${dtype}`)
    if (shape.length !== dimensions) {
      return refusePart(this.prefix + name, `expected ${dimensions} dimensions, found ${shape.length}`)
    }
    return { shape, data }
  }

  private float32(name: string, dimensions: number): { shape: readonly number[]; data: Float32Array } {
    const { dtype, shape, data } = this.tensor(name)
    if (dtype !== 'F32') return refusePart(this.prefix + name, `expected dtype F32, found ${dtype}`)
    if (shape.length !== dimensions) {
      return refusePart(this.prefix + name, `expected ${dimensions} dimensions, found ${shape.length}`)
    }
    return { shape, data }
  }

  private tensor(within: string): Tensor {
    const name = this.prefix + within
    this.asked.add(name)
    return this.file.tensors.get(name) ?? refusePart(name, 'the file lacks this tensor')
  }
}

export function refusePart(field: string, message: string): never {
  throw new FormatError(FORMAT, `${field}: ${message}`, { field })
}

/** Scalers in a model file: their kind stands in the feature contract, their numbers in tensors. */

export function encodeScaler(scaler: ScalerModel): Readonly<Record<string, Tensor>> {
  switch (scaler.kind) {
    case 'none':
    case 'log':
      return {}
    case 'standard':
    case 'log-standard':
      return { 'scaler.mean': vectorTensor(scaler.mean), 'scaler.scale': vectorTensor(scaler.scale) }
    case 'quantile':
      return {
        'scaler.knots': vectorTensor(scaler.knots),
        'scaler.positions': vectorTensor(scaler.positions),
        'scaler.starts': { dtype: 'U32', shape: [scaler.starts.length], data: scaler.starts },
      }
  }
}

export function decodeScaler(file: ModelFileReader, kind: ScalerName): Fields {
  switch (kind) {
    case 'none':
    case 'log':
      return { kind }
    case 'standard':
    case 'log-standard':
      return { kind, mean: file.vector('scaler.mean'), scale: file.vector('scaler.scale') }
    case 'quantile':
      return {
        kind,
        starts: file.uint32('scaler.starts'),
        knots: file.vector('scaler.knots'),
        positions: file.vector('scaler.positions'),
      }
  }
}

/**
 * The WebAssembly SIMD kernels: one memory, used by one program (a scorer, a solver) at a time. `enter` loads a
 * program's constants if another was there in between; nothing but constants outlives a call. Without SIMD, or beyond
 * MAXIMUM_BYTES, callers take their typed-array path, which gives the same bits.
 */
import { decodeBase64 } from '@oddflow/core'
import { LARGEST_FLOAT32, toFloat32, toFloat32Into } from '../gaussian-kernel.js'
import { MODULE_BASE64 } from './module-bytes.js'

/**
 * Panels: rows laid side by side for the distance kernels. Element (panel · dimension + t) · lanes + lane is column t
 * of row panel · lanes + lane; lanes without a row are 0, and readers leave them out.
 */

export const PANEL_LANES_F64 = 4
/** Rows that a panel of float32 numbers holds side by side. */
export const PANEL_LANES_F32 = 8

/** Panels that `rows` rows fill. */
export function panelCount(rows: number, lanes: number): number {
  return Math.ceil(rows / lanes)
}

/** Lays out `count` rows of `source` (row-major, `dimension` wide, from element `start` on) at `out[outStart]`. */
export function packPanels(
  source: Float64Array,
  start: number,
  count: number,
  dimension: number,
  lanes: number,
  out: Float64Array | Float32Array,
  outStart: number,
): void {
  const panels = panelCount(count, lanes)
  out.fill(0, outStart, outStart + panels * lanes * dimension)
  let from = start
  for (let row = 0; row < count; row++) {
    const lane = row % lanes
    let to = outStart + (row - lane) * dimension + lane
    for (let t = 0; t < dimension; t++, to += lanes) out[to] = source[from++]!
  }
}

/** Rows of X that the distance kernels take at a time. */
export const ROW_GROUP = 4

/**
 * Lays out `count` rows of `source` (row-major, `dimension` wide, from element `start` on) at `out[outStart]` as the
 * distance kernels take X: groups of ROW_GROUP rows column after column, what is left row after row.
 */
export function packRows(
  source: Float64Array,
  start: number,
  count: number,
  dimension: number,
  out: Float64Array,
  outStart: number,
): void {
  let from = start
  let to = outStart
  for (let left = count; left >= ROW_GROUP; left -= ROW_GROUP) {
    const second = from + dimension
    const third = second + dimension
    const fourth = third + dimension
    for (let t = 0; t < dimension; t++, to += ROW_GROUP) {
      out[to] = source[from + t]!
      out[to + 1] = source[second + t]!
      out[to + 2] = source[third + t]!
      out[to + 3] = source[fourth + t]!
    }
    from = fourth + dimension
  }
  const end = outStart + count * dimension
  while (to < end) out[to++] = source[from++]!
}

/** As `packRows`, each number as `toFloat32` has it. */
export function packRowsFloat32(
  source: Float64Array,
  start: number,
  count: number,
  dimension: number,
  out: Float32Array,
  outStart: number,
): void {
  let from = start
  let to = outStart
  for (let left = count; left >= ROW_GROUP; left -= ROW_GROUP) {
    const second = from + dimension
    const third = second + dimension
    const fourth = third + dimension
    for (let t = 0; t < dimension; t++, to += ROW_GROUP) {
      const a = source[from + t]!
      const b = source[second + t]!
      const c = source[third + t]!
      const d = source[fourth + t]!
      out[to] = Math.abs(a) <= LARGEST_FLOAT32 ? a : toFloat32(a)
      out[to + 1] = Math.abs(b) <= LARGEST_FLOAT32 ? b : toFloat32(b)
      out[to + 2] = Math.abs(c) <= LARGEST_FLOAT32 ? c : toFloat32(c)
      out[to + 3] = Math.abs(d) <= LARGEST_FLOAT32 ? d : toFloat32(d)
    }
    from = fourth + dimension
  }
  toFloat32Into(source, from, count * dimension - (to - outStart), out, to)
}

/**
 * EmbeddingPlan: where the one-call kernels of embedding/embedding.ts find what they work on. Its fields and their
 * order are those of the class Plan there; addresses are bytes, the rest whole numbers but for the factor.
 */

/** The 32-bit words after the factor. */
const WORDS = [
  'x',
  'exact',
  'landmarks',
  'panels',
  'dimension',
  'stride',
  'distances',
  'kernel',
  'projection',
  'm',
  'width',
  'z',
  'weights',
  'nearest',
  'means',
  'factors',
  'logNormalisers',
  'groups',
  'd',
  'k',
  'differences',
  'terms',
  'largest',
  'ends',
  'sums',
] as const

/** Sizes and addresses of one embedding, as the SIMD kernel reads them. */
export type EmbeddingPlan = Readonly<Record<(typeof WORDS)[number], number>> & {
  /** −1/h². */
  readonly factor: number
}

/** Numbers of float64 that a plan takes. */
export const EMBEDDING_PLAN_NUMBERS = 1 + Math.ceil(WORDS.length / 2)

/** Writes a plan to the kernels' memory at a byte address, which is a multiple of 8. */
export function writeEmbeddingPlan(plan: EmbeddingPlan, { f64, i32 }: KernelMemory, address: number): void {
  f64[address / 8] = plan.factor
  WORDS.forEach((word, i) => {
    i32[address / 4 + 2 + i] = plan[word]
  })
}

/** All pointers are bytes, and multiples of 16; what the functions do, assembly/ says. */
export interface KernelFunctions {
  squaredDistancesF64(
    x: number,
    rows: number,
    panels: number,
    panelCount: number,
    dimension: number,
    out: number,
    stride: number,
  ): void
  squaredDistancesF32(
    x: number,
    rows: number,
    panels: number,
    panelCount: number,
    dimension: number,
    out: number,
    stride: number,
  ): void
  embedF64(plan: number, rows: number, nearest: number): void
  embedF32(plan: number, rows: number, nearest: number): void
  embedAndSumF64(plan: number, rows: number, nearest: number): void
  embedAndSumF32(plan: number, rows: number, nearest: number): void
  expScaledF64(values: number, count: number, factor: number): void
  expScaledF32(values: number, count: number, factor: number, out: number): void
  roundToF32(values: number, count: number): void
  projectF64(k: number, rows: number, stride: number, p: number, m: number, width: number, out: number): void
  weightedSumsF64(k: number, rows: number, stride: number, weights: number, count: number, sums: number): void
  nearestF64(values: number, rows: number, stride: number, count: number, weights: number, out: number): void
  nearestF32(
    values: number,
    rows: number,
    stride: number,
    count: number,
    x: number,
    panels: number,
    dimension: number,
    weights: number,
    out: number,
  ): void
  mixtureTermsF64(
    z: number,
    rows: number,
    zWidth: number,
    means: number,
    factors: number,
    logNormalisers: number,
    groups: number,
    d: number,
    differences: number,
    terms: number,
  ): void
  keepTermsF64(
    terms: number,
    rows: number,
    width: number,
    count: number,
    largest: number,
    ends: number,
  ): number
  sumTermsF64(values: number, rows: number, ends: number, sums: number): void
}

/** The whole memory, as numbers; other objects after the memory has grown. */
export interface KernelMemory {
  readonly f64: Float64Array
  readonly f32: Float32Array
  readonly i32: Int32Array
}

/** A user of the kernels' memory. */
export interface SimdProgram {
  /** Bytes of memory that it uses, from 0. */
  readonly bytes: number
  /** Writes its constants. */
  load(memory: KernelMemory): void
}

/** The SIMD kernels and their memory. */
export interface SimdKernels {
  readonly run: KernelFunctions
  /** The memory with the program's constants in it, or null when it cannot be made large enough. */
  enter(program: SimdProgram): KernelMemory | null
}

/** What lies below belongs to the kernels; assembly/module.json makes sure that it is enough. */
export const RESERVED_BYTES = 1024

/** Programs that need more take the typed-array path. */
export const MAXIMUM_BYTES = 256 * 1024 * 1024

const PAGE_BYTES = 65536

interface WasmMemory {
  readonly buffer: ArrayBuffer
  grow(pages: number): number
}

/** The used part of the global WebAssembly, which not every environment has. */
interface WasmGlobal {
  validate(bytes: Uint8Array): boolean
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object) => { readonly exports: unknown }
}

/** undefined: not tried yet. */
let shared: SimdKernels | null | undefined

/** The kernels, compiled at the first call; null where there are none. */
export function simdKernels(): SimdKernels | null {
  if (shared === undefined) shared = compileKernels()
  return shared
}

function compileKernels(): SimdKernels | null {
  const wasm = (globalThis as { readonly WebAssembly?: WasmGlobal }).WebAssembly
  try {
    if (wasm === undefined) return null
    const bytes = decodeBase64(MODULE_BASE64)
    return wasm.validate(bytes) ? instantiate(wasm, new wasm.Module(bytes)) : null
  } catch {
    return null // refused by a policy, for its size or for want of memory: not an error, only slower
  }
}

function instantiate(wasm: WasmGlobal, module: object): SimdKernels {
  const exports = new wasm.Instance(module).exports as KernelFunctions & { readonly memory: WasmMemory }
  const { memory } = exports
  let views: KernelMemory = viewsOf(memory)
  let current: SimdProgram | undefined
  let refusedBytes = MAXIMUM_BYTES + 1
  return {
    run: exports,
    enter(program) {
      if (program === current) return views
      const { bytes } = program
      const missing = bytes - memory.buffer.byteLength
      if (missing > 0) {
        if (bytes >= refusedBytes) return null
        current = undefined
        try {
          memory.grow(Math.ceil(missing / PAGE_BYTES))
        } catch {
          refusedBytes = bytes
          return null
        }
        views = viewsOf(memory)
      }
      current = undefined
      program.load(views)
      current = program
      return views
    },
  }
}

function viewsOf({ buffer }: WasmMemory): KernelMemory {
  return {
    f64: new Float64Array(buffer),
    f32: new Float32Array(buffer),
    i32: new Int32Array(buffer),
  }
}

/**
 * Places of a SIMD program's arrays, each at a multiple of 16 bytes. An address is in bytes; a number of float64
 * stands at address / 8 of the memory's view.
 */

export class MemoryLayout {
  #bytes = RESERVED_BYTES

  /** Bytes up to the end of the last array. */
  get bytes(): number {
    return this.#bytes
  }

  /** Address of `count` numbers of float64. */
  float64(count: number): number {
    return this.#take(8 * count)
  }

  /** Address of `count` numbers of float32. */
  float32(count: number): number {
    return this.#take(4 * count)
  }

  #take(bytes: number): number {
    const address = this.#bytes
    this.#bytes += 16 * Math.ceil(bytes / 16)
    return address
  }
}

/**
 * DistanceColumns: squared distances, or what follows from them, of a few rows at a time to rows that stay the same
 * through thousands of calls. On SIMD kernels those are laid out once, and the values are left where the kernels put
 * them. Without SIMD they are in a block of typed arrays, with the same bits.
 */

export interface DistanceColumns {
  /**
   * Of the last call: the value of row r and column first + c is at offset + r · stride + c. Valid until the next use of
   * any kernel.
   */
  values: Float64Array
  offset: number
  stride: number
  /**
   * For `count` rows from element `start` of `rows` on, and `width` columns from `first` on, a multiple of 4; at most
   * the shape's rows and width.
   */
  compute(rows: Float64Array, start: number, count: number, first: number, width: number): void
}

/** Sizes of `DistanceColumns`. */
export interface DistanceColumnsShape {
  /** Columns in all, and numbers in each. */
  readonly columns: number
  readonly dimension: number
  /** Most rows and columns of one call. */
  readonly rows: number
  readonly width: number
}

/** How the values of `DistanceColumns` are computed on each path. */
export interface DistanceColumnsSteps {
  /** Whether SIMD kernels may be used. */
  readonly simd: boolean
  /** All of it: writes count × width values to `out`; `vectorsStart` is the first element of the first column. */
  typed(
    rows: Float64Array,
    start: number,
    count: number,
    vectorsStart: number,
    width: number,
    out: Float64Array,
  ): void
  /** What follows the squared distances, in place, for `length` numbers at a byte address. */
  finish?(run: KernelFunctions, address: number, length: number): void
}

/** Columns are the rows of `vectors`, read now and, without SIMD, at every call. */
export function createDistanceColumns(
  vectors: Float64Array,
  { columns, dimension, rows: most, width: widest }: DistanceColumnsShape,
  { simd, typed, finish }: DistanceColumnsSteps,
): DistanceColumns {
  const kernels = simd ? simdKernels() : null
  const layout = new MemoryLayout()
  const xAt = layout.float64(most * dimension)
  const valuesAt = layout.float64(most * PANEL_LANES_F64 * panelCount(widest, PANEL_LANES_F64))
  const panelsAt = layout.float64(panelCount(columns, PANEL_LANES_F64) * PANEL_LANES_F64 * dimension)
  const program: SimdProgram = {
    bytes: layout.bytes,
    load: ({ f64 }) => packPanels(vectors, 0, columns, dimension, PANEL_LANES_F64, f64, panelsAt / 8),
  }
  let block = kernels === null ? new Float64Array(most * widest) : undefined
  return {
    values: new Float64Array(0),
    offset: 0,
    stride: 0,
    compute(rows, start, count, first, width) {
      const memory = kernels === null ? null : kernels.enter(program)
      if (kernels === null || memory === null) {
        block ??= new Float64Array(most * widest)
        typed(rows, start, count, first * dimension, width, block)
        this.values = block
        this.offset = 0
        this.stride = width
        return
      }
      const { run } = kernels
      packRows(rows, start, count, dimension, memory.f64, xAt / 8)
      const panels = panelCount(width, PANEL_LANES_F64)
      const stride = panels * PANEL_LANES_F64
      const y = panelsAt + 8 * first * dimension
      run.squaredDistancesF64(xAt, count, y, panels, dimension, valuesAt, stride)
      finish?.(run, valuesAt, count * stride)
      this.values = memory.f64
      this.offset = valuesAt / 8
      this.stride = stride
    },
  }
}

/**
 * MemoryLayout: where a SIMD program's arrays stand, one after the other, each at a multiple of 16 bytes.
 *
 * An address is in bytes, as the kernels want it; a number of float64 stands at address / 8 of the memory's view.
 */
import { RESERVED_BYTES } from './simd-kernels.js'

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

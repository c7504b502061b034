/**
 * Writing .npy, byte for byte as numpy.save does it: version 1.0, float64 in C order, the header padded with
 * spaces so that the numbers start at a multiple of 64 bytes.
 */
import { writeLittleEndian } from '../little-endian.js'
import { type Matrix, matrixOf } from '../matrix.js'

/** Throws ArgumentError when the matrix's sizes and data do not fit. */
export function encodeNpy(matrix: Matrix): Uint8Array<ArrayBuffer> {
  const { rows, cols, data } = matrixOf(matrix.rows, matrix.cols, matrix.data)
  const out = new Uint8Array(NPY_HEADER_BYTES + data.byteLength)
  out.set(encodeNpyHeader(rows, cols))
  writeLittleEndian(data, out, NPY_HEADER_BYTES)
  return out
}

/** Length of the header of every two-dimensional float64 file: shapes fit its first 128 bytes. */
export const NPY_HEADER_BYTES = 128

/** The header alone, for a writer that sends the rows piece by piece. */
export function encodeNpyHeader(rows: number, cols: number): Uint8Array<ArrayBuffer> {
  const text = `{'descr': '<f8', 'fortran_order': False, 'shape': (${rows}, ${cols}), }`
  const out = new Uint8Array(NPY_HEADER_BYTES).fill(0x20)
  out.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, NPY_HEADER_BYTES - 10, 0])
  for (let i = 0; i < text.length; i++) out[10 + i] = text.charCodeAt(i)
  out[NPY_HEADER_BYTES - 1] = 0x0a
  return out
}

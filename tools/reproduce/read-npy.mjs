/** Reads a C-order .npy file of float64, float32 or 8/32/64-bit integers as a Matrix; vectors become one column. */
import { readFileSync } from 'node:fs'

export function readNpy(path) {
  const file = readFileSync(path)
  const headerLength = file[6] === 1 ? file.readUInt16LE(8) : file.readUInt32LE(8)
  const start = (file[6] === 1 ? 10 : 12) + headerLength
  const header = file.toString('latin1', 10, start)
  const descr = /'descr': *'([^']+)'/.exec(header)?.[1]
  if (/'fortran_order': *True/.test(header)) throw new Error(`${path}: Fortran order`)
  const shape = /'shape': *\(([^)]*)\)/
    .exec(header)[1]
    .split(',')
    .filter((s) => s.trim())
    .map(Number)
  const bytes = file.buffer.slice(file.byteOffset + start, file.byteOffset + file.length)
  const types = {
    '<f8': Float64Array,
    '<f4': Float32Array,
    '<i8': BigInt64Array,
    '<i4': Int32Array,
    '|i1': Int8Array,
    '|u1': Uint8Array,
    '|b1': Uint8Array,
  }
  const Type = types[descr]
  if (Type === undefined) throw new Error(`${path}: dtype ${descr}`)
  const [rows, cols = 1] = shape
  return { rows, cols, data: Float64Array.from(new Type(bytes), Number) }
}

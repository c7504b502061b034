/**
 * .npy of version 1.0 as numpy's format document has it, read and written without any code of the project:
 * magic, two bytes of length, a Python dictionary padded to 64 bytes, the array.
 */
export interface Rows {
  rows: number
  cols: number
  data: number[]
}

export function readNpy(bytes: Buffer): Rows {
  if (bytes.toString('latin1', 0, 8) !== '\x93NUMPY\x01\x00') throw new Error('no .npy of version 1.0')
  const end = 10 + bytes.readUInt16LE(8)
  const header = bytes.toString('latin1', 10, end)
  const shape = /'shape': \((\d+), (\d+)\)/.exec(header)
  if (end % 64 !== 0 || shape === null || !/'descr': '<f8', 'fortran_order': False/.test(header)) {
    throw new Error(`not rows of float64 in C order: ${header}`)
  }
  const data = Array.from({ length: (bytes.length - end) / 8 }, (_, i) => bytes.readDoubleLE(end + 8 * i))
  return { rows: Number(shape[1]), cols: Number(shape[2]), data }
}

export function npyFile(descr: string, shape: string, data: Uint8Array): Buffer {
  const header = `{'descr': ${descr}, 'fortran_order': False, 'shape': ${shape}, }`
  const padded = `${header.padEnd(64 * Math.ceil((header.length + 11) / 64) - 11)}\n`
  const length = Buffer.alloc(2)
  length.writeUInt16LE(padded.length)
  return Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), length, Buffer.from(padded), data])
}

export function float64(values: readonly number[]): Uint8Array {
  const bytes = Buffer.alloc(8 * values.length)
  for (const [i, value] of values.entries()) bytes.writeDoubleLE(value, 8 * i)
  return bytes
}

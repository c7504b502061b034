/** A .npy file as a Matrix, read by core; vectors become one column. */
import { readFileSync } from 'node:fs'
import { decodeNpy } from '@oddflow/core'

export function readNpy(path) {
  const { shape, data } = decodeNpy(readFileSync(path))
  const [rows, cols = 1] = shape
  return { rows, cols, data }
}

/** Rows and labels from .npy files, checked. */
import { readFileSync } from 'node:fs'
import { checkFinite, DataError, decodeNpy, decodeNpyMatrix, type Matrix, matrixOf } from '@oddflow/core'
import { inFile } from '../errors.js'

/** Throws an error that begins with the path. */
export function readRows(path: string, dimension: number): Matrix {
  return inFile(path, () => {
    const rows = decodeNpyMatrix(readFileSync(path))
    if (rows.rows === 0 || rows.cols !== dimension) {
      throw new DataError(`expected rows of ${dimension} columns, found ${rows.rows} × ${rows.cols}`)
    }
    checkFinite(rows, 'rows')
    return rows
  })
}

/** Throws DataError that begins with the path when `labels` are of one class alone. */
export function requireBothClasses(labels: Matrix, path: string): void {
  for (const [label, kind] of ['normal', 'novel'].entries()) {
    if (!labels.data.includes(label)) {
      throw new DataError(`${path}: expected normal rows (0) and novel ones (1), found no ${kind} one`)
    }
  }
}

/** One column of 0 (normal) and 1 (novel), as many as there are rows. */
export function readLabels(path: string, rows: number): Matrix {
  return inFile(path, () => {
    const { shape, data } = decodeNpy(readFileSync(path))
    if (shape.length !== 1 || shape[0] !== rows) {
      throw new DataError(`expected ${rows} labels, one a row, found shape (${shape.join(', ')})`)
    }
    const odd = data.find((label) => label !== 0 && label !== 1)
    if (odd !== undefined) throw new DataError(`expected labels 0 (normal) and 1 (novel), found ${odd}`)
    return matrixOf(rows, 1, data)
  })
}

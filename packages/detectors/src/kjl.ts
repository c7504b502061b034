/**
 * KJL: a random projection of the kernel's feature space (paper, equation for φ′ under "KJL Sketching";
 * Kpotufe and Sriperumbudur, "Gaussian sketching yields a J-L lemma in RKHS").
 *
 * P = Z·K with Z (d × m) of standard normal entries and K the landmarks' gram matrix (m × m). Centred, K loses
 * its column means first, P = Z·(K − column means)ᵀ: each row of Z·K less its own mean.
 */
import { createMatrix, type Matrix, type Rng } from '@oddflow/core'
import { multiply } from '@oddflow/linalg'

/** P, d × m. `gram` is symmetric, m × m; `z` is d × m. */
export function kjlProjection(gram: Matrix, z: Matrix, centre: boolean): Matrix {
  return multiply(z, centre ? centredTranspose(gram) : gram)
}

/** Z: d × m standard normal deviates, drawn row by row. */
export function drawSketch(d: number, m: number, rng: Rng): Matrix {
  const z = createMatrix(d, m)
  for (let i = 0; i < z.data.length; i++) z.data[i] = rng.nextNormal()
  return z
}

/** (K − column means)ᵀ; K is symmetric, so row i of the result is row i of K less that row's mean. */
function centredTranspose(gram: Matrix): Matrix {
  const m = gram.rows
  const out = createMatrix(m, m)
  const mean = new Float64Array(m)
  for (let i = 0; i < m; i++) for (let j = 0; j < m; j++) mean[j]! += gram.data[i * m + j]!
  for (let j = 0; j < m; j++) mean[j] = mean[j]! / m
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < m; j++) out.data[j * m + i] = gram.data[i * m + j]! - mean[j]!
  }
  return out
}

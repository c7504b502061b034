/**
 * The models that all sides score, and files of them for the sides that are not ours: .npy arrays for Python, one run
 * of little-endian float64 for C (the order stands in peers/scores.c).
 *
 * n = 5,000 training rows, m = 100, d = 5, k = 20, h the 0.3-quantile of pair distances, nu = 0.5.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRng, encodeNpy, log, type Matrix, matrixOf } from '@oddflow/core'
import { checkParameters, type DetectorModel, fitDetector } from '@oddflow/detectors'

/** Rows that are scored. */
export const SCORED_ROWS = 1000

const KJL = { detector: 'oc-kjl', k: 20, supportGuard: false } as const
const SVM = { detector: 'ocsvm' } as const

type Precision = 'f64' | 'f32'

export interface SpeedModels {
  readonly train: Matrix
  readonly rows: Matrix
  readonly kjl: Readonly<Record<Precision, DetectorModel>>
  readonly guardedKjl: Readonly<Record<Precision, DetectorModel>>
  readonly svm: Readonly<Record<Precision, DetectorModel>>
  /** m and d of the embedding, k of the mixture, support vectors. */
  readonly shape: {
    readonly m: number
    readonly d: number
    readonly k: number
    readonly supportVectors: number
  }
  /** Writes them into an empty folder. */
  writeTo(folder: string): void
}

export function makeSpeedModels(train: Matrix): SpeedModels {
  const rows = matrixOf(SCORED_ROWS, train.cols, train.data.slice(0, SCORED_ROWS * train.cols))
  const rng = (): ReturnType<typeof createRng> => createRng(1)
  const learnKjl = (supportGuard: boolean, precision: Precision) =>
    fitDetector(train, checkParameters({ ...KJL, supportGuard, precision }), rng())
  const learnSvm = (precision: Precision) => fitDetector(train, checkParameters({ ...SVM, precision }), rng())
  const kjl = { f64: learnKjl(false, 'f64'), f32: learnKjl(false, 'f32') }
  const svm = { f64: learnSvm('f64'), f32: learnSvm('f32') }
  const { embedding, mixture } = kjl.f64
  const { supportVectors, dualCoefficients, offset } = svm.f64.svm
  const { landmarks, projection, bandwidth } = embedding
  const { weights, means, precisionCholesky } = mixture
  const [m, d, k] = [landmarks.rows, projection.rows, weights.length]
  return {
    train,
    rows,
    kjl,
    guardedKjl: { f64: learnKjl(true, 'f64'), f32: learnKjl(true, 'f32') },
    svm,
    shape: { m, d, k, supportVectors: supportVectors.rows },
    writeTo(folder) {
      const column = (data: Float64Array): Matrix => matrixOf(data.length, 1, data)
      const arrays = {
        landmarks,
        projection,
        weights: column(weights),
        means,
        factors: column(precisionCholesky),
        vectors: supportVectors,
        alpha: column(dualCoefficients),
      }
      for (const [name, value] of Object.entries({ ...arrays, rows, train })) {
        writeFileSync(join(folder, `${name}.npy`), encodeNpy(value))
      }
      writeFileSync(
        join(folder, 'model.json'),
        JSON.stringify({ arrays: Object.keys(arrays), bandwidth, offset }),
      )
      const normalisers = Array.from(weights, (weight, j) => {
        let sum = log(weight) - 0.5 * d * log(2 * Math.PI)
        for (let i = 0; i < d; i++) sum += log(precisionCholesky[(j * d + i) * d + i]!)
        return sum
      })
      const triangles: number[] = []
      for (let j = 0; j < k; j++) {
        for (let i = 0; i < d; i++) {
          for (let t = 0; t <= i; t++) triangles.push(precisionCholesky[(j * d + i) * d + t]!)
        }
      }
      const numbers = [train.cols, m, d, k, bandwidth, ...landmarks.data, ...projection.data]
      numbers.push(...normalisers, ...means.data, ...triangles)
      numbers.push(supportVectors.rows, offset, ...supportVectors.data, ...dualCoefficients)
      writeFileSync(join(folder, 'model.bin'), Float64Array.from(numbers))
      writeFileSync(join(folder, 'rows.bin'), Float64Array.of(SCORED_ROWS, ...rows.data))
    },
  }
}

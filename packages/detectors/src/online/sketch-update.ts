/**
 * New landmarks for an embedding: the paper source's "K-JL with growing size U" and "with fixed size U".
 *
 * U is the projection Pᵀ = K·R, K the landmarks' gram matrix and R the random matrix (here Z = Rᵀ, d × m).
 *
 *     grow      K' = [K, k(X, X'); k(X', X), k(X', X')]     R' = [R; as many new random rows]     U' = K'R'
 *     replace   landmarks drawn at random give way to rows of X'; K' = k(X', X'), R is kept, U' = K'R
 *
 * Only the entries of K that have a new landmark in them are computed. Nyström has no R; its P' comes from the
 * eigenvectors of K'. The bandwidth is the caller's: with another one all of K is new.
 *
 * Every coordinate of the embedding changes with U, so a mixture has to be carried over (carry-mixture.ts).
 */
import { concatRows, createMatrix, type Matrix, type Rng, sampleWithoutReplacement } from '@oddflow/core'
import { gaussianKernel } from '@oddflow/linalg'
import { drawSketch, kjlProjection } from '../kjl.js'
import type { EmbeddingModel } from '../model.js'
import { nystromProjection } from '../nystrom.js'
import type { EmbeddingParameters } from '../parameters.js'

/** An embedding with what a sketch update needs of it. */
export interface Sketch {
  readonly embedding: EmbeddingModel
  /** K, m × m. */
  readonly gram: Matrix
  /** Rᵀ, d × m; null for Nyström. */
  readonly random: Matrix | null
}

export interface SketchUpdate {
  readonly sketch: Sketch
  /** For each landmark, the number that it had before, or −1 for a new one. */
  readonly origins: Int32Array
}

/**
 * The embedding's sketch. `random` is that of its fit where it is known; where P is not Z·K for it, or nothing is known,
 * another is drawn, which takes effect with the first update.
 */
export function createSketch(
  embedding: EmbeddingModel,
  parameters: EmbeddingParameters,
  random: Matrix | null,
  rng: Rng,
): Sketch {
  const { landmarks, projection, bandwidth } = embedding
  const gram = gaussianKernel(landmarks, landmarks, bandwidth)
  if (parameters.kind === 'nystrom') return { embedding, gram, random: null }
  return { embedding, gram, random: random ?? drawSketch(projection.rows, landmarks.rows, rng) }
}

/** Whether P is what KJL makes of this random matrix, bit for bit. */
export function isRandomMatrixOf(
  embedding: EmbeddingModel,
  parameters: EmbeddingParameters,
  random: Matrix,
): boolean {
  const { landmarks, projection, bandwidth } = embedding
  if (parameters.kind !== 'kjl' || random.cols !== landmarks.rows) return false
  const made = kjlProjection(gaussianKernel(landmarks, landmarks, bandwidth), random, parameters.centre)
  return made.rows === projection.rows && made.data.every((value, i) => value === projection.data[i])
}

/** `rows` (g × D, scaled) become landmarks beside those that are there. */
export function growSketch(
  sketch: Sketch,
  parameters: EmbeddingParameters,
  rows: Matrix,
  d: number,
  rng: Rng,
): SketchUpdate {
  const { landmarks } = sketch.embedding
  const m = landmarks.rows
  const origins = Int32Array.from({ length: m + rows.rows }, (_, j) => (j < m ? j : -1))
  let random: Matrix | null = null
  if (sketch.random !== null) {
    const more = drawSketch(sketch.random.rows, rows.rows, rng)
    random = createMatrix(sketch.random.rows, m + rows.rows)
    for (let r = 0; r < random.rows; r++) {
      random.data.set(sketch.random.data.subarray(r * m, (r + 1) * m), r * random.cols)
      random.data.set(more.data.subarray(r * rows.rows, (r + 1) * rows.rows), r * random.cols + m)
    }
  }
  return remade(sketch, parameters, concatRows([landmarks, rows]), origins, random, d)
}

/** `rows` (g × D, scaled, g at most m) take the places of landmarks drawn at random. */
export function replaceLandmarks(
  sketch: Sketch,
  parameters: EmbeddingParameters,
  rows: Matrix,
  d: number,
  rng: Rng,
): SketchUpdate {
  const { landmarks } = sketch.embedding
  const { cols } = landmarks
  const changed: Matrix = { ...landmarks, data: landmarks.data.slice() }
  const origins = Int32Array.from({ length: landmarks.rows }, (_, j) => j)
  const places = sampleWithoutReplacement(landmarks.rows, rows.rows, rng)
  places.forEach((place, i) => {
    changed.data.set(rows.data.subarray(i * cols, (i + 1) * cols), place * cols)
    origins[place] = -1
  })
  return remade(sketch, parameters, changed, origins, sketch.random, d)
}

/** The same landmarks under another bandwidth. */
export function withBandwidth(
  { embedding, random }: Sketch,
  parameters: EmbeddingParameters,
  bandwidth: number,
  d: number,
): Sketch {
  const gram = gaussianKernel(embedding.landmarks, embedding.landmarks, bandwidth)
  return project({ ...embedding, bandwidth }, parameters, gram, random, d)
}

function remade(
  sketch: Sketch,
  parameters: EmbeddingParameters,
  landmarks: Matrix,
  origins: Int32Array,
  random: Matrix | null,
  d: number,
): SketchUpdate {
  const { gram: old, embedding } = sketch
  const m = landmarks.rows
  const fresh = Array.from(origins.keys()).filter((j) => origins[j] === -1)
  const { cols } = landmarks
  const rows = createMatrix(fresh.length, cols)
  fresh.forEach((j, i) => {
    rows.data.set(landmarks.data.subarray(j * cols, (j + 1) * cols), i * cols)
  })
  const block = gaussianKernel(rows, landmarks, embedding.bandwidth)
  const gram = createMatrix(m, m)
  for (let i = 0; i < m; i++) {
    if (origins[i] === -1) continue
    for (let j = 0; j < m; j++) {
      if (origins[j] !== -1) gram.data[i * m + j] = old.data[origins[i]! * old.cols + origins[j]!]!
    }
  }
  fresh.forEach((place, i) => {
    for (let j = 0; j < m; j++) {
      const value = block.data[i * m + j]!
      gram.data[place * m + j] = value
      gram.data[j * m + place] = value
    }
  })
  return { sketch: project({ ...embedding, landmarks }, parameters, gram, random, d), origins }
}

function project(
  embedding: EmbeddingModel,
  parameters: EmbeddingParameters,
  gram: Matrix,
  random: Matrix | null,
  d: number,
): Sketch {
  const projection =
    parameters.kind === 'kjl' && random !== null
      ? kjlProjection(gram, random, parameters.centre)
      : nystromProjection(gram, d)
  return { embedding: { ...embedding, projection }, gram, random }
}

/**
 * Cluster in Cluster, the simulated data of the paper's figure on embeddings: two classes of which no straight line can
 * part one from the other. The inner class is normal around the origin with standard deviation 1; the outer is a ring of
 * radius 5 whose thickness has standard deviation 0.5. (The paper gives n = 5,000 and no more.)
 */

import { existsSync } from 'node:fs'
import { createMatrix, createRng, type Matrix, type Rng, takeRows } from '@oddflow/core'
import {
  checkParameters,
  createScoreWorkspace,
  type EmbeddedMixtureModel,
  embedRows,
  fitDetector,
  mixtureCovariances,
  scoreSamples,
} from '@oddflow/detectors'
import { z } from 'zod'
import { loadRepeat } from './datasets/load-repeat.js'
import type { Manifest } from './datasets/manifest.js'
import { writeFileWhole } from './output.js'
import { readShape } from './read-shapes.js'
import { measureScores, UNTUNED_QUANTILE } from './run/trial-model.js'
import { count, digest, list, positive, share } from './shapes.js'

/**
 * How far one straight line can part two classes in the plane: the largest share of points on the right side of the
 * best line of 180 directions, for any offset. Half is what a line that parts nothing gets.
 */

const DIRECTIONS = 180

/** `points` n × 2, `isOuter` of length n. */
export function bestStraightLine(points: Matrix, isOuter: Uint8Array): number {
  const n = points.rows
  const outer = isOuter.reduce((sum, value) => sum + value, 0)
  let best = 0
  for (let direction = 0; direction < DIRECTIONS; direction++) {
    const angle = (direction / DIRECTIONS) * Math.PI
    const [a, b] = [Math.cos(angle), Math.sin(angle)]
    const along = Float64Array.from(
      { length: n },
      (_, i) => a * points.data[2 * i]! + b * points.data[2 * i + 1]!,
    )
    const order = Uint32Array.from({ length: n }, (_, i) => i).sort((p, q) => along[p]! - along[q]!)
    let outerBelow = 0
    order.forEach((row, i) => {
      outerBelow += isOuter[row]!
      // the line lies between two different places alone
      if (i + 1 < n && along[order[i + 1]!] === along[row]) return
      const right = outerBelow + (n - outer) - (i + 1 - outerBelow)
      best = Math.max(best, right, n - right)
    })
  }
  return best / n
}

/** What the pictures of embeddings are drawn from: one JSON file (`embeddings.json`), checked when it is read. */

const point = z.tuple([z.number(), z.number()])
const points = z.array(point).max(100_000)
/** Of a Gaussian in the plane: covariance as xx, xy, yy. */
const component = z.strictObject({
  weight: share,
  mean: point,
  covariance: z.tuple([z.number().min(0), z.number(), z.number().min(0)]),
})
const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/)

const shape = z.strictObject({
  format: z.literal(1),
  seed: count,
  clusterInCluster: z.strictObject({
    rows: positive,
    landmarks: positive,
    bandwidth: z.number().positive(),
    /** Best straight line in the plane of the data. */
    straightLineBefore: share,
    panels: list({
      what: z.enum(['data', 'kjl', 'nystrom']),
      inner: points,
      outer: points,
    }),
    /** Best straight line after an embedding, a draw of landmarks and sketch each. */
    straightLineAfter: z.strictObject({
      kjl: z.array(share).min(1).max(1000),
      nystrom: z.array(share).min(1).max(1000),
    }),
  }),
  mixtures: list({
    dataset: name,
    dataSha256: digest,
    detector: name,
    trainingRows: positive,
    bandwidth: z.number().positive(),
    normal: points,
    novel: points,
    components: z.array(component).max(100_000),
    /** Of the detector with these two dimensions, over all test rows. */
    auc: share,
  }),
})

export type EmbeddingReading = z.infer<typeof shape>
export type MixturePicture = EmbeddingReading['mixtures'][number]
export type Point = z.infer<typeof point>

/** null when there is no file. Throws an error that begins with the path. */
export function readEmbeddings(path: string): EmbeddingReading | null {
  if (!existsSync(path)) return null
  return readShape(shape, path, 'embeddings')
}

export function writeEmbeddings(path: string, reading: EmbeddingReading): void {
  writeFileWhole(path, `${JSON.stringify(shape.parse(reading))}\n`)
}

const RING_RADIUS = 5
const RING_DEVIATION = 0.5

interface ClusterInCluster {
  /** n × 2. */
  readonly rows: Matrix
  /** 1 = the ring; every other row. */
  readonly isOuter: Uint8Array
}

export function drawClusterInCluster(count: number, rng: Rng): ClusterInCluster {
  const rows = createMatrix(count, 2)
  const isOuter = new Uint8Array(count)
  for (let i = 0; i < count; i++) {
    // the direction of a pair of normal deviates is uniform, which needs no sine or cosine
    const x = rng.nextNormal()
    const y = rng.nextNormal()
    isOuter[i] = i % 2
    const stretch =
      isOuter[i] === 1 ? (RING_RADIUS + RING_DEVIATION * rng.nextNormal()) / Math.sqrt(x * x + y * y) : 1
    rows.data[2 * i] = stretch * x
    rows.data[2 * i + 1] = stretch * y
  }
  return { rows, isOuter }
}

/**
 * The two pictures that the paper draws of embeddings, measured: Cluster in Cluster before and after KJL and Nyström
 * (n = 5,000, m = 200, d = 2), and the mixture over embedded normal rows. A picture shows some of the points, the
 * first so many, because all of them would hide each other; what is counted is counted over all.
 */

const ROWS = 5000
const LANDMARKS = 200
const DIMENSIONS = 2
const SHOWN = 400

export function measureClusterInCluster(seed: number, draws: number): EmbeddingReading['clusterInCluster'] {
  const { rows, isOuter } = drawClusterInCluster(ROWS, createRng(seed).fork('cluster in cluster'))
  const embedded = (detector: 'oc-kjl-qs' | 'oc-nystrom-qs', draw: number): EmbeddedMixtureModel =>
    fitEmbedded(detector, rows, LANDMARKS, createRng(seed).fork(`draw ${draw}`))
  const first = embedded('oc-kjl-qs', 0)
  const after = (detector: 'oc-kjl-qs' | 'oc-nystrom-qs'): { points: Matrix; lines: number[] } => {
    const all = Array.from({ length: draws }, (_, draw) =>
      embedRows(embedded(detector, draw).embedding, rows),
    )
    return { points: all[0]!, lines: all.map((points) => rounded(bestStraightLine(points, isOuter))) }
  }
  const kjl = after('oc-kjl-qs')
  const nystrom = after('oc-nystrom-qs')
  const panel = (
    what: 'data' | 'kjl' | 'nystrom',
    points: Matrix,
  ): EmbeddingReading['clusterInCluster']['panels'][number] => {
    const of = (outer: number): number[] => [...isOuter.keys()].filter((i) => isOuter[i] === outer)
    return { what, inner: shown(points, of(0)), outer: shown(points, of(1)) }
  }
  return {
    rows: ROWS,
    landmarks: LANDMARKS,
    bandwidth: rounded(first.embedding.bandwidth),
    straightLineBefore: rounded(bestStraightLine(rows, isOuter)),
    panels: [panel('data', rows), panel('kjl', kjl.points), panel('nystrom', nystrom.points)],
    straightLineAfter: { kjl: kjl.lines, nystrom: nystrom.lines },
  }
}

/** The first repeat of a data set. Throws an error that begins with a file's name. */
export function measureMixture(
  manifest: Manifest,
  detector: 'oc-kjl-qs' | 'oc-nystrom-qs',
  data: string,
  seed: number,
): MixturePicture {
  const { train, tests, dataSha256 } = loadRepeat(manifest, data, 0, seed)
  const { rows, isNovel } = tests[0]!.data
  const model = fitEmbedded(detector, train, null, createRng(seed).fork('repeat 0'))
  const scores = scoreSamples(model, rows, new Float64Array(rows.rows), createScoreWorkspace(model))
  const novel = [...isNovel.data.keys()].filter((i) => isNovel.data[i] === 1)
  const { mixture } = model
  const covariances = mixtureCovariances(mixture)
  return {
    dataset: manifest.name,
    dataSha256,
    detector,
    trainingRows: train.rows,
    bandwidth: model.embedding.bandwidth,
    normal: shown(embedRows(model.embedding, train), [...Array(train.rows).keys()]),
    novel: shown(embedRows(model.embedding, takeRows(rows, novel)), [...novel.keys()]),
    components: Array.from(mixture.weights, (weight, j) => ({
      weight,
      mean: [mixture.means.data[2 * j]!, mixture.means.data[2 * j + 1]!],
      covariance: [covariances[4 * j]!, covariances[4 * j + 1]!, covariances[4 * j + 3]!],
    })),
    auc: measureScores(scores, isNovel.data).auc,
  }
}

/** As the text has it: no scaler, no support guard; `m` null is the default. */
function fitEmbedded(
  detector: 'oc-kjl-qs' | 'oc-nystrom-qs',
  rows: Matrix,
  m: number | null,
  rng: Rng,
): EmbeddedMixtureModel {
  const parameters = checkParameters({
    detector,
    d: DIMENSIONS,
    bandwidthQuantile: UNTUNED_QUANTILE,
    supportGuard: false,
    ...(m === null ? {} : { m }),
  })
  return fitDetector(rows, parameters, rng) as EmbeddedMixtureModel
}

function shown(points: Matrix, rows: readonly number[]): Point[] {
  return rows.slice(0, SHOWN).map((i) => [rounded(points.data[2 * i]!), rounded(points.data[2 * i + 1]!)])
}

const rounded = (value: number): number => Number(value.toPrecision(5))

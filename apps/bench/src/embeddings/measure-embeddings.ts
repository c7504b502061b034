/**
 * The two pictures that the paper draws of embeddings, measured: Cluster in Cluster before and after KJL and Nyström
 * (n = 5,000, m = 200, d = 2), and the mixture over embedded normal rows. A picture shows some of the points, the
 * first so many, because all of them would hide each other; what is counted is counted over all.
 */
import { createRng, type Matrix, type Rng, takeRows } from '@oddflow/core'
import {
  checkParameters,
  createScoreWorkspace,
  type EmbeddedMixtureModel,
  embedRows,
  fitDetector,
  mixtureCovariances,
  scoreSamples,
} from '@oddflow/detectors'
import { loadRepeat } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'
import { measureScores } from '../run/measure-scores.js'
import { UNTUNED_QUANTILE } from '../run/recipe.js'
import { drawClusterInCluster } from './cluster-in-cluster.js'
import type { EmbeddingReading, MixturePicture, Point } from './embedding-reading.js'
import { bestStraightLine } from './straight-line.js'

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

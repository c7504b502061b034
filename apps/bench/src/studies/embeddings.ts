/**
 * Two of the paper's pictures: embeddings of Cluster in Cluster (a simulated ball in a ring), and mixtures over
 * embedded rows. A picture shows the first 400 points; figures count all rows.
 */

import { join } from 'node:path'
import type * as Plot from '@observablehq/plot'
import { createMatrix, createRng, type Matrix, type Rng, takeRows } from '@oddflow/core'
import {
  checkParameters,
  type EmbeddedMixtureModel,
  embedRows,
  fitDetector,
  mixtureCovariances,
} from '@oddflow/detectors'
import { type Spread, spread } from '@oddflow/evaluation'
import { z } from 'zod'
import { publishedRows } from '../datasets/load-repeat.js'
import { numbersOf } from '../datasets/pools.js'
import { list, positive, share, text } from '../files.js'
import { note } from '../output.js'
import { UNTUNED_QUANTILE } from '../run/trial-model.js'
import { fixed, formatSpread, markdownTable } from '../tables/table.js'
import { aucOf } from './flows.js'
import { type Drawing, defineStudy } from './study.js'

const SEED = 1
/** Folders of data/paper. */
const SETS = ['ctu', 'sfrig']
const DETECTORS = ['oc-kjl-qs', 'oc-nystrom-qs'] as const
type Detector = (typeof DETECTORS)[number]

const point = z.tuple([z.number(), z.number()])
const points = z.array(point).max(100_000)
/** Of a Gaussian in the plane: covariance as xx, xy, yy. */
const component = z.strictObject({
  weight: share,
  mean: point,
  covariance: z.tuple([z.number().min(0), z.number(), z.number().min(0)]),
})

const figures = z.strictObject({
  clusterInCluster: z.strictObject({
    rows: positive,
    landmarks: positive,
    bandwidth: z.number().positive(),
    /** Best straight line in the plane of the data. */
    straightLineBefore: share,
    panels: list({ what: z.enum(['data', 'kjl', 'nystrom']), inner: points, outer: points }),
    /** Best straight line after an embedding, by draw of landmarks and sketch. */
    straightLineAfter: z.strictObject({
      kjl: z.array(share).min(1).max(1000),
      nystrom: z.array(share).min(1).max(1000),
    }),
  }),
  mixtures: list({
    dataset: text,
    detector: text,
    normal: points,
    novel: points,
    components: z.array(component).max(100_000),
    /** Of the detector with these two dimensions, over all test rows. */
    auc: share,
  }),
})
type EmbeddingFigures = z.infer<typeof figures>
type MixturePicture = EmbeddingFigures['mixtures'][number]
type Point = z.infer<typeof point>

// ---- Cluster in Cluster, and how far one straight line can part two classes in the plane

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

const RING_RADIUS = 5
const RING_DEVIATION = 0.5

/** Rows (n × 2), and for each whether it is of the ring: every other one. */
export function drawClusterInCluster(count: number, rng: Rng): { rows: Matrix; isOuter: Uint8Array } {
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

const ROWS = 5000
const LANDMARKS = 200
const DIMENSIONS = 2
const SHOWN = 400
/** Random choices of landmarks. */
const DRAWS = 20

export function measureClusterInCluster(draws: number): EmbeddingFigures['clusterInCluster'] {
  const { rows, isOuter } = drawClusterInCluster(ROWS, createRng(SEED).fork('cluster in cluster'))
  const after = (detector: Detector) => {
    const models = Array.from({ length: draws }, (_, draw) =>
      fitEmbedded(detector, rows, LANDMARKS, createRng(SEED).fork(`draw ${draw}`)),
    )
    const all = models.map(({ embedding }) => embedRows(embedding, rows))
    const lines = all.map((points) => rounded(bestStraightLine(points, isOuter)))
    return { bandwidth: models[0]!.embedding.bandwidth, points: all[0]!, lines }
  }
  const kjl = after('oc-kjl-qs')
  const nystrom = after('oc-nystrom-qs')
  const panel = (
    what: 'data' | 'kjl' | 'nystrom',
    points: Matrix,
  ): EmbeddingFigures['clusterInCluster']['panels'][number] => {
    return { what, inner: shown(points, numbersOf(isOuter, 0)), outer: shown(points, numbersOf(isOuter, 1)) }
  }
  return {
    rows: ROWS,
    landmarks: LANDMARKS,
    bandwidth: rounded(kjl.bandwidth),
    straightLineBefore: rounded(bestStraightLine(rows, isOuter)),
    panels: [panel('data', rows), panel('kjl', kjl.points), panel('nystrom', nystrom.points)],
    straightLineAfter: { kjl: kjl.lines, nystrom: nystrom.lines },
  }
}

function measureMixture(data: string, set: string, detector: Detector): MixturePicture {
  const { dataset: _, name, load } = publishedRows(data).find(({ folder }) => folder === set)!
  const { train, test, isNovel } = load(0)
  const model = fitEmbedded(detector, train, null, createRng(SEED).fork('repeat 0'))
  const novel = takeRows(test, numbersOf(isNovel, 1))
  const { mixture } = model
  const covariances = mixtureCovariances(mixture)
  return {
    dataset: name,
    detector,
    normal: shown(embedRows(model.embedding, train), [...Array(train.rows).keys()]),
    novel: shown(embedRows(model.embedding, novel), [...Array(novel.rows).keys()]),
    components: Array.from(mixture.weights, (weight, j) => ({
      weight,
      mean: [mixture.means.data[2 * j]!, mixture.means.data[2 * j + 1]!],
      covariance: [covariances[4 * j]!, covariances[4 * j + 1]!, covariances[4 * j + 3]!],
    })),
    auc: aucOf(model, takeRows(test, numbersOf(isNovel, 0)), novel),
  }
}

/** As the text has it: no scaler, no support guard; `m` null is the default. */
function fitEmbedded(detector: Detector, rows: Matrix, m: number | null, rng: Rng): EmbeddedMixtureModel {
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

// ---- page

const PANEL_NAMES = { data: 'the data', kjl: 'after KJL', nystrom: 'after Nyström' } as const
const INK = '#1d2126'

function page({ clusterInCluster: cic, mixtures }: EmbeddingFigures): string {
  const after = cic.straightLineAfter
  return `## Cluster in Cluster

![Cluster in Cluster before and after KJL and Nyström](embedding-clusters.svg)

${cic.rows} simulated rows in two classes, m = ${cic.landmarks} landmarks, d = 2, bandwidth ${fixed(cic.bandwidth, 2)} (the 0.25-quantile of pair distances).
In the paper no straight line separates the two classes before an embedding, and one does after either embedding. The table
gives the share of all rows on the right side of the best straight line; one half is chance.

${markdownTable(
  ['', 'rows on the right side', 'least', 'most'],
  [
    ['the data', fixed(cic.straightLineBefore, 3), '', ''],
    ...(['kjl', 'nystrom'] as const).map((kind) => [
      `${PANEL_NAMES[kind]}, ${after[kind].length} draws`,
      formatSpread(spreadOf(after[kind]), 3),
      fixed(Math.min(...after[kind]), 3),
      fixed(Math.max(...after[kind]), 3),
    ]),
  ],
  1,
)}

Mean ± standard deviation over draws of the landmarks and, for KJL, of the sketch. KJL keeps two
random directions, so its draws differ; Nyström keeps the two directions of largest variance. The picture shows the first draw.

## The mixture over embedded normal rows

![Mixtures over embedded normal rows](embedding-mixtures.svg)

The first repeat of each set in d = 2 dimensions instead of 5, so that it can be drawn; components by QuickShift++, each an
ellipse at two standard deviations. No scaler, no support guard.

${markdownTable(
  ['', 'components', 'AUC with d = 2'],
  mixtures.map((m) => [nameOf(m), `${m.components.length}`, fixed(m.auc, 3)]),
  1,
)}`
}

/** There is always a draw. */
const spreadOf = (values: readonly number[]): Spread => spread(values) ?? { mean: 0, sd: null, n: 0 }

const nameOf = ({ dataset, detector }: MixturePicture): string => `${dataset}, ${detector}`

/** Each panel has a scale of its own, from 0 to 1: embeddings have no common unit. */
interface Place {
  readonly panel: string
  readonly x: number
  readonly y: number
  readonly kind: string
}

function placer(panel: string, all: readonly Point[]): (point: Point, kind: string) => Place {
  const range = (axis: 0 | 1): { low: number; size: number } => {
    const values = all.map((point) => point[axis])
    const low = Math.min(...values)
    return { low, size: Math.max(...values) - low || 1 }
  }
  const [x, y] = [range(0), range(1)]
  return (point, kind) => ({ panel, x: (point[0] - x.low) / x.size, y: (point[1] - y.low) / y.size, kind })
}

function clustersChart(
  { clusterInCluster }: EmbeddingFigures,
  { Plot, PALETTE, renderFigure }: Drawing,
): string {
  const [FIRST, SECOND] = PALETTE as [string, string]
  const places = clusterInCluster.panels.flatMap(({ what, inner, outer }) => {
    const place = placer(PANEL_NAMES[what], [...inner, ...outer])
    return [...inner.map((p) => place(p, 'inner class')), ...outer.map((p) => place(p, 'outer class'))]
  })
  const after = clusterInCluster.straightLineAfter
  return renderFigure({
    title: 'Cluster in Cluster before and after an embedding in two dimensions',
    description: `A ring around a ball. The best straight line has ${fixed(clusterInCluster.straightLineBefore, 3)} of the rows on the right side before, ${fixed(spreadOf(after.kjl).mean, 3)} after KJL and ${fixed(spreadOf(after.nystrom).mean, 3)} after Nyström.`,
    width: 900,
    height: 340,
    legend: [
      ['inner class', FIRST],
      ['outer class', SECOND],
    ],
    plot: panels(
      Plot,
      clusterInCluster.panels.map(({ what }) => PANEL_NAMES[what]),
      [
        Plot.dot(places, {
          x: 'x',
          y: 'y',
          fx: 'panel',
          fill: ({ kind }: Place) => (kind === 'inner class' ? FIRST : SECOND),
          r: 1.4,
        }),
      ],
    ),
  })
}

function mixturesChart({ mixtures }: EmbeddingFigures, { Plot, PALETTE, renderFigure }: Drawing): string {
  const [FIRST, SECOND] = PALETTE as [string, string]
  const drawn = mixtures.map((picture) => {
    const ellipses = picture.components.map(({ mean, covariance }) => ellipse(mean, covariance))
    const place = placer(nameOf(picture), [...picture.normal, ...ellipses.flat()])
    const inside = ({ x, y }: Place): boolean => x >= 0 && x <= 1 && y >= 0 && y <= 1
    return {
      normal: picture.normal.map((p) => place(p, 'normal')),
      // a novelty that lies far off would leave the rest as one dot
      novel: picture.novel.map((p) => place(p, 'novel')).filter(inside),
      outlines: ellipses.flatMap((points, j) => points.map((p) => place(p, `${nameOf(picture)} ${j}`))),
    }
  })
  return renderFigure({
    title: 'Mixtures over embedded normal rows, d = 2',
    description: mixtures.map((m) => `${nameOf(m)}: ${m.components.length} components`).join('; '),
    width: Math.max(600, 300 * mixtures.length),
    height: 340,
    legend: [
      ['normal, training rows', FIRST],
      ['novel, test rows within the frame', SECOND],
      ['two standard deviations of a component', INK],
    ],
    plot: panels(Plot, mixtures.map(nameOf), [
      Plot.dot(
        drawn.flatMap(({ normal }) => normal),
        { x: 'x', y: 'y', fx: 'panel', fill: FIRST, r: 1.4, fillOpacity: 0.6 },
      ),
      Plot.dot(
        drawn.flatMap(({ novel }) => novel),
        { x: 'x', y: 'y', fx: 'panel', fill: SECOND, r: 1.4, fillOpacity: 0.6 },
      ),
      Plot.line(
        drawn.flatMap(({ outlines }) => outlines),
        { x: 'x', y: 'y', fx: 'panel', z: 'kind', stroke: INK, strokeWidth: 1.2 },
      ),
    ]),
  })
}

function panels(
  { frame }: Drawing['Plot'],
  domain: readonly string[],
  marks: Plot.Markish[],
): Plot.PlotOptions {
  const bare = { domain: [-0.03, 1.03], axis: null } as const
  return {
    marginTop: 30,
    x: bare,
    y: bare,
    fx: { label: null, domain: [...domain] },
    marks: [frame(), ...marks],
  }
}

/** 2 standard deviations around: mean + 2·L·(cos, sin), with LLᵀ the covariance. */
function ellipse(mean: Point, [xx, xy, yy]: MixturePicture['components'][number]['covariance']): Point[] {
  const a = Math.sqrt(xx)
  const b = a === 0 ? 0 : xy / a
  const c = Math.sqrt(Math.max(0, yy - b * b))
  return Array.from({ length: 49 }, (_, i): Point => {
    const angle = (i / 48) * 2 * Math.PI
    const [u, v] = [2 * Math.cos(angle), 2 * Math.sin(angle)]
    return [mean[0] + a * u, mean[1] + b * u + c * v]
  })
}

export const embeddings = defineStudy<unknown, EmbeddingFigures>({
  name: 'embeddings',
  title: 'Embeddings as pictures',
  description:
    "plot two of the paper's figures again: an artificial data set before and after its embedding, and mixtures of embedded rows (data/paper)",
  figures,
  async run({ data }) {
    const clusterInCluster = measureClusterInCluster(DRAWS)
    note('Cluster in Cluster')
    const mixtures = SETS.flatMap((set) =>
      DETECTORS.map((detector) => {
        const picture = measureMixture(join(data, 'paper'), set, detector)
        note(`${nameOf(picture)}: AUC ${fixed(picture.auc, 3)}`)
        return picture
      }),
    )
    return { clusterInCluster, mixtures }
  },
  page,
  pictures: (made, drawing) => ({
    'embedding-clusters.svg': clustersChart(made, drawing),
    'embedding-mixtures.svg': mixturesChart(made, drawing),
  }),
})

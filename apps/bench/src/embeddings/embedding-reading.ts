/** What the pictures of embeddings are drawn from: one JSON file (`embeddings.json`), checked when it is read. */
import { existsSync, readFileSync } from 'node:fs'
import { z } from 'zod'
import { inFile } from '../errors.js'
import { checked } from '../machines/runner-line.js'
import { writeFileWhole } from '../output/write-file.js'

const MAXIMUM_LENGTH = 16 * 2 ** 20

const share = z.number().min(0).max(1)
const point = z.tuple([z.number(), z.number()])
const points = z.array(point).max(5000)
/** Of a Gaussian in the plane: covariance as xx, xy, yy. */
const component = z.strictObject({
  weight: share,
  mean: point,
  covariance: z.tuple([z.number().min(0), z.number(), z.number().min(0)]),
})
const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/)

const shape = z.strictObject({
  format: z.literal(1),
  seed: z.number().int().min(0),
  clusterInCluster: z.strictObject({
    rows: z.number().int().min(1),
    landmarks: z.number().int().min(1),
    bandwidth: z.number().positive(),
    /** Best straight line in the plane of the data. */
    straightLineBefore: share,
    panels: z
      .array(
        z.strictObject({
          what: z.enum(['data', 'kjl', 'nystrom']),
          inner: points,
          outer: points,
        }),
      )
      .max(3),
    /** Best straight line after an embedding, a draw of landmarks and sketch each. */
    straightLineAfter: z.strictObject({
      kjl: z.array(share).min(1).max(1000),
      nystrom: z.array(share).min(1).max(1000),
    }),
  }),
  mixtures: z
    .array(
      z.strictObject({
        dataset: name,
        dataSha256: z.string().regex(/^[0-9a-f]{64}$/),
        detector: name,
        trainingRows: z.number().int().min(1),
        bandwidth: z.number().positive(),
        normal: points,
        novel: points,
        components: z.array(component).max(1000),
        /** Of the detector with these two dimensions, over all test rows. */
        auc: share,
      }),
    )
    .max(100),
})

export type EmbeddingReading = z.infer<typeof shape>
export type MixturePicture = EmbeddingReading['mixtures'][number]
export type Point = z.infer<typeof point>

/** null when there is no file. Throws an error that begins with the path. */
export function readEmbeddings(path: string): EmbeddingReading | null {
  if (!existsSync(path)) return null
  return inFile(path, () => checked(shape, readFileSync(path, 'utf8'), 'embeddings', MAXIMUM_LENGTH))
}

export function writeEmbeddings(path: string, reading: EmbeddingReading): void {
  writeFileWhole(path, `${JSON.stringify(shape.parse(reading))}\n`)
}

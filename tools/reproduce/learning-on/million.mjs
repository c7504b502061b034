/**
 * A million rows, one by one: memory, positive-definiteness, time, and the same bytes when it is done again.
 *
 * Rows are drawn at random from real ones (sfrig) with a little noise, one in five hundred from far away, with
 * exponential forgetting, so that components are born and die. The heap is measured after garbage collection.
 */
import { createRng, matrixOf } from '../../../packages/core/dist/index.js'
import { createLearner, encodeModelFile } from '../../../packages/detectors/dist/index.js'
import { loadSet, part, trainModel } from './shared.mjs'

const UPDATES = 1_000_000
/** Rows of an arrival. */
const BATCH = 1
const SAMPLES = 10
/** A mixture in an embedding has full covariances; over the rows themselves they may be either. */
const MODELS = [
  { name: 'oc-kjl-qs', options: {} },
  { name: 'gmm, full', options: { detector: 'gmm', scaler: 'standard', covariance: 'full' } },
  { name: 'gmm, diagonal', options: { detector: 'gmm', scaler: 'standard', covariance: 'diagonal' } },
]
const LEARNING = {
  roundRows: 1000,
  novel: 'learn',
  guard: null,
  reservoirRows: 200,
  forgetting: { kind: 'exponential', halfLifeRows: 2000 },
}

export function millionExperiment(data) {
  const { train } = loadSet(data, 'sfrig')
  const models = MODELS.map(({ name, options }) => ({
    name,
    ...throughAMillion(trainModel(part(train, 0, 1000), 1, options), train),
  }))
  return { updates: UPDATES, batch: BATCH, models }
}

function throughAMillion(saved, train) {
  const samples = []
  let notPositiveDefinite = 0
  const begun = performance.now()
  const first = walk(saved, train, UPDATES, (learner, updates) => {
    const { means, covarianceType, precisionCholesky } = learner.detector.mixture
    const d = means.cols
    const [size, step] = covarianceType === 'diagonal' ? [d, 1] : [d * d, d + 1]
    for (let at = 0; at < precisionCholesky.length; at += size) {
      for (let a = 0; a < d; a++) if (!(precisionCholesky[at + a * step] > 0)) notPositiveDefinite++
    }
    if (updates % (UPDATES / SAMPLES) !== 0) return
    globalThis.gc?.()
    const { heapUsed, rss, arrayBuffers } = process.memoryUsage()
    samples.push({ updates, heapUsed, arrayBuffers, rss })
    console.log(JSON.stringify(samples.at(-1)))
  })
  const seconds = (performance.now() - begun) / 1000
  const bytes = encodeModelFile(first.saved())
  const again = encodeModelFile(walk(saved, train, UPDATES, () => {}).saved())
  const { componentsAdded, componentsRemoved, componentsMerged } = first.counters
  return {
    microsPerUpdate: (1e6 * seconds) / UPDATES,
    samples,
    componentsAdded,
    componentsRemoved,
    componentsMerged,
    notPositiveDefinite,
    replayed: UPDATES,
    sameBytes: Buffer.compare(again, bytes) === 0,
    fileBytes: bytes.length,
  }
}

/** Calls `visit` after each round. */
function walk(saved, rows, updates, visit) {
  const learner = createLearner(saved, { learning: LEARNING, seed: 3 })
  const rng = createRng(11)
  const { cols, data } = rows
  for (let i = BATCH; i <= updates; i += BATCH) {
    const batch = new Float64Array(BATCH * cols)
    for (let b = 0; b < BATCH; b++) {
      const start = rng.nextBelow(rows.rows) * cols
      const far = rng.nextBelow(500) === 0 ? 1 + 20 * rng.nextFloat() : 1
      for (let c = 0; c < cols; c++)
        batch[b * cols + c] = data[start + c] * far * (1 + 0.01 * rng.nextNormal())
    }
    learner.arrive(matrixOf(BATCH, cols, batch), { assumeNormal: true })
    if (i % LEARNING.roundRows === 0) visit(learner, i)
  }
  return learner
}

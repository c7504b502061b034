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
/** The rows are replayed in full a second time for this many of them. */
const REPLAYED = 100_000
const LEARNING = {
  roundRows: 1000,
  novel: 'learn',
  guard: null,
  reservoirRows: 200,
  forgetting: { kind: 'exponential', halfLifeRows: 2000 },
}

export function millionExperiment(data) {
  const { train } = loadSet(data, 'sfrig')
  const saved = trainModel(part(train, 0, 1000), 1)
  const samples = []
  let worst = 0
  const begun = performance.now()
  let replayedFile = null
  const first = walk(saved, train, UPDATES, (learner, updates) => {
    const { mixture } = learner.detector
    const d = mixture.means.cols
    for (let at = 0; at < mixture.precisionCholesky.length; at += d * d) {
      for (let a = 0; a < d; a++) if (!(mixture.precisionCholesky[at + a * d + a] > 0)) worst++
    }
    if (updates === REPLAYED) replayedFile = encodeModelFile(learner.saved())
    if (updates % (UPDATES / SAMPLES) !== 0) return
    globalThis.gc?.()
    const { heapUsed, rss, arrayBuffers } = process.memoryUsage()
    const { componentsAdded, componentsRemoved, componentsMerged } = learner.counters
    samples.push({
      updates,
      heapUsed,
      arrayBuffers,
      rss,
      componentsAdded,
      componentsRemoved,
      componentsMerged,
    })
    console.log(JSON.stringify(samples.at(-1)))
  })
  const seconds = (performance.now() - begun) / 1000
  const again = walk(saved, train, REPLAYED, () => {})
  const same = Buffer.compare(encodeModelFile(again.saved()), replayedFile) === 0
  return {
    updates: UPDATES,
    batch: BATCH,
    microsPerUpdate: (1e6 * seconds) / UPDATES,
    samples,
    notPositiveDefinite: worst,
    replayed: REPLAYED,
    sameBytes: same,
    fileBytes: encodeModelFile(first.saved()).length,
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

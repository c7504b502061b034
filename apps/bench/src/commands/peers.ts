/** `oddflow-bench peers`: the one-class SVM of others beside ours on the same rows. Exit code 1 when one fails. */
import { cpus, loadavg } from 'node:os'
import { createRng, OddFlowError } from '@oddflow/core'
import { checkParameters, createScoreWorkspace, fitDetector, scoreSamples } from '@oddflow/detectors'
import { openScratchFolder } from '@oddflow/program'
import { availableManifests } from '../datasets/available.js'
import { loadRepeat, repeatsOf } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'
import { complain, note, print } from '../output/messages.js'
import { median } from '../peers/median.js'
import {
  PEERS,
  type Peer,
  type PeerReading,
  readPeerReadings,
  writePeerReadings,
} from '../peers/peer-reading.js'
import { runPeer } from '../peers/run-peers.js'
import { measureScores } from '../run/measure-scores.js'
import { UNTUNED_QUANTILE } from '../run/recipe.js'

export interface PeersOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets?: readonly string[]
  readonly repeats: number
  readonly seed: number
  readonly testRuns: number
  readonly out: string
}

export async function peers(options: PeersOptions): Promise<number> {
  const readings = readPeerReadings(options.out)
  const absent = new Set<Peer>()
  let failures = 0
  for (const manifest of availableManifests(options)) {
    for (let repeat = 0; repeat < Math.min(options.repeats, repeatsOf(manifest)); repeat++) {
      for (const peer of PEERS) {
        const isThere = readings.some(
          (r) =>
            r.dataset === manifest.name && r.repeat === repeat && r.seed === options.seed && r.peer === peer,
        )
        if (isThere || absent.has(peer)) continue
        try {
          const reading = await compare(manifest, repeat, peer, options)
          if (reading === null) absent.add(peer)
          else {
            readings.push(reading)
            writePeerReadings(options.out, readings)
            print(
              `${manifest.name}, repeat ${repeat}: AUC ${reading.ours.auc.toFixed(4)}, ${peer} ${reading.theirs.auc.toFixed(4)}`,
            )
          }
        } catch (error) {
          if (!(error instanceof OddFlowError)) throw error
          failures++
          complain(`${manifest.name}, repeat ${repeat}: ${error.message}`)
        }
      }
    }
  }
  for (const peer of absent) note(`${peer}: absent: not installed here`)
  return failures === 0 ? 0 : 1
}

/** null when the peer is not installed. */
async function compare(
  manifest: Manifest,
  repeat: number,
  peer: Peer,
  { data, seed, testRuns }: PeersOptions,
): Promise<PeerReading | null> {
  const { train, tests, dataSha256 } = loadRepeat(manifest, data, repeat, seed)
  const [{ data: test }, { data: timed }] = [tests[0]!, tests[tests.length - 1]!]
  const parameters = checkParameters({ detector: 'ocsvm', bandwidthQuantile: UNTUNED_QUANTILE })
  const started = performance.now()
  const model = fitDetector(train, parameters, createRng(seed).fork(`repeat ${repeat}`))
  const trainMillis = performance.now() - started
  const { kernel } = model.svm
  const workspace = createScoreWorkspace(model)
  const scores = scoreSamples(model, test.rows, new Float64Array(test.rows.rows), workspace)
  const out = new Float64Array(timed.rows.rows)
  const pass = (): number => {
    const from = performance.now()
    scoreSamples(model, timed.rows, out, workspace)
    return performance.now() - from
  }
  pass()
  const testMillis = Array.from({ length: testRuns }, pass)
  if (kernel.kind !== 'rbf') throw new RangeError('an rbf kernel was asked for')
  const folder = openScratchFolder('oddflow-bench-peer')
  try {
    const result = await runPeer(peer, {
      folder: folder.path,
      train,
      test: test.rows,
      timed: timed.rows,
      bandwidth: kernel.bandwidth,
      nu: parameters.nu,
      tolerance: parameters.tolerance,
      runs: testRuns,
    })
    if (result === null) return null
    return {
      format: 1,
      dataset: manifest.name,
      dataSha256,
      repeat,
      seed,
      trainRows: train.rows,
      testRows: timed.rows.rows,
      peer,
      version: result.version,
      bandwidth: kernel.bandwidth,
      nu: parameters.nu,
      theirs: {
        auc: measureScores(result.scores, test.isNovel.data).auc,
        supportVectors: result.supportVectors,
        trainMillis: result.trainMillis,
        testMillis: result.testMillis === null ? null : median(result.testMillis),
      },
      ours: {
        auc: measureScores(scores, test.isNovel.data).auc,
        supportVectors: model.svm.dualCoefficients.length,
        trainMillis,
        testMillis: median(testMillis),
      },
      node: process.versions.node,
      cpu: (cpus()[0]?.model ?? 'unknown').trim().slice(0, 200),
      loadAverage: loadavg()[0] ?? null,
    }
  } finally {
    folder.remove()
  }
}

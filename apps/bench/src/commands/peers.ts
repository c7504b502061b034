/** `oddflow-bench peers`: the one-class SVM of others beside ours on the same rows. Exit code 1 when one fails. */
import { existsSync } from 'node:fs'
import { OddFlowError } from '@oddflow/core'
import { type Trial, type Tuning, workKey } from '@oddflow/evaluation'
import { availableManifests } from '../datasets/available.js'
import { repeatsOf } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'
import { complain, note, print } from '../output/messages.js'
import { compareSvm } from '../peers/compare-svm.js'
import { PEERS, type Peer, peerKey, readPeerReadings, writePeerReadings } from '../peers/peer-reading.js'
import { readTrials } from '../run/trials-file.js'

export interface PeersOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets?: readonly string[]
  readonly tuning: 'none' | 'minimal' | 'both'
  readonly repeats: number
  readonly seed: number
  readonly testRuns: number
  readonly trials: string
  readonly out: string
}

interface Row {
  readonly manifest: Manifest
  readonly tuning: Tuning
  readonly repeat: number
}

export async function peers(options: PeersOptions): Promise<number> {
  const readings = readPeerReadings(options.out)
  const there = new Set(readings.map(peerKey))
  const trials = existsSync(options.trials) ? readTrials(options.trials) : []
  const absent = new Set<Peer>()
  let failures = 0
  let untried = 0
  for (const { manifest, tuning, repeat } of plan(options)) {
    const work = { dataset: manifest.name, tuning, repeat, seed: options.seed }
    const trial = trialOf(trials, work)
    if (trial === null && tuning === 'minimal') {
      untried++
      continue
    }
    for (const peer of PEERS) {
      if (absent.has(peer) || there.has(peerKey({ ...work, peer }))) continue
      const what = `${manifest.name}, tuning ${tuning}, repeat ${repeat}`
      try {
        const reading = await compareSvm(peer, { ...options, manifest, tuning, repeat, trial })
        if (reading === null) absent.add(peer)
        else {
          readings.push(reading)
          writePeerReadings(options.out, readings)
          print(`${what}: AUC ${reading.ours.auc.toFixed(4)}, ${peer} ${reading.theirs.auc.toFixed(4)}`)
        }
      } catch (error) {
        if (!(error instanceof OddFlowError)) throw error
        failures++
        complain(`${what}: ${error.message}`)
      }
    }
  }
  for (const peer of absent) note(`${peer}: absent: not installed here`)
  if (untried > 0) {
    note(
      `${options.trials}: ${untried} tuned repeats left out, of which it has no trial of ocsvm: run oddflow-bench reproduce`,
    )
  }
  return failures === 0 ? 0 : 1
}

function plan(options: PeersOptions): Row[] {
  const tunings: Tuning[] = options.tuning === 'both' ? ['none', 'minimal'] : [options.tuning]
  return availableManifests(options).flatMap((manifest) =>
    tunings.flatMap((tuning) =>
      Array.from({ length: Math.min(options.repeats, repeatsOf(manifest)) }, (_, repeat) => ({
        manifest,
        tuning,
        repeat,
      })),
    ),
  )
}

/** Of the machine that trained it. */
function trialOf(
  trials: readonly Trial[],
  work: Pick<Trial, 'dataset' | 'tuning' | 'repeat' | 'seed'>,
): Trial | null {
  const key = workKey({ ...work, features: 'iat-size', detector: 'ocsvm' })
  return trials.find((trial) => workKey(trial) === key && trial.trainMillis !== null) ?? null
}

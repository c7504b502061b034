/** `oddflow-bench peers`: the one-class SVM of others beside ours on the same rows. Exit code 1 when one fails. */
import { existsSync } from 'node:fs'
import { loadavg } from 'node:os'
import { dirname, join } from 'node:path'
import { createRng, DataError, OddFlowError } from '@oddflow/core'
import {
  type CheckedParameters,
  checkStoredParameters,
  createScoreWorkspace,
  fitDetector,
  scoreSamples,
} from '@oddflow/detectors'
import { timeRuns } from '@oddflow/evaluation'
import { openScratchFolder, UsageError } from '@oddflow/program'
import { Argument, Command } from 'commander'
import { availableManifests, loadRepeat, repeatsOf } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'
import { complain, createProgress, note, print } from '../output.js'
import {
  median,
  PEERS,
  type Peer,
  type PeerReading,
  peerKey,
  readPeerReadings,
  runPeer,
  writePeerReadings,
} from '../peers/run-peers.js'
import {
  makeSpeedModels,
  measureSpeed,
  SCORED_ROWS,
  type SpeedPeers,
  type SpeedReading,
  startSpeedPeers,
  writeSpeedReadings,
} from '../peers/speed.js'
import { SEED } from '../run/job.js'
import { cpuName } from '../run/machine.js'
import { type TestSample, type Trial, type Tuning, workKey } from '../run/trial.js'
import { candidatesOf, measureScores } from '../run/trial-model.js'
import { readTrials } from '../run/trials-file.js'
import { type CommandOptions, RESULTS, TRIALS, tuningsOf, whole, withOptions } from './options.js'

/** What the peers are compared with. */
const OURS = { features: 'iat-size', detector: 'ocsvm' } as const
const COMPARISONS = ['svm', 'speed'] as const

export function peersCommand(): Command {
  return withOptions(new Command('peers'), 'manifests', 'data', 'tuning', 'repeats', 'testRuns')
    .description('compare with other programs on the same rows: scikit-learn, libsvm, numpy, C')
    .addArgument(
      new Argument(
        '[what]',
        'svm: AUC and times of other one-class SVMs, for every data set, repeat and tuning (existing results are not run again); speed: scoring and training, compared with numpy, scikit-learn and C (default: both)',
      ).choices(COMPARISONS),
    )
    .option('--trials <file>', 'for svm: file of trials, whose bandwidths are used', TRIALS)
    .option('--dataset <name>', 'for speed: the data set to train on and score', 'ctu-rows')
    .option('--rounds <count>', 'for speed: number of turns for each program', whole(1, 1000), 9)
    .option('--out <dir>', 'folder for peers.jsonl and peers-speed.jsonl', RESULTS)
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench peers
  oddflow-bench peers svm --tuning none
  oddflow-bench peers speed --rounds 3

A peer that is not installed is reported as absent. The C program is compiled with cc from source that comes with oddflow-bench.`,
    )
    .action(async (what: (typeof COMPARISONS)[number] | undefined, options, command: Command) => {
      if (what === 'svm') refuseOptions(command, ['dataset', 'rounds'], 'peers svm')
      if (what === 'speed') {
        const ofSvm = ['tuning', 'repeats', 'testRuns', 'trials']
        refuseOptions(command, ofSvm, 'peers speed')
      }
      if (what !== 'speed') {
        process.exitCode = await peers({ ...options, out: `${options.out}/peers.jsonl` })
      }
      if (what !== 'svm') {
        await peerSpeed({ ...options, out: `${options.out}/peers-speed.jsonl` })
      }
    })
}

interface SvmWork {
  readonly manifest: Manifest
  readonly tuning: Tuning
  readonly repeat: number
  /** Of OCSVM over these rows; null where none was run. There must be one where it is tuned. */
  readonly trial: Trial | null
}

/**
 * One repeat of one data set: our one-class SVM, then a peer's, with the same rows, kernel, nu and tolerance. Tuned,
 * both have our trial's bandwidth, and ours must give the trial's AUC to the last bit. null when the peer is not
 * installed. Throws DataError where the trial is not what this program gives.
 */
async function compareSvm(
  peer: Peer,
  work: SvmWork,
  { data, testRuns }: PeersOptions,
): Promise<PeerReading | null> {
  const { manifest, tuning, repeat, trial } = work
  const { train, tests, dataSha256 } = loadRepeat(manifest, data, repeat, SEED, 'iat-size', trial?.trainRows)
  const [{ sample, data: test }, { data: timed }] = [tests[0]!, tests[tests.length - 1]!]
  const parameters = parametersOf(work)
  const started = performance.now()
  const model = fitDetector(train, parameters, createRng(SEED).fork(`repeat ${repeat}`))
  const trainMillis = performance.now() - started
  const { kernel } = model.svm
  if (kernel.kind !== 'rbf') throw new RangeError('an rbf kernel was asked for')
  const workspace = createScoreWorkspace(model)
  const scores = scoreSamples(model, test.rows, new Float64Array(test.rows.rows), workspace)
  const { auc } = measureScores(scores, test.isNovel.data)
  if (trial !== null) requireSameTrial(trial, { sample, auc, dataSha256 })
  const out = new Float64Array(timed.rows.rows)
  const score = (): unknown => scoreSamples(model, timed.rows, out, workspace)
  score()
  const testMillis = timeRuns(score, { clock: () => performance.now(), runs: testRuns })
  const theirs = await runPeer(peer, {
    train,
    test: test.rows,
    timed: timed.rows,
    bandwidth: kernel.bandwidth,
    nu: parameters.nu,
    tolerance: parameters.tolerance,
    runs: testRuns,
  })
  if (theirs === null) return null
  return {
    format: 2,
    dataset: manifest.name,
    dataSha256,
    tuning,
    repeat,
    seed: SEED,
    trainRows: train.rows,
    testRows: timed.rows.rows,
    peer,
    version: theirs.version,
    bandwidthQuantile: parameters.bandwidthQuantile,
    bandwidth: kernel.bandwidth,
    nu: parameters.nu,
    theirs: {
      auc: measureScores(theirs.scores, test.isNovel.data).auc,
      supportVectors: theirs.supportVectors,
      trainMillis: theirs.trainMillis,
      testMillis: theirs.testMillis === null ? null : median(theirs.testMillis),
    },
    ours: {
      auc,
      supportVectors: model.svm.dualCoefficients.length,
      trainMillis,
      testMillis: median([...testMillis]),
    },
    node: process.versions.node,
    cpu: cpuName(),
    loadAverage: loadavg()[0] ?? null,
  }
}

function requireSameTrial(
  { results, dataSha256 }: Trial,
  found: { readonly sample: TestSample; readonly auc: number; readonly dataSha256: string },
): void {
  const known = results.find(({ sample }) => sample === found.sample)?.auc
  if (known === found.auc && dataSha256 === found.dataSha256) return
  throw new DataError(
    `the trial has AUC ${known ?? 'none'}, this program gives ${found.auc}; the trials are of other rows or another version: run oddflow-bench reproduce into a new file`,
  )
}

function parametersOf({ tuning, trial }: SvmWork): CheckedParameters & { readonly detector: 'ocsvm' } {
  if (tuning === 'minimal' && trial === null) throw new RangeError('tuned rows need their trial')
  const parameters =
    trial === null ? candidatesOf('ocsvm', tuning)[0]!.parameters : checkStoredParameters(trial.parameters)
  if (parameters.detector !== 'ocsvm')
    throw new DataError(`expected a trial of ocsvm, found ${parameters.detector}`)
  return parameters
}

/** `names`: as the command's options are called in code. Throws UsageError for the first that was given. */
function refuseOptions(command: Command, names: readonly string[], what: string): void {
  for (const option of command.options) {
    const name = option.attributeName()
    if (names.includes(name) && command.getOptionValueSource(name) === 'cli') {
      throw new UsageError(`${option.long}: does not apply to ${what}`)
    }
  }
}

interface PeerSpeedOptions extends Pick<CommandOptions, 'data' | 'manifests'> {
  readonly dataset: string
  readonly rounds: number
  readonly out: string
}

/** Everything is ended and removed, however it ends. */
async function peerSpeed(options: PeerSpeedOptions): Promise<void> {
  const { dataset, rounds, data, out } = options
  const [manifest] = availableManifests({ ...options, datasets: [dataset] })
  const { train } = loadRepeat(manifest!, data, 0, SEED)
  if (train.rows < SCORED_ROWS) {
    throw new DataError(`${dataset}: expected ${SCORED_ROWS} training rows or more, found ${train.rows}`)
  }
  const models = makeSpeedModels(train)
  const folder = openScratchFolder('oddflow-bench-speed')
  const progress = createProgress()
  let peers: SpeedPeers | null = null
  try {
    models.writeTo(folder.path)
    // data/paper and reference lie side by side where both are given
    peers = await startSpeedPeers(folder.path, join(dirname(dirname(data)), 'reference'))
    for (const absent of peers.absent) note(`${absent}: not installed; left out`)
    progress.start(rounds + 1)
    const loadBefore = loadavg()[0] ?? 0
    const figures = await measureSpeed(models, peers, rounds, (round) =>
      progress.update(round, `round ${round} of ${rounds}`),
    )
    progress.stop()
    const about = {
      dataset,
      trainRows: train.rows,
      dimension: train.cols,
      ...models.shape,
      rounds,
      absent: [...peers.absent],
      node: process.versions.node,
      python: peers.python?.versions ?? null,
      compiler: peers.compiler,
      cpu: cpuName(),
      loadBefore,
      loadAfter: loadavg()[0] ?? 0,
    }
    const readings = figures.map((figure): SpeedReading => ({ format: 1, ...figure, ...about }))
    writeSpeedReadings(out, readings)
    for (const { what, side, precision, batch, nanos } of readings) {
      const calls = batch === null ? '' : `, ${batch} a call`
      const time = batch === null ? `${(nanos / 1e6).toFixed(0)} ms` : `${(nanos / 1000).toFixed(2)} µs`
      print(`${what}, ${side} ${precision}${calls}: ${time}`)
    }
  } finally {
    progress.stop()
    await Promise.all([peers?.python?.peer.end(), ...(peers?.c.map(({ peer }) => peer.end()) ?? [])])
    folder.remove()
  }
}

interface PeersOptions extends Omit<CommandOptions, 'datasets' | 'detectors'> {
  readonly out: string
}

export async function peers(options: PeersOptions): Promise<number> {
  const readings = readPeerReadings(options.out)
  const there = new Set(readings.map(peerKey))
  const trials = existsSync(options.trials) ? readTrials(options.trials) : []
  const absent = new Set<Peer>()
  let failures = 0
  let untried = 0
  for (const work of plan(options, trials)) {
    const { manifest, tuning, repeat, trial } = work
    if (trial === null && tuning === 'minimal') {
      untried++
      continue
    }
    for (const peer of PEERS) {
      if (absent.has(peer)) continue
      if (there.has(peerKey({ dataset: manifest.name, tuning, repeat, seed: SEED, peer }))) continue
      const what = `${manifest.name}, tuning ${tuning}, repeat ${repeat}`
      try {
        const reading = await compareSvm(peer, work, options)
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
  for (const peer of absent) note(`${peer}: not installed; left out`)
  if (untried > 0) {
    note(
      `${options.trials}: no ocsvm trial for ${untried} tuned repeats, which are left out; run: oddflow-bench reproduce`,
    )
  }
  return failures === 0 ? 0 : 1
}

/** A trial is of the machine that trained it. */
function plan(options: PeersOptions, trials: readonly Trial[]): SvmWork[] {
  const trained = new Map(
    trials.filter(({ trainMillis }) => trainMillis !== null).map((trial) => [workKey(trial), trial]),
  )
  const trialOf = (manifest: Manifest, tuning: Tuning, repeat: number): Trial | null =>
    trained.get(workKey({ dataset: manifest.name, tuning, repeat, seed: SEED, ...OURS })) ?? null
  return availableManifests(options).flatMap((manifest) =>
    tuningsOf(options).flatMap((tuning) =>
      Array.from({ length: Math.min(options.repeats, repeatsOf(manifest)) }, (_, repeat) => ({
        ...{ manifest, tuning, repeat },
        trial: trialOf(manifest, tuning, repeat),
      })),
    ),
  )
}

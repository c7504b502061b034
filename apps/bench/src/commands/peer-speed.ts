/** `oddflow-bench peers speed`: scoring and training beside numpy, scikit-learn and C, in turns. */
import { cpus, loadavg } from 'node:os'
import { dirname, join } from 'node:path'
import { DataError } from '@oddflow/core'
import { openScratchFolder } from '@oddflow/program'
import { availableManifests } from '../datasets/available.js'
import { loadRepeat } from '../datasets/load-repeat.js'
import { note, print } from '../output/messages.js'
import { createProgress } from '../output/progress.js'
import { measureSpeed } from '../peers/speed/measure-speed.js'
import { makeSpeedModels, SCORED_ROWS } from '../peers/speed/speed-models.js'
import { type SpeedReading, writeSpeedReadings } from '../peers/speed/speed-reading.js'
import { type SpeedPeers, startSpeedPeers } from '../peers/speed/start-peers.js'

export interface PeerSpeedOptions {
  readonly data: string
  readonly manifests?: string
  readonly dataset: string
  readonly rounds: number
  readonly seed: number
  readonly out: string
}

/** Everything is ended and removed, however it ends. */
export async function peerSpeed(options: PeerSpeedOptions): Promise<void> {
  const { dataset, rounds, seed, data, out } = options
  const [manifest] = availableManifests({ ...options, datasets: [dataset] })
  const { train } = loadRepeat(manifest!, data, 0, seed)
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
    for (const absent of peers.absent) note(`${absent}: absent: not installed here`)
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
      cpu: (cpus()[0]?.model ?? 'unknown').trim().slice(0, 200),
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

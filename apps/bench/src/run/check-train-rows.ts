/**
 * One number of training rows a file: a trial's key says nothing of n, and trials of two n would stand in one table as
 * if they were one. So a file that has trials of another n than is asked for is refused before anything is run.
 */
import { DataError, OddFlowError } from '@oddflow/core'
import type { Trial } from '@oddflow/evaluation'
import { trainRowsThere } from '../datasets/load-repeat.js'
import type { Manifest } from '../datasets/manifest.js'

export interface CheckTrainRowsOptions {
  readonly manifests: readonly Manifest[]
  readonly data: string
  /** On the command line. */
  readonly trainRows?: number
  /** The file, for the message. */
  readonly path: string
}

/** Throws DataError that names the data set and both numbers. */
export function checkTrainRows(trials: readonly Trial[], options: CheckTrainRowsOptions): void {
  const { manifests, data, trainRows, path } = options
  const asked = new Map<string, number | null>()
  for (const { dataset, repeat, trainRows: found } of trials) {
    const manifest = manifests.find(({ name }) => name === dataset)
    if (manifest === undefined) continue
    const key = `${dataset} ${repeat}`
    if (!asked.has(key)) asked.set(key, trainRows ?? rowsThere(manifest, data, repeat))
    const expected = asked.get(key) ?? null
    if (expected !== null && expected !== found) {
      throw new DataError(
        `${path}: has trials of ${dataset} with ${found} training rows, and ${expected} are asked for; give another --trials`,
      )
    }
  }
}

/** null where they cannot be read, which each trial says for itself. */
function rowsThere(manifest: Manifest, data: string, repeat: number): number | null {
  try {
    return trainRowsThere(manifest, data, repeat)
  } catch (error) {
    if (error instanceof OddFlowError) return null
    throw error
  }
}

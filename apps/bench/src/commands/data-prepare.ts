/** `oddflow-bench data prepare DIR`: pools of rows from captures; exit code 1 when a data set could not be prepared. */
import { OddFlowError } from '@oddflow/core'
import { datasetFolder } from '../datasets/load-repeat.js'
import type { CapturesManifest } from '../datasets/manifest.js'
import { trainRowsOf, whatIsMissing } from '../datasets/pool-protocol.js'
import { bytesToPrepare, type PoolReport, preparePools } from '../datasets/prepare.js'
import { chooseManifests, OWN_MANIFESTS, readManifests } from '../datasets/read-manifests.js'
import { requireFolder } from '../datasets/require-folder.js'
import { UsageError } from '../errors.js'
import { complain, note, print } from '../output/messages.js'
import { createProgress } from '../output/progress.js'

export interface DataPrepareOptions {
  readonly manifests?: string
  readonly datasets?: readonly string[]
  readonly trainRows?: number
}

export async function dataPrepare(dir: string, options: DataPrepareOptions): Promise<number> {
  const chosen = chooseManifests(readManifests(options.manifests ?? OWN_MANIFESTS), options.datasets)
  const rows = chosen.find(({ kind }) => kind === 'rows')
  if (rows !== undefined && options.datasets !== undefined) {
    throw new UsageError(`${rows.name}: is of feature rows, and there is nothing to prepare`)
  }
  const manifests = chosen.filter((manifest): manifest is CapturesManifest => manifest.kind === 'captures')
  if (manifests.length === 0) {
    throw new UsageError('every data set is of feature rows, and there is nothing to prepare')
  }
  requireFolder(dir)
  const progress = createProgress()
  let failures = 0
  let last = ''
  let done = 0
  progress.start(manifests.reduce((sum, one) => sum + bytesToPrepare(one, datasetFolder(one, dir)), 0))
  for (const manifest of manifests) {
    const end = done + bytesToPrepare(manifest, datasetFolder(manifest, dir))
    last = `${manifest.name}: looking for changes`
    try {
      const report = await preparePools(
        manifest,
        datasetFolder(manifest, dir),
        (file) => {
          last = file
        },
        (bytes) => {
          done += bytes
          progress.update(done, last)
        },
      )
      for (const warning of report.warnings) note(`${manifest.name}: ${warning}`)
      for (const pool of report.pools) {
        print(`${manifest.name}, ${pool.features}: ${report.done}: ${describe(pool, manifest)}`)
        const missing = whatIsMissing(pool, trainRowsOf(manifest, options.trainRows))
        if (missing !== null) note(`${manifest.name}, ${pool.features}: ${missing}`)
      }
    } catch (error) {
      if (!(error instanceof OddFlowError)) throw error
      failures++
      complain(`${manifest.name}: ${error.message}`)
    }
    done = end
  }
  progress.stop()
  return failures === 0 ? 0 : 1
}

function describe({ normal, novel, dimension }: PoolReport, manifest: CapturesManifest): string {
  const expected = (side: 'normal' | 'novel'): string => {
    const count = manifest[side].expectedFlows
    return count === null ? '' : ` (the appendix has ${count})`
  }
  return `${normal} normal rows${expected('normal')}, ${novel} novel ones${expected('novel')}, D = ${dimension}`
}

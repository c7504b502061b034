/** The feature rows that the paper's authors published (data/paper), as studies take them. */
import { DataError, type Matrix } from '@oddflow/core'
import { isAvailable, loadRepeat } from '../datasets/load-repeat.js'
import type { RowsManifest } from '../datasets/manifest.js'
import { readManifests } from '../datasets/read-manifests.js'

export interface LabelledRows {
  readonly train: Matrix
  readonly test: Matrix
  /** One label a test row: 1 = novel. */
  readonly isNovel: ArrayLike<number>
}

export interface PublishedRows {
  /** Of the manifest. */
  readonly name: string
  /** As the paper calls it. */
  readonly dataset: string
  readonly folder: string
  readonly repeats: number
  /** The training rows of a repeat, and all test rows. */
  load(repeat: number): LabelledRows
}

/** By name. `data` is the folder "paper". Throws DataError that names the sets that are absent. */
export function publishedRows(data: string): PublishedRows[] {
  const manifests = readManifests().filter((manifest): manifest is RowsManifest => manifest.kind === 'rows')
  const absent = manifests.filter((manifest) => !isAvailable(manifest, data)).map(({ folder }) => folder)
  if (absent.length > 0) throw new DataError(`${data}: expected the rows of ${absent.join(', ')}`)
  return manifests.map((manifest) => ({
    name: manifest.name,
    dataset: manifest.paperDataset ?? manifest.name,
    folder: manifest.folder,
    repeats: manifest.repeats,
    load(repeat) {
      const { train, tests } = loadRepeat(manifest, data, repeat, 1, manifest.features)
      const { rows: test, isNovel } = tests[0]!.data
      return { train, test, isNovel: isNovel.data }
    },
  }))
}

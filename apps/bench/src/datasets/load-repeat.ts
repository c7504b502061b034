/**
 * The rows of one repeat. Rows that are split already: 75 + 75 of the validation rows (all where there are fewer),
 * every test row, and 300 + 300 of them as a second sample, drawn once for all repeats. Pools: the paper's protocol
 * (pools.ts).
 */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { concatRows, createRng, DataError, type Matrix, matrixOf, takeRows } from '@oddflow/core'
import { drawLabelled, drawProtocol, PAPER_PROTOCOL } from '@oddflow/evaluation'
import { FileError } from '@oddflow/program'
import { inFile } from '../files.js'
import { note } from '../output.js'
import type { TestSample } from '../run/trial.js'
import {
  type CapturesManifest,
  chooseManifests,
  type Manifest,
  type RowsManifest,
  readManifests,
} from './manifest.js'
import {
  countsFor,
  hashMatrices,
  numbersOf,
  part,
  pooledFeatures,
  poolFolder,
  readLabels,
  readPools,
  readRows,
  requireBothClasses,
  requirePoolsOf,
  trainRowsOf,
  whatIsMissing,
} from './pools.js'

/** `count` null: all of them. Throws DataError that begins with `name` where there are fewer. */
export function firstRows(rows: Matrix, count: number | null, name: string): Matrix {
  if (count === null || count === rows.rows) return rows
  if (count > rows.rows) throw new DataError(`${name}: expected ${count} training rows, found ${rows.rows}`)
  return part(rows, 0, count)
}

/** Throws FileError that begins with the path. */
export function requireFolder(path: string): void {
  if (!inFile(path, () => statSync(path)).isDirectory()) {
    throw new FileError('file.ENOTDIR', `${path}: expected a folder`, { field: path })
  }
}

interface LabelledMatrix {
  readonly rows: Matrix
  /** One column: 1 = novel. */
  readonly isNovel: Matrix
}

export interface LoadedRepeat {
  readonly train: Matrix
  readonly validation: LabelledMatrix
  readonly tests: readonly { readonly sample: TestSample; readonly data: LabelledMatrix }[]
  readonly dataSha256: string
}

/** Where the data of a manifest lie, in a folder of data sets. */
export function datasetFolder(manifest: Manifest, data: string): string {
  return join(data, manifest.kind === 'rows' ? manifest.folder : manifest.name)
}

/** Whether there is anything to load; what is wrong with it, loading says. */
export function isAvailable(manifest: Manifest, data: string): boolean {
  const folder = datasetFolder(manifest, data)
  return existsSync(join(folder, manifest.kind === 'rows' ? 'X_test.npy' : 'pool.json'))
}

/** Feature sets with rows. */
export function featuresOf(manifest: Manifest, data: string): string[] {
  return manifest.kind === 'rows' ? [manifest.features] : pooledFeatures(datasetFolder(manifest, data))
}

export function repeatsOf(manifest: Manifest): number {
  return manifest.kind === 'rows' ? manifest.repeats : PAPER_PROTOCOL.repeats
}

/** n where nothing is stated on the command line. Throws an error that begins with the file's name. */
export function trainRowsThere(manifest: Manifest, data: string, repeat: number): number | null {
  if (manifest.kind === 'captures') return trainRowsOf(manifest)
  if (repeat >= manifest.repeats) return null
  return readRows(join(datasetFolder(manifest, data), `X_train_r${repeat}.npy`), manifest.dimension).rows
}

/** `features`: which pools. `trainRows`: n, where it is given. Throws an error that begins with the file's name. */
export function loadRepeat(
  manifest: Manifest,
  data: string,
  repeat: number,
  seed: number,
  features: string = 'iat-size',
  trainRows?: number,
): LoadedRepeat {
  const folder = datasetFolder(manifest, data)
  const loaded =
    manifest.kind === 'rows'
      ? loadRows(manifest, folder, repeat, seed, trainRows)
      : loadFromPools(manifest, poolFolder(folder, features), repeat, seed, trainRows)
  const { train, validation, tests } = loaded
  const all = [train, validation, ...tests.map((test) => test.data)].flatMap((part) =>
    'isNovel' in part ? [part.rows, part.isNovel] : [part],
  )
  return { ...loaded, dataSha256: hashMatrices(all) }
}

type Unhashed = Omit<LoadedRepeat, 'dataSha256'>

function loadRows(
  manifest: RowsManifest,
  folder: string,
  repeat: number,
  seed: number,
  trainRows: number | undefined,
): Unhashed {
  const labelled = (rowsFile: string, labelsFile: string): LabelledMatrix => {
    const rows = readRows(join(folder, rowsFile), manifest.dimension)
    return { rows, isNovel: readLabels(join(folder, labelsFile), rows.rows) }
  }
  const file = join(folder, `X_train_r${repeat}.npy`)
  const train = firstRows(readRows(file, manifest.dimension), trainRows ?? null, file)
  const validation = labelled(`X_val_r${repeat}.npy`, `y_val_r${repeat}.npy`)
  const test = labelled('X_test.npy', 'y_test.npy')
  requireBothClasses(test.isNovel, join(folder, 'y_test.npy'))
  const rng = createRng(seed).fork(`protocol ${manifest.name}`)
  const sampled = sample(test, PAPER_PROTOCOL.test, rng.fork('test'))
  return {
    train,
    validation: sample(validation, PAPER_PROTOCOL.validation, rng.fork(`validation ${repeat}`)) ?? validation,
    tests: [
      { sample: 'all', data: test },
      ...(sampled === null ? [] : [{ sample: 'protocol' as const, data: sampled }]),
    ],
  }
}

/** `counts` rows of each class, normal ones first; null when there are fewer. */
function sample(
  { rows, isNovel }: LabelledMatrix,
  counts: { readonly normal: number; readonly novel: number },
  rng: Parameters<typeof drawLabelled>[2],
): LabelledMatrix | null {
  const [normal, novel] = [numbersOf(isNovel.data, 0), numbersOf(isNovel.data, 1)]
  if (normal.length < counts.normal || novel.length < counts.novel) return null
  const drawn = drawLabelled({ normal: normal.length, novel: novel.length }, counts, rng)
  const take = (chosen: Uint32Array, from: readonly number[]): Matrix =>
    takeRows(
      rows,
      chosen.map((i) => from[i]!),
    )
  return stack(take(drawn.normal, normal), take(drawn.novel, novel))
}

function loadFromPools(
  manifest: CapturesManifest,
  folder: string,
  repeat: number,
  seed: number,
  stated: number | undefined,
): Unhashed {
  const { normal, novel } = readPools(folder)
  requirePoolsOf(manifest, folder)
  const pool = { normal: normal.rows, novel: novel.rows }
  const trainRows = trainRowsOf(manifest, stated)
  const missing = whatIsMissing(pool, trainRows)
  if (missing !== null) throw new DataError(`${folder}: ${missing}`)
  const rng = createRng(seed).fork(`protocol ${manifest.name}`)
  const drawn = drawProtocol(pool, countsFor(pool, trainRows), rng)
  const rows = drawn.repeats[repeat]
  if (rows === undefined) throw new RangeError(`repeat ${repeat} is not drawn`)
  const { validation, train } = rows
  const labelled = (part: typeof validation): LabelledMatrix =>
    stack(takeRows(normal, part.normal), takeRows(novel, part.novel))
  return {
    train: takeRows(normal, train),
    validation: labelled(validation),
    tests: [{ sample: 'protocol', data: labelled(drawn.test) }],
  }
}

function stack(normal: Matrix, novel: Matrix): LabelledMatrix {
  const isNovel = new Float64Array(normal.rows + novel.rows).fill(1, normal.rows)
  return { rows: concatRows([normal, novel]), isNovel: matrixOf(isNovel.length, 1, isNovel) }
}

interface AvailableOptions {
  readonly data: string
  readonly manifests?: string
  readonly datasets?: readonly string[]
}

/** At least one. Throws UsageError for an unknown name, DataError where data are missing. */
export function availableManifests({ data, manifests, datasets }: AvailableOptions): Manifest[] {
  const chosen = chooseManifests(readManifests(manifests), datasets)
  const found = chosen.filter((manifest) => isAvailable(manifest, data))
  const absent = chosen.filter((manifest) => !found.includes(manifest)).map(({ name }) => name)
  if (absent.length > 0) {
    const message = `no data of ${absent.join(', ')} in ${data}; see: oddflow-bench data verify`
    if (datasets !== undefined) throw new DataError(message)
    if (found.length > 0) note(`left out: ${message}`)
  }
  if (found.length === 0) throw new DataError(`${data}: holds none of the data sets; give --data`)
  return found
}

// ---- the feature rows that the paper's authors published (data/paper), for the studies

export interface LabelledRows {
  readonly train: Matrix
  readonly test: Matrix
  /** One label a test row: 1 = novel. */
  readonly isNovel: ArrayLike<number>
}

/** By name. `data` is the folder "paper". Throws DataError that names the sets that are absent. */
export function publishedRows(data: string) {
  const manifests = readManifests().filter((manifest): manifest is RowsManifest => manifest.kind === 'rows')
  const absent = manifests.filter((manifest) => !isAvailable(manifest, data)).map(({ folder }) => folder)
  if (absent.length > 0) throw new DataError(`${data}: expected the rows of ${absent.join(', ')}`)
  return manifests.map((manifest) => ({
    name: manifest.name,
    /** As the paper calls it. */
    dataset: manifest.paperDataset ?? manifest.name,
    folder: manifest.folder,
    repeats: manifest.repeats,
    /** The training rows of a repeat, and all test rows. */
    load(repeat: number): LabelledRows {
      const { train, tests } = loadRepeat(manifest, data, repeat, 1, manifest.features)
      const { rows: test, isNovel } = tests[0]!.data
      return { train, test, isNovel: isNovel.data }
    },
  }))
}

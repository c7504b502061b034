/**
 * Pools: feature rows of all normal and all novel flows of a data set, from `data prepare`, with a record of their
 * origin. `pool.json` is written last. IAT+SIZE lies in the data set's folder, other feature sets in folders of their
 * names there.
 */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { openCapture } from '@oddflow/capture/node'
import {
  checkFinite,
  DataError,
  decodeNpy,
  decodeNpyMatrix,
  type Matrix,
  matrixOf,
  OddFlowError,
} from '@oddflow/core'
import { PAPER_PROTOCOL, type ProtocolCounts } from '@oddflow/evaluation'
import { z } from 'zod'
import { digest, inFile, readShape } from '../files.js'
import { littleEndian, sha256 } from '../machines/work.js'
import { type CapturesManifest, FEATURES, type Features } from './manifest.js'

/** 64 lower-case hexadecimal digits. */
export function hashMatrices(matrices: readonly Matrix[]): string {
  const hash = createHash('sha256')
  for (const { rows, cols, data } of matrices) {
    hash.update(`${rows}x${cols};`).update(littleEndian(data))
  }
  return hash.digest('hex')
}

interface PoolSizes {
  readonly normal: number
  readonly novel: number
}

/** n. `stated`: on the command line. */
export function trainRowsOf(manifest: CapturesManifest, stated?: number): number {
  return stated ?? manifest.trainRows ?? PAPER_PROTOCOL.train
}

/** The paper's protocol as far as pools allow it: with fewer than 375 novel rows, fewer than 75 validate. */
export function countsFor(pool: PoolSizes, trainRows: number): ProtocolCounts {
  const { test, validation } = PAPER_PROTOCOL
  const novel = Math.min(validation.novel, Math.max(0, pool.novel - test.novel))
  return { ...PAPER_PROTOCOL, train: trainRows, validation: { ...validation, novel } }
}

/** What the pools lack of the protocol, by how much, and what may be done; null when they will do. */
export function whatIsMissing(pool: PoolSizes, trainRows: number): string | null {
  const { test, validation } = PAPER_PROTOCOL
  const kept = test.normal + validation.normal
  if (pool.normal < kept + trainRows) {
    const few = pool.normal - kept
    const lack = `too few normal rows: the protocol needs ${kept + trainRows} (${trainRows} to train on, ${test.normal} + ${validation.normal}), found ${pool.normal}, ${kept + trainRows - pool.normal} too few`
    return few < 1 ? lack : `${lack}; to train on fewer: --train-rows ${few}, or trainRows in the manifest`
  }
  if (pool.novel > test.novel) return null
  return `too few novel rows: the protocol needs more than ${test.novel}, found ${pool.novel}, ${test.novel + 1 - pool.novel} too few`
}

/** Hashes of what pools are made of. The manifest's own hash is compared at each reading, without reading captures. */

/** A change of the rules makes new pools. */
export const RULES = {
  truncation: 'truncate',
  iatUnit: 'microseconds',
  sizeMeasure: 'frame',
  samplingQuantile: 0.3,
} as const

type SideFiles = Readonly<Record<'normal' | 'novel', readonly string[]>>

/** Of what decides which packets make which pool: hosts, windows, files and label rule, and the rules of all pools. */
export function hashManifest({ labelRule, normal, novel }: CapturesManifest): string {
  const sides = [normal, novel].map(({ addresses, timeWindows, files }) => [addresses, timeWindows, files])
  return sha256(JSON.stringify([RULES, labelRule, sides]))
}

/** Throws DataError if one side has the same capture twice (a copy, a link), since its flows would count twice. */
export async function hashInputs(
  manifest: CapturesManifest,
  sides: SideFiles,
  onBytes: (bytes: number) => void,
): Promise<string> {
  const hash = createHash('sha256')
  hash.update(hashManifest(manifest))
  for (const side of ['normal', 'novel'] as const) {
    const fileOf = new Map<string, string>()
    for (const file of sides[side]) {
      const content = createHash('sha256')
      for await (const chunk of createReadStream(file)) {
        content.update(chunk as Uint8Array)
        onBytes((chunk as Uint8Array).length)
      }
      const digest = content.digest('hex')
      const same = fileOf.get(digest)
      // recorders that found nothing to record write equal files
      if (same !== undefined && (await hasPackets(file))) {
        throw new DataError(`${same} and ${file} are the same capture, and its flows would count twice`)
      }
      fileOf.set(digest, file)
      hash.update(JSON.stringify([side, basename(file), digest]))
    }
  }
  return hash.digest('hex')
}

async function hasPackets(file: string): Promise<boolean> {
  for await (const frames of openCapture(file)) if (frames.count > 0) return true
  return false
}

const poolRecord = z.strictObject({
  format: z.literal(1),
  features: z.enum(FEATURES),
  dimension: z.number().int().min(1).max(100_000),
  rows: z.strictObject({ normal: z.number().int().min(1), novel: z.number().int().min(1) }),
  /** Of both pools. */
  rowsSha256: digest,
  /** Of the captures' names, sizes and contents, the hosts and the rules: equal, and nothing is to be done. */
  inputsSha256: digest,
  /** Of the manifest's part of it. Pools of earlier versions say nothing, and are made again. */
  manifestSha256: digest.optional(),
  /** The feature contract that both pools were made under. */
  contract: z.record(z.string(), z.unknown()),
  /** Of IAT+SIZE, which every data set has: why others could not be made, by feature set. */
  notMade: z.partialRecord(z.enum(FEATURES), z.string().min(1).max(600)).optional(),
})

export type PoolRecord = z.infer<typeof poolRecord>

/** `folder`: of the data set. */
export function poolFolder(folder: string, features: string): string {
  return features === 'iat-size' ? folder : join(folder, features)
}

/** The feature sets that pools are there of. */
export function pooledFeatures(folder: string): Features[] {
  return FEATURES.filter((features) => existsSync(join(poolFolder(folder, features), 'pool.json')))
}

/** Throws an error that begins with the file's name. */
export function readPoolRecord(folder: string): PoolRecord {
  const path = join(folder, 'pool.json')
  return readShape(poolRecord, path, 'pool')
}

/** Both pools, held against their record. */
export function readPools(folder: string): { readonly normal: Matrix; readonly novel: Matrix } {
  const record = readPoolRecord(folder)
  const normal = readRows(join(folder, 'normal.npy'), record.dimension)
  const novel = readRows(join(folder, 'novel.npy'), record.dimension)
  if (hashMatrices([normal, novel]) !== record.rowsSha256) {
    throw new DataError(`${folder}: the pools differ from pool.json; run: oddflow-bench data prepare`)
  }
  return { normal, novel }
}

/** Throws DataError if the manifest has changed since. Only `data prepare` checks the captures. */
export function requirePoolsOf(manifest: CapturesManifest, folder: string): void {
  if (readPoolRecord(folder).manifestSha256 === hashManifest(manifest)) return
  throw new DataError(
    `${folder}: the manifest's hosts, time windows, files or label rule have changed since the pools were made, or another version made them; run: oddflow-bench data prepare DIR --datasets ${manifest.name}`,
  )
}

/** The record of pools made of these very inputs, with both files as it says; null when there are none. */
export function poolMadeOf(folder: string, inputsSha256: string): PoolRecord | null {
  if (!['pool.json', 'normal.npy', 'novel.npy'].every((name) => existsSync(join(folder, name)))) return null
  try {
    const record = readPoolRecord(folder)
    readPools(folder)
    return record.inputsSha256 === inputsSha256 && record.manifestSha256 !== undefined ? record : null
  } catch (error) {
    if (error instanceof OddFlowError) return null
    throw error
  }
}

// ---- parts of rows

/** The rows from number `from` up to `to`. */
export function part({ cols, data }: Matrix, from: number, to: number): Matrix {
  return matrixOf(to - from, cols, data.slice(from * cols, to * cols))
}

/** The numbers of the rows with this label. */
export function numbersOf(labels: ArrayLike<number>, label: number): number[] {
  return Array.from(labels, (_, i) => i).filter((i) => labels[i] === label)
}

// ---- rows and labels of .npy files

/** Throws an error that begins with the path. */
export function readRows(path: string, dimension: number): Matrix {
  return inFile(path, () => {
    const rows = decodeNpyMatrix(readFileSync(path))
    if (rows.rows === 0 || rows.cols !== dimension) {
      throw new DataError(`expected rows of ${dimension} columns, found ${rows.rows} × ${rows.cols}`)
    }
    checkFinite(rows, 'rows')
    return rows
  })
}

/** Throws DataError that begins with the path when `labels` are of one class alone. */
export function requireBothClasses(labels: Matrix, path: string): void {
  for (const [label, kind] of ['normal', 'novel'].entries()) {
    if (!labels.data.includes(label)) {
      throw new DataError(`${path}: expected normal rows (0) and novel ones (1), found no ${kind} one`)
    }
  }
}

/** One column of 0 (normal) and 1 (novel), as many as there are rows. */
export function readLabels(path: string, rows: number): Matrix {
  return inFile(path, () => {
    const { shape, data } = decodeNpy(readFileSync(path))
    if (shape.length !== 1 || shape[0] !== rows) {
      throw new DataError(`expected ${rows} labels, one a row, found shape (${shape.join(', ')})`)
    }
    const odd = data.find((label) => label !== 0 && label !== 1)
    if (odd !== undefined) throw new DataError(`expected labels 0 (normal) and 1 (novel), found ${odd}`)
    return matrixOf(rows, 1, data)
  })
}

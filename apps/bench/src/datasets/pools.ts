/**
 * Pools: the feature rows of all normal and all novel flows of a data set, as `data prepare` leaves them, and the
 * record of what they were made from. `pool.json` is written last: without it there is no pool. The pools of IAT+SIZE
 * lie in the data set's folder, those of other feature sets in folders of their names there.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DataError, FormatError, type Matrix, OddFlowError, parseStrictJson } from '@oddflow/core'
import { z } from 'zod'
import { inFile } from '../errors.js'
import { hashMatrices } from './hash-rows.js'
import { type CapturesManifest, FEATURES, type Features } from './manifest.js'
import { hashManifest } from './pool-inputs.js'
import { readRows } from './read-npy.js'

const digest = z.string().regex(/^[0-9a-f]{64}$/)

const poolRecord = z.strictObject({
  format: z.literal(1),
  features: z.enum(FEATURES),
  dimension: z.number().int().min(1).max(100_000),
  rows: z.strictObject({ normal: z.number().int().min(1), novel: z.number().int().min(1) }),
  /** Of both pools (hash-rows.ts). */
  rowsSha256: digest,
  /** Of the captures' names, sizes and contents, the hosts and the rules: equal, and nothing is to be done. */
  inputsSha256: digest,
  /** Of the manifest's part of it (pool-inputs.ts). Pools of earlier versions say nothing, and are made again. */
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
  return inFile(path, () => {
    const { value } = parseStrictJson(readFileSync(path, 'utf8'), (message) => {
      throw new FormatError('pool', message)
    })
    const { success, data, error } = poolRecord.safeParse(value)
    if (success) return data
    const [first] = error.issues
    throw new FormatError('pool', `${first?.path.join('.')}: ${first?.message}`)
  })
}

/** Both pools, held against their record. */
export function readPools(folder: string): { readonly normal: Matrix; readonly novel: Matrix } {
  const record = readPoolRecord(folder)
  const normal = readRows(join(folder, 'normal.npy'), record.dimension)
  const novel = readRows(join(folder, 'novel.npy'), record.dimension)
  if (hashMatrices([normal, novel]) !== record.rowsSha256) {
    throw new DataError(`${folder}: the pools are not those of pool.json; run: oddflow-bench data prepare`)
  }
  return { normal, novel }
}

/**
 * That the pools were made for what the manifest says now. Throws DataError that says what to do; whether the captures
 * are still the same, `data prepare` looks.
 */
export function requirePoolsOf(manifest: CapturesManifest, folder: string): void {
  if (readPoolRecord(folder).manifestSha256 === hashManifest(manifest)) return
  throw new DataError(
    `${folder}: the pools were made for other hosts, time windows, files or label rule than the manifest has, or by another version; prepare it again: oddflow-bench data prepare DIR --datasets ${manifest.name}`,
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

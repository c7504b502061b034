/**
 * Manifests: one JSON file for each data set. `rows` points at .npy files that are split already, `captures` names the
 * hosts of normal and novel traffic for `data prepare`. Values that the paper does not give are null, never guessed.
 */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { FormatError } from '@oddflow/core'
import { UsageError } from '@oddflow/program'
import { z } from 'zod'
import { positive as count, inFile, packagePath, readShape, requireSize } from '../files.js'

const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/, 'expected a-z, 0-9 and hyphens')
const line = z.string().min(1).max(600)
/** A name in the folder of the data set: no way out of it. */
const fileName = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/, 'expected a file name')
/** The paper's three. */
export const FEATURES = ['iat-size', 'stats-header', 'samp-size'] as const
export type Features = (typeof FEATURES)[number]
const features = z.enum(FEATURES)
/** Of the paper's tables; null for a data set that is not in them. */
const PAPER_DATASETS = ['UNB', 'CTU', 'MAWI', 'MACCDC', 'SFRIG', 'AECHO', 'DWSHR'] as const
const paperDataset = z
  .enum(PAPER_DATASETS, `expected one of ${PAPER_DATASETS.join(', ')}, or null for your own data`)
  .nullable()

/** Where an editor finds dataset.schema.json. */
const $schema = z.string().optional()

const rowsManifest = z.strictObject({
  $schema,
  format: z.literal(1),
  kind: z.literal('rows'),
  name,
  title: line,
  paperDataset,
  features,
  /** D. */
  dimension: count.max(100_000),
  folder: name,
  repeats: count.max(1000),
  note: line.nullable(),
  /** SHA-256 of each file, or null when they are not known. */
  sha256: z.record(fileName, z.string().regex(/^[0-9a-f]{64}$/)).nullable(),
})

/** An instant after another. */
const timeWindow = z
  .tuple([z.iso.datetime(), z.iso.datetime()])
  .refine(([from, to]) => Date.parse(from) < Date.parse(to), 'expected an end after the beginning')
const fileNames = z
  .array(fileName)
  .min(1)
  .refine((names) => new Set(names).size === names.length, 'expected each file once')

const address = z.union([z.ipv4(), z.ipv6()])
const side = z.strictObject({
  /** Hosts whose traffic this is. */
  addresses: z.array(address).min(1),
  /** [from, to) in ISO 8601, in UTC; null: all of each capture. */
  timeWindows: z.array(timeWindow).min(1, 'expected a window, or null for all').nullable(),
  /** Names of captures; null: every capture in the folder. */
  files: fileNames.nullable(),
  /** Flows in the pool after truncation, as the appendix counts them; null: not known. */
  expectedFlows: count.nullable(),
})

const capturesManifest = z.strictObject({
  $schema,
  format: z.literal(1),
  kind: z.literal('captures'),
  name,
  title: line,
  paperDataset,
  source: z.strictObject({
    access: z.enum(['public', 'private lab']),
    publisher: line.nullable(),
    /** A page of the publisher's, not the paper's word. */
    address: z.url({ protocol: /^https?$/ }).nullable(),
    /** When it was captured, in the paper's words. */
    collected: line.nullable(),
  }),
  novelty: line,
  labelRule: line,
  normal: side,
  novel: side,
  /** D by feature set, where it is known. */
  dimension: z.partialRecord(features, count),
  /** n, where it is not the paper's 5,000: for captures that do not have as many flows. */
  trainRows: count.max(1_000_000).optional(),
})

export const manifestShape = z.discriminatedUnion('kind', [rowsManifest, capturesManifest])

/** For editors: dataset.schema.json of this package. */
export const manifestSchema = (): object => ({
  title: 'Data set of oddflow-bench',
  ...z.toJSONSchema(manifestShape),
})

export type RowsManifest = z.infer<typeof rowsManifest>
export type CapturesManifest = z.infer<typeof capturesManifest>
export type Manifest = RowsManifest | CapturesManifest

// ---- manifests of a folder; those of the paper come with this package

export const OWN_MANIFESTS = packagePath('datasets')

const MAXIMUM_MANIFEST_BYTES = 1_000_000

/** Sorted by name. Throws UsageError where there are none, FileError or an error that begins with the file's name. */
export function readManifests(folder: string = OWN_MANIFESTS): Manifest[] {
  const names = inFile(folder, () => readdirSync(folder).filter((name) => name.endsWith('.json')))
  if (names.length === 0) throw new UsageError(`${folder}: holds no manifests (NAME.json)`)
  const manifests = names.map((file) => {
    const path = join(folder, file)
    return inFile(path, () => {
      requireSize(path, 'manifest', MAXIMUM_MANIFEST_BYTES)
      const found = readShape(manifestShape, path, 'manifest')
      if (`${found.name}.json` !== file) {
        throw new FormatError('manifest', `name: expected ${file.slice(0, -5)} as the file is called`, {
          field: 'name',
        })
      }
      return found
    })
  })
  return manifests.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Those named, in the order of names; all when none is. Throws UsageError for a name that is not there. */
export function chooseManifests(all: readonly Manifest[], names: readonly string[] | undefined): Manifest[] {
  if (names === undefined) return [...all]
  return names.map((name) => {
    const found = all.find((manifest) => manifest.name === name)
    if (found === undefined) {
      throw new UsageError(`${name}: no such data set; there are ${all.map((m) => m.name).join(', ')}`)
    }
    return found
  })
}

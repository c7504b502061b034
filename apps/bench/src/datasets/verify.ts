/** Whether a data set is there and is what its manifest says: findings, a line each. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { OddFlowError } from '@oddflow/core'
import { captureFiles } from './capture-files.js'
import { datasetFolder, loadRepeat } from './load-repeat.js'
import type { CapturesManifest, Features, Manifest, RowsManifest } from './manifest.js'
import { trainRowsOf, whatIsMissing } from './pool-protocol.js'
import { pooledFeatures, poolFolder, readPoolRecord, readPools, requirePoolsOf } from './pools.js'
import { requireBothClasses } from './read-npy.js'

export interface Finding {
  readonly ok: boolean
  readonly text: string
}

const ok = (text: string): Finding => ({ ok: true, text })
const bad = (text: string): Finding => ({ ok: false, text })

/** `trainRows`: how many are to be trained on, where that is stated. */
export function verifyDataset(manifest: Manifest, data: string, trainRows?: number): Finding[] {
  const folder = datasetFolder(manifest, data)
  try {
    return manifest.kind === 'rows'
      ? verifyRows(manifest, data, folder, trainRows)
      : verifyCaptures(manifest, folder, trainRows)
  } catch (error) {
    if (error instanceof OddFlowError) return [bad(error.message)]
    throw error
  }
}

function verifyRows(
  manifest: RowsManifest,
  data: string,
  folder: string,
  trainRows: number | undefined,
): Finding[] {
  const repeats = Array.from({ length: manifest.repeats }, (_, r) => r)
  const files = [
    'X_test.npy',
    'y_test.npy',
    ...repeats.flatMap((r) => [`X_train_r${r}.npy`, `X_val_r${r}.npy`, `y_val_r${r}.npy`]),
  ]
  const missing = files.filter((file) => !existsSync(join(folder, file)))
  if (missing.length === files.length) {
    return [bad(`no rows: expected in ${folder} ${files.join(', ')}`)]
  }
  if (missing.length > 0) {
    return [bad(`${missing.length} of ${files.length} files are not in ${folder}: ${missing.join(', ')}`)]
  }
  const changed = files.filter((file) => {
    const expected = manifest.sha256?.[file]
    if (expected === undefined) return false
    return (
      createHash('sha256')
        .update(readFileSync(join(folder, file)))
        .digest('hex') !== expected
    )
  })
  if (changed.length > 0) {
    return changed.map((file) =>
      bad(`${join(folder, file)}: is another file than the manifest's (SHA-256 differs)`),
    )
  }
  const sizes = repeats.map((repeat) => {
    const { train, validation, tests } = loadRepeat(manifest, data, repeat, 1, manifest.features, trainRows)
    requireBothClasses(validation.isNovel, join(folder, `y_val_r${repeat}.npy`))
    return `${train.rows} + ${tests[0]?.data.rows.rows}`
  })
  const hashed = manifest.sha256 === null ? 'no hashes to compare' : 'hashes agree'
  return [ok(`${files.length} files, ${hashed}; rows to train on and to test: ${sizes.join(', ')}`)]
}

function verifyCaptures(
  manifest: CapturesManifest,
  folder: string,
  trainRows: number | undefined,
): Finding[] {
  const findings: Finding[] = []
  const absent: string[] = []
  for (const side of ['normal', 'novel'] as const) {
    const { found, missing } = captureFiles(folder, side, manifest[side])
    absent.push(...missing)
    if (found.length > 0) findings.push(ok(`${side}: ${found.length} captures`))
  }
  if (absent.length > 0) findings.push(bad(`no ${absent.join(', no ')}; ${whereToGet(manifest)}`))
  if (!existsSync(join(folder, 'pool.json'))) {
    if (absent.length > 0) return findings
    const command = `oddflow-bench data prepare ${dirname(folder)} --datasets ${manifest.name}`
    return [...findings, bad(`not prepared; run: ${command}`)]
  }
  for (const features of pooledFeatures(folder)) {
    findings.push(...verifyPool(manifest, folder, features, trainRows))
  }
  return findings
}

function verifyPool(
  manifest: CapturesManifest,
  folder: string,
  features: Features,
  trainRows: number | undefined,
): Finding[] {
  const findings: Finding[] = []
  const place = poolFolder(folder, features)
  const record = readPoolRecord(place)
  readPools(place)
  requirePoolsOf(manifest, place)
  for (const side of ['normal', 'novel'] as const) {
    const expected = manifest[side].expectedFlows
    const found = record.rows[side]
    const name = `${side} pool of ${features}: ${found} rows`
    if (expected === null) findings.push(ok(name))
    else if (found === expected) findings.push(ok(`${name}, as in the appendix`))
    else findings.push(bad(`${name}, where the appendix has ${expected}`))
  }
  const width = manifest.dimension[features]
  if (width !== undefined && width !== record.dimension) {
    findings.push(bad(`${features}: D = ${record.dimension}, where the paper has ${width}`))
  }
  const missing = whatIsMissing(record.rows, trainRowsOf(manifest, trainRows))
  if (missing !== null) findings.push(bad(`${features}: ${missing}`))
  return findings
}

export function whereToGet({ source }: CapturesManifest): string {
  if (source.publisher === null) return 'the paper names no place that offers it'
  return `its publisher is ${source.publisher}${source.address === null ? '' : `: ${source.address}`}`
}

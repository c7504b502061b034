/**
 * Captures into pools by the rules of the paper's text. Duration and number of packets are learned from normal flows
 * alone. A feature set that these flows cannot make is left out with its reason; IAT+SIZE is required.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { compileFilter, createPacketBatch, decodePackets, packetStatusCode } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import { DataError, encodeNpy, type FlowContract, type Matrix, OddFlowError } from '@oddflow/core'
import {
  type CollectedFlows,
  createFlowCollector,
  extractMatrix,
  learnFeatureContract,
  SAMPLING_QUANTILES,
} from '@oddflow/flows'
import { writeFileWhole } from '../files.js'
import { sha256 } from '../machines/work.js'
import { datasetFolder, loadRepeat } from './load-repeat.js'
import {
  type CapturesManifest,
  FEATURES,
  type Features,
  type Manifest,
  type RowsManifest,
} from './manifest.js'
import {
  hashInputs,
  hashManifest,
  hashMatrices,
  type PoolRecord,
  pooledFeatures,
  poolFolder,
  poolMadeOf,
  RULES,
  readPoolRecord,
  readPools,
  requireBothClasses,
  requirePoolsOf,
  trainRowsOf,
  whatIsMissing,
} from './pools.js'

interface CaptureFiles {
  readonly found: readonly string[]
  /** Paths of what should be there: files that the manifest names, or the folder itself. */
  readonly missing: readonly string[]
}

function captureFiles(
  folder: string,
  side: 'normal' | 'novel',
  { files }: CapturesManifest['normal'],
): CaptureFiles {
  const place = join(folder, side)
  if (files !== null) {
    const paths = files.map((file) => join(place, file))
    return { found: paths.filter(existsSync), missing: paths.filter((path) => !existsSync(path)) }
  }
  const names = existsSync(place) ? readdirSync(place).sort() : []
  const found = names
    .filter((name) => /\.(pcap|pcapng|cap)(\.gz)?$/i.test(name))
    .map((name) => join(place, name))
  return { found, missing: found.length > 0 ? [] : [join(place, '*.pcap')] }
}

interface Finding {
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
    return expected !== undefined && sha256(readFileSync(join(folder, file))) !== expected
  })
  if (changed.length > 0) {
    return changed.map((file) => bad(`${join(folder, file)}: is not the manifest's file (SHA-256 differs)`))
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

function whereToGet({ source }: CapturesManifest): string {
  if (source.publisher === null) return 'the paper names no place that offers it'
  return `its publisher is ${source.publisher}${source.address === null ? '' : `: ${source.address}`}`
}

const BATCH_FRAMES = 2048
const FILTERED_OUT = packetStatusCode('filtered-out')
export interface PoolReport {
  readonly features: Features
  readonly normal: number
  readonly novel: number
  readonly dimension: number
}

interface PrepareReport {
  readonly done: 'prepared' | 'up to date'
  readonly pools: readonly PoolReport[]
  /** What a reader of the captures had to say: damage, an early end. */
  readonly warnings: readonly string[]
}

/** `onBytes`: progress in `bytesToPrepare`. Throws DataError that names missing captures and where to get them. */
export async function preparePools(
  manifest: CapturesManifest,
  folder: string,
  onCapture: (file: string) => void,
  onBytes: (bytes: number) => void = () => {},
): Promise<PrepareReport> {
  const sides = { normal: filesOf(manifest, folder, 'normal'), novel: filesOf(manifest, folder, 'novel') }
  const inputsSha256 = await hashInputs(manifest, sides, onBytes)
  const known = knownPools(folder, inputsSha256)
  if (known !== null) return known
  const warnings: string[] = []
  const watch = { warnings, onCapture, onBytes }
  const normalFlows = await collect(manifest, 'normal', sides.normal, watch)
  const novelFlows = await collect(manifest, 'novel', sides.novel, watch)
  const pools: PoolReport[] = []
  const notMade: Partial<Record<Features, string>> = {}
  // IAT+SIZE last: its record says that all is done
  for (const features of [...FEATURES].reverse()) {
    try {
      const contract = learnContract(normalFlows, features)
      const normal = rowsOf(normalFlows, contract, 'normal')
      const novel = rowsOf(novelFlows, contract, 'novel')
      const record: PoolRecord = {
        format: 1,
        features,
        dimension: contract.dimension,
        rows: { normal: normal.rows, novel: novel.rows },
        rowsSha256: hashMatrices([normal, novel]),
        inputsSha256,
        manifestSha256: hashManifest(manifest),
        contract: { ...contract },
        ...(features === 'iat-size' ? { notMade } : {}),
      }
      const place = poolFolder(folder, features)
      writeFileWhole(join(place, 'normal.npy'), encodeNpy(normal))
      writeFileWhole(join(place, 'novel.npy'), encodeNpy(novel))
      writeFileWhole(join(place, 'pool.json'), `${JSON.stringify(record, null, 2)}\n`)
      pools.unshift({ features, ...record.rows, dimension: record.dimension })
    } catch (error) {
      if (features === 'iat-size' || !(error instanceof DataError)) throw error
      notMade[features] = error.message.slice(0, 600)
      rmSync(poolFolder(folder, features), { recursive: true, force: true })
      warnings.push(`no rows of ${features}: ${error.message}`)
    }
  }
  return { done: 'prepared', pools, warnings }
}

/** All pools of these inputs, or null when one of them is not there and not known to be impossible. */
function knownPools(folder: string, inputsSha256: string): PrepareReport | null {
  const first = poolMadeOf(folder, inputsSha256)
  if (first === null) return null
  const pools: PoolReport[] = []
  for (const features of FEATURES) {
    if (first.notMade?.[features] !== undefined) continue
    const record = poolMadeOf(poolFolder(folder, features), inputsSha256)
    if (record === null) return null
    pools.push({ features, ...record.rows, dimension: record.dimension })
  }
  return { done: 'up to date', pools, warnings: [] }
}

function learnContract(flows: CollectedFlows, featureSet: Features): FlowContract {
  const mode = RULES.truncation
  if (featureSet !== 'samp-size') {
    return learnFeatureContract(flows, { featureSet, mode, iatUnit: RULES.iatUnit })
  }
  let failure: unknown
  for (const samplingQuantile of SAMPLING_QUANTILES.filter((q) => q >= RULES.samplingQuantile)) {
    try {
      return learnFeatureContract(flows, { featureSet, mode, samplingQuantile })
    } catch (error) {
      if (!(error instanceof DataError) || error.field !== 'samplingInterval') throw error
      failure = error
    }
  }
  throw failure
}

function filesOf(manifest: CapturesManifest, folder: string, side: 'normal' | 'novel'): readonly string[] {
  const { found, missing } = captureFiles(folder, side, manifest[side])
  if (missing.length > 0) {
    throw new DataError(`no ${missing.join(', no ')}; ${whereToGet(manifest)}`)
  }
  return found
}

/** On disk: what `onBytes` comes to, once for the hash and once for the flows. */
export function bytesToPrepare(manifest: CapturesManifest, folder: string): number {
  const files = (['normal', 'novel'] as const).flatMap(
    (side) => captureFiles(folder, side, manifest[side]).found,
  )
  return 2 * files.reduce((sum, file) => sum + statSync(file).size, 0)
}

interface Watch {
  readonly warnings: string[]
  readonly onCapture: (file: string) => void
  readonly onBytes: (bytes: number) => void
}

async function collect(
  manifest: CapturesManifest,
  side: 'normal' | 'novel',
  files: readonly string[],
  { warnings, onCapture, onBytes }: Watch,
): Promise<CollectedFlows> {
  const { addresses, timeWindows } = manifest[side]
  const keeps = compileFilter(addresses.map((address) => `host ${address}`).join(' or '))
  const windows = timeWindows?.map(([from, to]) => [Date.parse(from) * 1000, Date.parse(to) * 1000] as const)
  const inWindow = (micros: number): boolean =>
    windows === undefined || windows.some(([from, to]) => micros >= from && micros < to)
  const collector = createFlowCollector({ sizeMeasure: RULES.sizeMeasure })
  const packets = createPacketBatch(BATCH_FRAMES)
  for (const file of files) {
    onCapture(file)
    const { size } = statSync(file)
    let read = 0
    /** Frames of a packed capture are more than its bytes, and headers are not among them. */
    const advance = (bytes: number): void => {
      const step = Math.min(bytes, size - read)
      read += step
      onBytes(step)
    }
    const source = openCapture(file, { batchFrames: BATCH_FRAMES })
    for await (const frames of source) {
      decodePackets(frames, packets)
      let bytes = 0
      for (let i = 0; i < packets.count; i++) {
        bytes += frames.capturedBytes[i] ?? 0
        if (!keeps(packets, i) || !inWindow(packets.timestampMicros[i] ?? 0)) packets.status[i] = FILTERED_OUT
      }
      collector.add(packets)
      advance(bytes)
    }
    advance(size)
    collector.endCapture()
    const { end } = source
    for (const warning of end?.warnings ?? []) warnings.push(`${file}: ${warning}`)
    if (end !== null && (end.truncated || end.error !== null)) {
      warnings.push(`${file}: ${end.detail ?? 'cut short'}; what came before was used`)
    }
  }
  const flows = collector.finish()
  requireFlows(manifest, side, flows)
  return flows
}

/** Throws DataError that says which side is empty, and what the manifest wants of it. */
function requireFlows(manifest: CapturesManifest, side: 'normal' | 'novel', flows: CollectedFlows): void {
  for (let i = 0; i < flows.count; i++) {
    if ((flows.packetOffset[i + 1] ?? 0) - (flows.packetOffset[i] ?? 0) >= 2) return
  }
  const { addresses, timeWindows } = manifest[side]
  const windows = timeWindows?.map(([from, to]) => `${from} to ${to}`).join(', ')
  throw new DataError(
    `${side}: no flow of two or more packets of ${addresses.join(', ')}${windows === undefined ? '' : ` from ${windows}`} in its captures; compare addresses and timeWindows of the manifest with them`,
  )
}

function rowsOf(flows: CollectedFlows, contract: FlowContract, side: 'normal' | 'novel'): Matrix {
  const rows = extractMatrix(flows, contract)
  if (rows.rows === 0) throw new DataError(`${side}: no flow makes a row of ${contract.featureSet}`)
  return rows
}

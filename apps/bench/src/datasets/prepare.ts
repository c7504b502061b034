/**
 * Captures into pools: flows of the manifest's hosts, cut at what the normal flows teach, as rows of features.
 *
 * IAT+SIZE, STATS+HEADER and SAMP-SIZE, each with a contract of its own; the windows of SAMP-SIZE are the 0.3-quantile of
 * the durations of normal flows, or the first of the paper's larger quantiles that is not 0. One that cannot be made of
 * these flows is left out with its reason, but IAT+SIZE must be.
 *
 * The duration and the number of packets come from normal flows alone and serve both pools. Rules are the paper's
 * text: bidirectional flows, frame sizes, interarrival times in microseconds, truncation at the 90th percentile of
 * durations, 600 s of silence end a flow. Every capture is on its own: flows do not cross files.
 *
 * A data set whose captures, hosts and rules hash to what `pool.json` says is done already. One that was stopped half
 * way has no `pool.json` and starts anew.
 */
import { rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { compileFilter, createPacketBatch, decodePackets, packetStatusCode } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import { DataError, encodeNpy, type FlowContract, type Matrix } from '@oddflow/core'
import {
  type CollectedFlows,
  createFlowCollector,
  extractMatrix,
  learnFeatureContract,
  SAMPLING_QUANTILES,
} from '@oddflow/flows'
import { writeFileWhole } from '../output/write-file.js'
import { captureFiles } from './capture-files.js'
import { hashMatrices } from './hash-rows.js'
import { type CapturesManifest, FEATURES, type Features } from './manifest.js'
import { hashInputs, hashManifest, RULES } from './pool-inputs.js'
import { type PoolRecord, poolFolder, poolMadeOf } from './pools.js'
import { whereToGet } from './verify.js'

const BATCH_FRAMES = 2048
const FILTERED_OUT = packetStatusCode('filtered-out')
export interface PoolReport {
  readonly features: Features
  readonly normal: number
  readonly novel: number
  readonly dimension: number
}

export interface PrepareReport {
  readonly done: 'prepared' | 'was there'
  readonly pools: readonly PoolReport[]
  /** What a reader of the captures had to say: damage, an early end. */
  readonly warnings: readonly string[]
}

/**
 * `onCapture`: called before each capture is read; `onBytes`: with what has been done of `bytesToPrepare`. Throws
 * DataError naming what is missing and where to get it.
 */
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
  return { done: 'was there', pools, warnings: [] }
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

/**
 * Captures into pools: flows of the manifest's hosts, cut at what the normal flows teach, as rows of features.
 *
 * The duration and the number of packets come from normal flows alone and serve both pools. Rules are the paper's
 * text: bidirectional flows, frame sizes, interarrival times in microseconds, truncation at the 90th percentile of
 * durations, 600 s of silence end a flow. Every capture is on its own: flows do not cross files.
 *
 * A data set whose captures, hosts and rules hash to what `pool.json` says is done already. One that was stopped half
 * way has no `pool.json` and starts anew.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename, join } from 'node:path'
import { compileFilter, createPacketBatch, decodePackets, packetStatusCode } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import { createMatrix, DataError, encodeNpy, type IatSizeContract, type Matrix } from '@oddflow/core'
import {
  type CollectedFlows,
  createFlowCollector,
  extractRecords,
  learnIatSizeContract,
} from '@oddflow/flows'
import { writeFileWhole } from '../output/write-file.js'
import { captureFiles } from './capture-files.js'
import { hashMatrices } from './hash-rows.js'
import type { CapturesManifest } from './manifest.js'
import { type PoolRecord, poolMadeOf } from './pools.js'
import { whereToGet } from './verify.js'

const BATCH_FRAMES = 2048
const FILTERED_OUT = packetStatusCode('filtered-out')
/** Part of the inputs' hash: a change of the rules makes new pools. */
const RULES = { truncation: 'truncate', iatUnit: 'microseconds', sizeMeasure: 'frame' } as const

export interface PrepareReport {
  readonly done: 'prepared' | 'was there'
  readonly normal: number
  readonly novel: number
  readonly dimension: number
  /** What a reader of the captures had to say: damage, an early end. */
  readonly warnings: readonly string[]
}

/** `onCapture`: called before each capture is read. Throws DataError naming what is missing and where to get it. */
export async function preparePools(
  manifest: CapturesManifest,
  folder: string,
  onCapture: (file: string) => void,
): Promise<PrepareReport> {
  const sides = { normal: filesOf(manifest, folder, 'normal'), novel: filesOf(manifest, folder, 'novel') }
  const inputsSha256 = await hashInputs(manifest, [...sides.normal, ...sides.novel])
  const known = poolMadeOf(folder, inputsSha256)
  if (known !== null) {
    const { normal, novel } = known.rows
    return { done: 'was there', normal, novel, dimension: known.dimension, warnings: [] }
  }
  const warnings: string[] = []
  const normalFlows = await collect(manifest.normal, sides.normal, warnings, onCapture)
  const contract = learnIatSizeContract(normalFlows, { mode: RULES.truncation, iatUnit: RULES.iatUnit })
  const normal = rowsOf(normalFlows, contract, `${manifest.name}: normal`)
  const novelFlows = await collect(manifest.novel, sides.novel, warnings, onCapture)
  const novel = rowsOf(novelFlows, contract, `${manifest.name}: novel`)
  const record: PoolRecord = {
    format: 1,
    features: 'iat-size',
    dimension: contract.dimension,
    rows: { normal: normal.rows, novel: novel.rows },
    rowsSha256: hashMatrices([normal, novel]),
    inputsSha256,
    contract: { ...contract },
  }
  writeFileWhole(join(folder, 'normal.npy'), encodeNpy(normal))
  writeFileWhole(join(folder, 'novel.npy'), encodeNpy(novel))
  writeFileWhole(join(folder, 'pool.json'), `${JSON.stringify(record, null, 2)}\n`)
  return { done: 'prepared', ...record.rows, dimension: record.dimension, warnings }
}

function filesOf(manifest: CapturesManifest, folder: string, side: 'normal' | 'novel'): readonly string[] {
  const { found, missing } = captureFiles(folder, side, manifest[side])
  if (missing.length > 0) {
    throw new DataError(`${missing.join(', ')}: is not there; ${whereToGet(manifest)}`)
  }
  return found
}

async function hashInputs(manifest: CapturesManifest, files: readonly string[]): Promise<string> {
  const hash = createHash('sha256')
  hash.update(JSON.stringify([RULES, manifest.normal, manifest.novel]))
  for (const file of files) {
    const content = createHash('sha256')
    for await (const chunk of createReadStream(file)) content.update(chunk as Uint8Array)
    hash.update(JSON.stringify([basename(file), content.digest('hex')]))
  }
  return hash.digest('hex')
}

async function collect(
  { addresses, timeWindows }: CapturesManifest['normal'],
  files: readonly string[],
  warnings: string[],
  onCapture: (file: string) => void,
): Promise<CollectedFlows> {
  const keeps = compileFilter(addresses.map((address) => `host ${address}`).join(' or '))
  const windows = timeWindows?.map(([from, to]) => [Date.parse(from) * 1000, Date.parse(to) * 1000] as const)
  const inWindow = (micros: number): boolean =>
    windows === undefined || windows.some(([from, to]) => micros >= from && micros < to)
  const collector = createFlowCollector({ sizeMeasure: RULES.sizeMeasure })
  const packets = createPacketBatch(BATCH_FRAMES)
  for (const file of files) {
    onCapture(file)
    const source = openCapture(file, { batchFrames: BATCH_FRAMES })
    for await (const frames of source) {
      decodePackets(frames, packets)
      for (let i = 0; i < packets.count; i++) {
        if (!keeps(packets, i) || !inWindow(packets.timestampMicros[i] ?? 0)) packets.status[i] = FILTERED_OUT
      }
      collector.add(packets)
    }
    collector.endCapture()
    const { end } = source
    for (const warning of end?.warnings ?? []) warnings.push(`${file}: ${warning}`)
    if (end !== null && (end.truncated || end.error !== null)) {
      warnings.push(`${file}: ${end.detail ?? 'cut short'}; what came before was used`)
    }
  }
  return collector.finish()
}

function rowsOf(flows: CollectedFlows, contract: IatSizeContract, name: string): Matrix {
  const counts = extractRecords(flows, contract, () => {})
  if (counts.rows === 0)
    throw new DataError(`${name}: no flow of two or more packets of the manifest's hosts`)
  const rows = createMatrix(counts.rows, contract.dimension)
  let at = 0
  extractRecords(flows, contract, ({ row }) => {
    if (row !== null) rows.data.set(row, contract.dimension * at++)
  })
  return rows
}

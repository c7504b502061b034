/**
 * One stage of line-rate.mjs in a process of its own: node line-rate-stage.mjs STAGE FILE [heap|memory|steady]
 *
 * Prints one JSON line: packets, flows and rows, and what was to be measured.
 */
import { readFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { PerformanceObserver } from 'node:perf_hooks'
import process from 'node:process'
import { createCaptureReader, createPacketBatch, decodePackets } from '@oddflow/capture'
import { readCapture } from '@oddflow/capture/node'
import { createFlowExtractor, flowSummaryContract } from '../../dist/index.js'
import { contractFor } from './generate.mjs'

const [stage, file, measure] = process.argv.slice(2)
let packets = createPacketBatch(2048)
const contracts = {
  flows: contractFor('size', 2),
  features: contractFor('iat-size', 12),
  summaries: flowSummaryContract(),
}
/** Reads the file once. */
async function run() {
  const extractor =
    contracts[stage] === undefined
      ? null
      : createFlowExtractor({ contract: contracts[stage], onRecord: () => {} })
  if (extractor !== null) packets = extractor.createBatch(2048)
  const take = (frames) => {
    if (stage === 'read') return
    decodePackets(frames, packets)
    extractor?.add(packets)
  }
  if (measure !== 'heap') {
    const end = await readCapture(file, take)
    return { packets: end.packets, extractor }
  }
  const reader = createCaptureReader({ batchFrames: 2048 })
  for (let at = 0; at < bytes.length; at += 1 << 20) {
    reader.push(bytes.subarray(at, at + (1 << 20)))
    for (let frames = reader.read(); frames !== null; frames = reader.read()) take(frames)
  }
  return { packets: reader.end().packets, extractor }
}

const bytes = measure === 'heap' ? readFileSync(file) : null
const answer = {}
if (measure === 'heap') {
  for (let turn = 0; turn < 2; turn++) (await run()).extractor.finish()
  let collections = 0
  const observer = new PerformanceObserver((list) => {
    collections += list.getEntries().length
  })
  observer.observe({ entryTypes: ['gc'] })
  const session = new Session()
  session.connect()
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: 1024,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  })
  Object.assign(answer, { packets: 0, flows: 0, rows: 0 })
  for (let turn = 0; turn < 4; turn++) {
    const { packets: read, extractor } = await run()
    const { flows, rows } = extractor.finish()
    answer.packets += read
    answer.flows += flows
    answer.rows += rows
  }
  const { profile } = await session.post('HeapProfiler.stopSampling')
  const byPlace = new Map()
  const visit = (node) => {
    const { functionName, url } = node.callFrame
    const name = `${functionName || 'module'} of ${url.split('/').at(-1) || 'V8'}`
    byPlace.set(name, (byPlace.get(name) ?? 0) + node.selfSize)
    node.children.forEach(visit)
  }
  visit(profile.head)
  const places = [...byPlace].map(([name, size]) => ({ name, bytes: size })).sort((a, b) => b.bytes - a.bytes)
  answer.allocatedBytes = places.reduce((sum, place) => sum + place.bytes, 0)
  answer.places = places.slice(0, 4)
  answer.collections = collections + observer.takeRecords().length
} else if (measure === 'steady') {
  // Until the third reading V8 still compiles: what it made for the first it throws away at its end.
  const seconds = []
  for (let reading = 0; reading < 7; reading++) {
    const start = process.cpuUsage()
    await run()
    const { user, system } = process.cpuUsage(start)
    if (reading >= 2) seconds.push((user + system) / 1e6)
  }
  answer.cpuSeconds = seconds.sort((a, b) => a - b)[seconds.length >> 1]
} else {
  const { packets: read, extractor } = await run()
  const counters = extractor?.finish()
  Object.assign(answer, { packets: read, flows: counters?.flows, rows: counters?.rows })
}
if (measure === 'memory') {
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))
  answer.peakBytes = 1024 * Number(peak[1])
}
console.log(JSON.stringify(answer))

/**
 * Packets a second from a capture in memory to feature rows, step by step, on one core.
 *
 * A generated capture of 1 M packets in 20,000 bidirectional TCP and UDP flows (frames of 60 to 1,514 bytes,
 * 96 captured, nothing but headers), read from memory block by block: `read` makes frame batches, `dissect`
 * packet batches from them, `flows` hands those to a flow extractor whose rows hold two packets, `features` to
 * one with the feature set named. CPU time (user and system) of five rounds, alternating: the median, and the best
 * round, which other work on the machine disturbs least.
 *
 *   pnpm --filter @oddflow/flows build && node packages/flows/bench/to-features.mjs [ROUNDS]
 */
import { cpus } from 'node:os'
import { createCaptureReader, createPacketBatch, decodePackets } from '@oddflow/capture'
import { createFlowExtractor } from '../dist/index.js'
import { contractFor, makeCapture } from './support/generate.mjs'

const PACKETS = 1_000_000
const FLOWS = 20_000
const BLOCK_BYTES = 1 << 20
const ROUNDS = Number(process.argv[2] ?? 5)
const capture = makeCapture(PACKETS, FLOWS)
const packets = createPacketBatch(4096)

function run(dissect, extractor) {
  const reader = createCaptureReader({ batchFrames: 2048 })
  let frames = 0
  for (let at = 0; at < capture.length; at += BLOCK_BYTES) {
    reader.push(capture.subarray(at, at + BLOCK_BYTES))
    for (let batch = reader.read(); batch !== null; batch = reader.read()) {
      frames += batch.count
      if (dissect) decodePackets(batch, packets)
      if (extractor !== null) extractor.add(packets)
    }
  }
  reader.end()
  if (extractor === null) return { frames }
  return { frames, ...extractor.finish() }
}

const extractorOf = (featureSet, packetsPerFlow) =>
  createFlowExtractor({ contract: contractFor(featureSet, packetsPerFlow), onRecord: () => {} })

const steps = {
  read: () => run(false, null),
  dissect: () => run(true, null),
  flows: () => run(true, extractorOf('size', 2)),
}
for (const set of ['iat-size', 'stats-header', 'samp-size', 'samp-num', 'size', 'iat', 'header-bits']) {
  steps[`features ${set}`] = () => run(true, extractorOf(set, 12))
}

const times = Object.fromEntries(Object.keys(steps).map((name) => [name, []]))
let counters
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, step] of Object.entries(steps)) {
    const start = process.cpuUsage()
    const result = step()
    const { user, system } = process.cpuUsage(start)
    if (result.frames !== PACKETS) throw new Error(`${name}: ${result.frames} packets, not ${PACKETS}`)
    if (name === 'features iat-size') counters = result
    if (round > 0) times[name].push(user + system)
  }
}
console.log(
  `${cpus()[0].model}, Node ${process.version}; ${PACKETS} packets, ${counters.flows} flows, ${counters.rows} rows`,
)
const rate = (micros) =>
  `${(PACKETS / micros).toFixed(2)} M packets/s (${((1000 * micros) / PACKETS).toFixed(0)} ns)`
for (const [name, values] of Object.entries(times)) {
  values.sort((x, y) => x - y)
  console.log(`${name.padEnd(22)} median ${rate(values[values.length >> 1])}, best ${rate(values[0])}`)
}

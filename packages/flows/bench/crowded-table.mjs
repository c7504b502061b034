/**
 * More flows at a time than the memory holds rows of: how many of them come out with features all the same.
 *
 * 4 M packets in 200,000 flows, 80,000 of them under way at a time, through an extractor of the default 32 MiB
 * (iat-size, p = 12), and of 256 MiB, which ends none for want of room. Counts flows with a row, rows that are
 * whole, and who was ended for whom.
 *
 *   pnpm --filter @oddflow/flows build && node packages/flows/bench/crowded-table.mjs [ACTIVE_FLOWS]
 */
import { createCaptureReader, createPacketBatch, decodePackets } from '@oddflow/capture'
import { createFlowExtractor, DEFAULT_FLOW_MEMORY_BYTES } from '../dist/index.js'
import { contractFor } from './support/generate.mjs'
import { trafficBlocks } from './support/generate-traffic.mjs'

const PACKETS = 4_000_000
const FLOWS = 200_000
const ACTIVE_FLOWS = Number(process.argv[2] ?? 80_000)
const PACKETS_PER_FLOW = 12

function run(memoryBytes) {
  const withRow = new Set()
  let wholeRows = 0
  const extractor = createFlowExtractor({
    contract: contractFor('iat-size', PACKETS_PER_FLOW),
    memoryBytes,
    onRecord: (record) => {
      if (record.row === null) return
      const { initiatorAddress, responderAddress, initiatorPort, responderPort, protocol } = record
      const ends = [`${initiatorAddress} ${initiatorPort}`, `${responderAddress} ${responderPort}`]
      withRow.add(`${protocol} ${ends.sort()}`)
      if (record.rowPackets > PACKETS_PER_FLOW) wholeRows++
    },
  })
  const reader = createCaptureReader()
  const packets = createPacketBatch(2048)
  for (const block of trafficBlocks(PACKETS, FLOWS, ACTIVE_FLOWS)) {
    reader.push(block)
    for (let frames = reader.read(); frames !== null; frames = reader.read()) {
      decodePackets(frames, packets)
      extractor.add(packets)
    }
  }
  const counters = extractor.finish()
  const dropped = Object.values(counters.dropped).reduce((sum, count) => sum + count, 0)
  if (counters.packets !== PACKETS || counters.packetsInFlows + dropped !== PACKETS) {
    throw new Error('packets are missing')
  }
  return { ...counters, withRow: withRow.size, wholeRows, maximumFlows: extractor.maximumFlows }
}

const free = run(8 * DEFAULT_FLOW_MEMORY_BYTES)
if (free.evictedFlows > 0) throw new Error('the larger memory is too small to compare with')
const bound = run(DEFAULT_FLOW_MEMORY_BYTES)
const share = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`
console.log(
  `${PACKETS} packets, ${free.flows} flows of TCP and UDP, ${ACTIVE_FLOWS} at a time, room for ${bound.maximumFlows}: ` +
    `${bound.withRow} of ${free.withRow} flows have a row (${share(bound.withRow, free.withRow)}), ` +
    `${bound.wholeRows} of ${free.wholeRows} whole rows (${share(bound.wholeRows, free.wholeRows)}); ` +
    `${bound.evictedHalfOpenFlows} half-open, ${bound.evictedActiveFlows} active and ${bound.evictedIdleFlows} idle flows evicted; ` +
    `${bound.rows} rows, ${bound.onePacketFlows} records of one packet`,
)

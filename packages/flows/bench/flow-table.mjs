/**
 * Packets a second through the flow table, beside a Map with string keys, in one process, alternating.
 *
 * One million packets over so many keys, IPv4 and half of them backwards; the median of the user CPU time of
 * five rounds each (CPU time, so that a busy machine does not count).
 * `table` and `map` do the same work: find or add the flow, add to its packets and time, mark it as the most
 * recent one. `extractor` is the whole of createFlowExtractor: timeouts, windows, rows.
 *
 *   pnpm --filter @oddflow/flows build && node packages/flows/bench/flow-table.mjs
 */
import { cpus } from 'node:os'
import { createPacketBatch } from '@oddflow/capture'
import { createRng } from '@oddflow/core'
import { createFlowExtractor, FlowTable } from '../dist/index.js'

const PACKETS = 1_000_000
const BATCH = 2000
const ROUNDS = 5

function makeBatches(keys) {
  const rng = createRng(1)
  const batches = []
  for (let start = 0; start < PACKETS; start += BATCH) {
    const batch = createPacketBatch(BATCH)
    batch.count = BATCH
    batch.firstFrame = start
    for (let i = 0; i < BATCH; i++) {
      const key = rng.nextBelow(keys)
      const back = rng.nextBelow(2) === 1
      batch.timestampMicros[i] = 100 * (start + i)
      batch.frameBytes[i] = 60 + rng.nextBelow(1400)
      batch.ipVersion[i] = 4
      batch.protocol[i] = 6
      const client = 0x0a000000 + (key >>> 8)
      const [source, destination] = back ? [0xc0a80001, client] : [client, 0xc0a80001]
      batch.sourceAddress[4 * i + 3] = source
      batch.destinationAddress[4 * i + 3] = destination
      batch.sourcePort[i] = back ? 443 : 1024 + (key & 255)
      batch.destinationPort[i] = back ? 1024 + (key & 255) : 443
    }
    batches.push(batch)
  }
  return batches
}

function withTable(batches) {
  const table = new FlowTable(64, 12345)
  let packets = new Float64Array(64)
  let last = new Float64Array(64)
  for (const batch of batches) {
    for (let i = 0; i < batch.count; i++) {
      let flow = table.find(batch, i)
      if (flow < 0) {
        if (table.full) {
          table.grow(2 * table.capacity)
          const [p, l] = [packets, last]
          packets = new Float64Array(table.capacity)
          last = new Float64Array(table.capacity)
          packets.set(p)
          last.set(l)
        }
        flow = table.insert()
      } else table.activity.touch(flow, 0)
      packets[flow]++
      last[flow] = batch.timestampMicros[i]
    }
  }
  return table.count
}

function withMap(batches) {
  const flows = new Map()
  for (const batch of batches) {
    for (let i = 0; i < batch.count; i++) {
      const source = batch.sourceAddress.subarray(4 * i, 4 * i + 4)
      const destination = batch.destinationAddress.subarray(4 * i, 4 * i + 4)
      const a = `${source}:${batch.sourcePort[i]}`
      const b = `${destination}:${batch.destinationPort[i]}`
      const key = `${batch.ipVersion[i]}/${batch.protocol[i]}/${a < b ? a : b}/${a < b ? b : a}`
      let flow = flows.get(key)
      if (flow === undefined) flow = { packets: 0, last: 0 }
      else flows.delete(key) // and in again: the most recent one
      flow.packets++
      flow.last = batch.timestampMicros[i]
      flows.set(key, flow)
    }
  }
  return flows.size
}

const contract = {
  featureSet: 'iat-size',
  featureSetVersion: 1,
  dimension: 23,
  packetsPerFlow: 12,
  iatUnit: 'seconds',
  sizeMeasure: 'frame',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 600_000_000,
  activeTimeoutMicros: null,
  truncation: { mode: 'split', durationMicros: 10_000_000 },
  minimumPackets: 2,
  scaler: 'none',
}

function withExtractor(batches) {
  // Room for all of them: what is measured is the way of a packet, not evictions.
  const extractor = createFlowExtractor({ contract, onRecord: () => {}, memoryBytes: 256 * 1024 * 1024 })
  for (const batch of batches) extractor.add(batch)
  return extractor.finish().flows
}

function median(values) {
  return [...values].sort((x, y) => x - y)[values.length >> 1]
}

const runs = { table: withTable, map: withMap, extractor: withExtractor }
console.log(
  `${cpus()[0].model}, ${cpus().length} cores, Node ${process.version}; ns a packet, ${PACKETS} packets`,
)
for (const keys of [1000, 10_000, 100_000, 500_000]) {
  const batches = makeBatches(keys)
  const times = { table: [], map: [], extractor: [] }
  let flows = 0
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, run] of Object.entries(runs)) {
      const start = process.cpuUsage()
      const found = run(batches)
      const nanos = (1000 * process.cpuUsage(start).user) / PACKETS
      if (flows !== 0 && found !== flows) throw new Error(`${name}: ${found} flows, not ${flows}`)
      flows = found
      if (round > 0) times[name].push(nanos)
    }
  }
  const [table, map, extractor] = Object.values(times).map(median)
  console.log(
    `${flows} flows: table ${table.toFixed(1)}, map ${map.toFixed(0)} (ratio ${(map / table).toFixed(1)}), ` +
      `extractor ${extractor.toFixed(1)}`,
  )
}

/**
 * One capture, hostile or not, through everything that reads captures: what must hold of any bytes.
 *
 * Reader, decompression, both decoders, filter, summary, flows, and rows of two feature sets under 256 KiB of
 * flow memory. Bad packets and bad files throw nothing here (openCapture throws its CaptureFileError from an end
 * state such as this); every packet is accounted for, in every count; and the bytes cut into small pieces give
 * what they give in one.
 */
import {
  compileFilter,
  createCaptureReader,
  createCaptureSummariser,
  createPacketBatch,
  createPacketDecoder,
  decodePackets,
  PACKET_STATUS_NAMES,
} from '../../packages/capture/dist/index.js'
import { createCompressionState, unpackBlocks } from '../../packages/capture/dist/node/unpack-blocks.js'
import { contractFor } from '../../packages/flows/bench/support/generate.mjs'
import { createFlowExtractor } from '../../packages/flows/dist/index.js'

const BATCH_FRAMES = 512
/** Content of a compressed file that is looked at. */
const MAXIMUM_CONTENT_BYTES = 4 << 20

const outer = createPacketBatch(BATCH_FRAMES)
const inner = createPacketBatch(BATCH_FRAMES)
const isWanted = compileFilter(
  '(tcp port 80 or udp) and not net 10.0.0.0/8 and not ether host ff:ff:ff:ff:ff:ff',
)

function hold(what, found, expected) {
  if (found !== expected) throw new Error(`${what}: expected ${expected}, found ${found}`)
}

async function* cut(bytes, pieceBytes) {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.slice(at, at + pieceBytes)
}

/** Little, so that flows are ended for want of room, and starting an extractor takes no time. */
const FLOW_MEMORY_BYTES = 256 << 10
const PACKETS_KEPT = 1000

function accountsOf(featureSet) {
  const sums = { packets: 0, records: 0, rows: 0 }
  const contract = contractFor(featureSet, 12)
  if (contract.packetsKept !== undefined) contract.packetsKept = PACKETS_KEPT
  const extractor = createFlowExtractor({
    contract,
    memoryBytes: FLOW_MEMORY_BYTES,
    onRecord: (record) => {
      sums.packets += record.packets
      sums.records++
      if (record.row === null) return
      sums.rows++
      for (const value of record.row)
        if (!Number.isFinite(value)) throw new Error(`${value} in a ${featureSet} row`)
    },
  })
  return {
    add: (packets) => extractor.add(packets),
    check(packets) {
      const counters = extractor.finish()
      const dropped = Object.values(counters.dropped).reduce((sum, count) => sum + count, 0)
      hold('packets of the extractor', counters.packets, packets)
      hold('packets in flows and dropped', counters.packetsInFlows + dropped, packets)
      hold('packets in records', sums.packets, counters.packetsInFlows)
      hold('records', sums.records, counters.records)
      hold('rows', sums.rows, counters.rows)
    },
  }
}

/** What a reading gave: how it ended, and a sum over every column of every frame. */
async function read(bytes, pieceBytes, onFrames) {
  const compression = createCompressionState()
  const reader = createCaptureReader({ batchFrames: BATCH_FRAMES })
  let packets = 0
  let content = 0
  let sum = 0
  for await (const block of unpackBlocks(cut(bytes, pieceBytes), compression)) {
    content += block.length
    reader.push(block)
    for (let frames = reader.read(); frames !== null; frames = reader.read()) {
      hold('number of the first frame', frames.firstFrame, packets)
      packets += frames.count
      for (let i = 0; i < frames.count; i++) {
        const end = frames.offset[i] + frames.capturedBytes[i]
        if (end > frames.data.length) throw new Error('a frame reaches beyond its block')
        sum = (31 * sum + frames.capturedBytes[i] + 7 * frames.wireBytes[i] + frames.linkType[i]) % 4294967296
        if (frames.capturedBytes[i] > 0) sum += frames.data[end - 1]
        const time = frames.timestampMicros[i]
        sum = (sum + (Number.isNaN(time) ? 1 : Math.abs(time % 4294967296))) % 4294967296
      }
      onFrames(frames)
    }
    if (reader.finished || content > MAXIMUM_CONTENT_BYTES) break
  }
  const end = reader.end()
  hold('packets at the end', end.packets, packets)
  const { truncated, error, detail } = end
  return {
    packets,
    sum,
    truncated,
    error: error?.message ?? null,
    detail,
    damage: compression.damage,
    end,
    content,
  }
}

/** Throws where something does not hold. */
export async function tryCapture(bytes, pieceBytes) {
  const decoder = createPacketDecoder({
    decapsulate: 'inner',
    joinFragments: true,
    maximumFragmentedDatagrams: 64,
  })
  const summariser = createCaptureSummariser()
  const accounts = [accountsOf('iat-size'), accountsOf('stats-header')]
  const whole = await read(bytes, 1 << 20, (frames) => {
    decodePackets(frames, outer)
    decoder.decode(frames, inner)
    hold('packets decoded', outer.count, frames.count)
    for (let i = 0; i < outer.count; i++) {
      if (outer.status[i] >= PACKET_STATUS_NAMES.length)
        throw new Error(`status ${outer.status[i]} has no name`)
      isWanted(outer, i)
    }
    summariser.add(frames, outer)
    accounts[0].add(outer)
    accounts[1].add(inner)
  })
  for (const account of accounts) account.check(whole.packets)
  const summary = summariser.finish(whole.end)
  hold('packets of the summary', summary.packets, whole.packets)
  JSON.stringify(summary)
  // a compressed file of which the front was enough is not compared
  if (whole.content > MAXIMUM_CONTENT_BYTES) return whole
  const pieces = await read(bytes, pieceBytes, () => undefined)
  // how much is lost before damaged deflate data depends on how much of it zlib was given at a time
  if (/ are lost$/.test(whole.damage ?? '') || / are lost$/.test(pieces.damage ?? '')) return whole
  for (const what of ['packets', 'sum', 'truncated', 'error', 'detail', 'damage']) {
    hold(`${what} in pieces of ${pieceBytes} bytes`, pieces[what], whole[what])
  }
  return whole
}

/**
 * Within a network namespace of its own: a veth pair, a capture sent into one end, the other end recorded by
 * openLive, and what its recorder wrote copied to a file. Prints one JSON line: the flow records of every way in.
 *
 *   unshare --net node record-live.mjs CAPTURE RECORDER SNAP_BYTES COPY.pcap
 */
import { execFileSync, spawn } from 'node:child_process'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { createPacketBatch, decodePackets } from '../../../packages/capture/dist/index.js'
import { openCapture, openLive } from '../../../packages/capture/dist/node/index.js'
import { contractFor } from '../../../packages/flows/bench/support/generate.mjs'
import { createFlowExtractor } from '../../../packages/flows/dist/index.js'

const [capture, recorder, snapBytes, copyFile] = process.argv.slice(2)
const run = (program, ...args) => execFileSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })

/** Flow records as lines, the row's bits and all; `restamp` may change a batch's times first. */
async function follow(source, restamp = () => {}) {
  const records = []
  let packets = createPacketBatch(2048)
  const extractor = createFlowExtractor({
    contract: contractFor('iat-size', 12),
    onRecord: (record) => {
      const row = record.row === null ? record.noRowReason : Buffer.from(record.row.buffer).toString('hex')
      const { protocol, initiatorPort, responderPort, startMicros, durationMicros } = record
      const ends = [record.initiatorAddress, initiatorPort, record.responderAddress, responderPort]
      const key = `${protocol} ${ends.join(' ')}`
      records.push({ key, packets: record.packets, bytes: record.bytes, startMicros, durationMicros, row })
    },
  })
  for await (const frames of source) {
    restamp(frames)
    if (packets.status.length < frames.count) packets = createPacketBatch(frames.count)
    decodePackets(frames, packets)
    extractor.add(packets)
  }
  return { records, counters: extractor.finish() }
}

// no router solicitations among the packets
run('sysctl', '-q', '-w', 'net.ipv6.conf.default.disable_ipv6=1')
run('ip', 'link', 'add', 'send0', 'type', 'veth', 'peer', 'name', 'take0')
for (const end of ['send0', 'take0']) run('ip', 'link', 'set', end, 'mtu', '9000', 'up')

process.env.RECORDER = recorder
process.env.COPY = copyFile
const stop = new AbortController()
const source = openLive({
  interface: 'take0',
  filter: 'not ether proto 0x88cc',
  snapLengthBytes: Number(snapBytes),
  recorder,
  program: fileURLToPath(new URL('copying-recorder.mjs', import.meta.url)),
  signal: stop.signal,
})
let sent = 0
let seen = 0
let whileRunning = null
const sending = source.begun.then(async () => {
  const sender = spawn('tcpreplay', ['-q', '-i', 'send0', '--pps', '5000', capture], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let told = ''
  for await (const text of sender.stdout.setEncoding('utf8')) told += text
  sent = Number(/Successful packets:\s+(\d+)/.exec(told)?.[1])
  // dumpcap holds packets back for a while
  for (let k = 0; k < 100 && seen < sent; k++) await new Promise((resolve) => setTimeout(resolve, 100))
  whileRunning = await source.askForCounts()
  stop.abort()
})
const live = await follow(source, (frames) => {
  seen += frames.count
})
await sending

const originalTimes = []
const original = await follow(openCapture(capture), (frames) => {
  originalTimes.push(...frames.timestampMicros.subarray(0, frames.count))
})
const restamped = await follow(openCapture(copyFile), (frames) => {
  for (let i = 0; i < frames.count; i++) frames.timestampMicros[i] = originalTimes[frames.firstFrame + i]
})
const file = await follow(openCapture(copyFile))
console.log(JSON.stringify({ sent, whileRunning, end: source.end, original, restamped, live, file }))

/** Captures of packets that are moved and made, and runs of the bundled agent: for the scripts beside this file. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { createCaptureReader, encodePcap, encodePcapRecord } from '../../packages/capture/dist/index.js'

export const root = resolve(import.meta.dirname, '../..')
export const agent = join(root, 'apps/agent/dist/main.js')
export const data = join(process.env.ODDFLOW_SHARED ?? resolve(root, '../shared'), 'data')

/** All packets of a capture, plain or .gz: `{ micros, frame, wireBytes }`. Throws where it is damaged. */
export function readPackets(path) {
  const file = readFileSync(path)
  const reader = createCaptureReader()
  reader.push(path.endsWith('.gz') ? gunzipSync(file) : file)
  const packets = []
  const take = () => {
    for (let batch = reader.read(); batch !== null; batch = reader.read()) {
      for (let i = 0; i < batch.count; i++) {
        const start = batch.offset[i]
        packets.push({
          micros: batch.timestampMicros[i],
          frame: Buffer.from(batch.data.subarray(start, start + batch.capturedBytes[i])),
          wireBytes: batch.wireBytes[i],
        })
      }
    }
  }
  take()
  const { error } = reader.end()
  take()
  if (error !== null) throw new Error(`${path}: ${error}`)
  return packets
}

const frameOf = ({ micros, frame, wireBytes = frame.length }) => ({
  timestampMicros: micros,
  bytes: frame,
  wireBytes,
})
export const recordOf = (packet) => encodePcapRecord(frameOf(packet))
export const captureOf = (packets) => encodePcap(packets.map(frameOf))
export const inOrder = (packets) => packets.sort((a, b) => a.micros - b.micros)
export const moved = (packets, byMicros) =>
  packets.map((packet) => ({ ...packet, micros: packet.micros + byMicros }))

/** A folder of dayN.pcap, in order of time. */
export function readWeek(folder) {
  const days = readdirSync(folder).filter((name) => /^day\d+\.pcap$/.test(name))
  return inOrder(days.flatMap((name) => readPackets(join(folder, name))))
}

export function writeCapture(path, packets) {
  writeFileSync(path, captureOf(inOrder([...packets])))
}

/** Of an EVE file that may be growing. */
export function eventsIn(path) {
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}

export const runArguments = (config, input) => [
  'run',
  '--allow-root',
  '-c',
  config,
  '--read',
  input,
  '--once',
]

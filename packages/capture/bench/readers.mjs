/**
 * The readers side by side: OddFlow's block reader and the npm package pcap-parser, in turn, over one
 * capture of about a million packets.
 *
 * The capture is made by repeating a real one (the first argument, or data/odet-demo.pcap of the shared
 * folder) as a classic microsecond pcap in a temporary file, which is removed afterwards. Wall time and
 * processor time are medians over the rounds; ratios are of processor time, which a busy machine disturbs
 * less. A second part measures a captured length that is a lie.
 *
 *   pnpm --filter @oddflow/capture bench [CAPTURE] [ROUNDS]
 */
import { closeSync, createReadStream, existsSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  createCaptureReader,
  createPacketBatch,
  createPacketDecoder,
  decodePackets,
  encodePcapFileHeader,
  encodePcapRecord,
} from '../dist/index.js'
import { readCapture } from '../dist/node/index.js'

const require = createRequire(import.meta.url)
const pcapParser = require('pcap-parser')
const checkout = join(dirname(fileURLToPath(import.meta.url)), '../../..')
const shared = process.env.ODDFLOW_SHARED ?? join(checkout, '../shared')
const source = process.argv[2] ?? join(shared, 'data/odet-demo.pcap')
const rounds = Number(process.argv[3] ?? 5)
if (!existsSync(source)) {
  console.error(`no capture at ${source}: give one as the first argument`)
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-'))
try {
  const lap = []
  await readCapture(source, (frames) => {
    for (let i = 0; i < frames.count; i++) {
      const at = frames.offset[i]
      const bytes = frames.data.slice(at, at + frames.capturedBytes[i])
      lap.push(
        encodePcapRecord({
          timestampMicros: frames.timestampMicros[i],
          bytes,
          wireBytes: frames.wireBytes[i],
        }),
      )
    }
  })
  const records = Buffer.concat(lap)
  const laps = Math.max(1, Math.round(1e6 / lap.length))
  const file = join(folder, 'million.pcap')
  const handle = openSync(file, 'w')
  writeSync(handle, encodePcapFileHeader())
  for (let k = 0; k < laps; k++) writeSync(handle, records)
  closeSync(handle)
  const packets = laps * lap.length
  const megabytes = Math.round((laps * records.length) / 1e6)

  const decoded = createPacketBatch(2048)
  const viaReadCapture = async (options, decode) => {
    let count = 0
    await readCapture(
      file,
      (frames) => {
        if (decode) decodePackets(frames, decoded)
        count += frames.count
      },
      options,
    )
    return count
  }
  const lapCapture = Buffer.concat([encodePcapFileHeader(), records])
  const inMemory = (decode) => async () => {
    let count = 0
    for (let k = 0; k < laps; k++) {
      const reader = createCaptureReader()
      reader.push(lapCapture)
      for (let frames = reader.read(); frames !== null; frames = reader.read()) {
        decode(frames, decoded)
        count += frames.count
      }
    }
    return count
  }
  const everything = createPacketDecoder({ decapsulate: 'inner', joinFragments: true })
  const contestants = [
    ['oddflow, read', () => viaReadCapture({}, false)],
    ['oddflow, read + decode', () => viaReadCapture({}, true)],
    ['oddflow, decode in memory', inMemory(decodePackets)],
    ['oddflow, inner, fragments', inMemory(everything.decode)],
    ['pcap-parser, bare', () => bareParser(createReadStream(file))],
    ['pcap-parser, as a reader', () => viaReadCapture({ reader: 'pcap-parser' }, false)],
  ]
  const wall = contestants.map(() => [])
  const cpu = contestants.map(() => [])
  for (let round = 0; round < rounds; round++) {
    for (const [k, [name, run]] of contestants.entries()) {
      const before = process.cpuUsage()
      const start = performance.now()
      const count = await run()
      wall[k].push(performance.now() - start)
      const spent = process.cpuUsage(before)
      cpu[k].push((spent.user + spent.system) / 1000)
      if (count !== packets) throw new Error(`${name}: expected ${packets} packets, found ${count}`)
    }
  }
  const version = require('pcap-parser/package.json').version
  console.log(`${packets} packets, ${megabytes} MB, ${rounds} rounds in turn, medians`)
  console.log(`Node ${process.version}, pcap-parser ${version}, ${cpus().length} × ${cpus()[0]?.model}`)
  const base = median(cpu[0])
  for (const [k, [name]] of contestants.entries()) {
    const nanos = ((median(cpu[k]) * 1e6) / packets).toFixed(0)
    console.log(
      `${name.padEnd(26)} wall ${median(wall[k]).toFixed(0).padStart(6)} ms  cpu ${median(cpu[k]).toFixed(0).padStart(6)} ms  ${nanos.padStart(6)} ns/packet  × ${(median(cpu[k]) / base).toFixed(1)}`,
    )
  }

  // a length of 4 GB in the second record, and megabytes behind it
  const lie = join(folder, 'lie.pcap')
  const bad = Uint8Array.from(lap[1])
  new DataView(bad.buffer).setUint32(8, 0xfffffff0, true)
  for (const tailMegabytes of [8, 16, 32]) {
    const out = openSync(lie, 'w')
    for (const part of [encodePcapFileHeader(), lap[0], bad]) writeSync(out, part)
    const zeros = Buffer.alloc(1_048_576)
    for (let k = 0; k < tailMegabytes; k++) writeSync(out, zeros)
    closeSync(out)
    const start = performance.now()
    const bare = await bareParser(createReadStream(lie))
    const between = performance.now()
    const end = await readCapture(lie, () => undefined)
    const after = performance.now()
    console.log(
      `a false length, ${tailMegabytes} MB behind it: pcap-parser ${bare} packet, ${(between - start).toFixed(0)} ms, no error; oddflow ${end.packets} packet, ${(after - between).toFixed(1)} ms, ${end.error?.message}`,
    )
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}

function bareParser(stream) {
  return new Promise((resolve, reject) => {
    let count = 0
    const parser = pcapParser.parse(stream)
    parser.on('packet', () => count++)
    parser.on('end', () => resolve(count))
    parser.on('error', reject)
  })
}

function median(values) {
  return values.toSorted((a, b) => a - b)[values.length >> 1]
}

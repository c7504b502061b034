/**
 * Packets a second from a capture file to feature rows, on one core, beside other programs that make flows.
 *
 * One generated capture (support/generate-traffic.mjs): 1 M packets, 20,000 flows. Every contestant is a
 * process of its own on one core, in turn, ROUNDS times; what counts is the processor time of the whole
 * process, start and compilation included (wall time stands beside it, but depends on what else the machine
 * does). For OddFlow it is told as well what a reading of the file takes in a process that has read it twice
 * (`steady`, the median of five: all is compiled, as in a program that runs for long). Stages of OddFlow: `read` the
 * file, `dissect` the headers, to `flows` (of two packets each), to `features` (iat-size, p = 12, windows of 10 s), to
 * `summaries` (flow-summary). `oddflow extract` is the program itself, from start to the rows in a file. Peers: softflowd, nfpcapd and argus make flows as well;
 * tshark and scapy give a line and a key for each packet, of the first 200,000 and 20,000 of them; the npm
 * package pcap-parser reads. What is not installed is named absent.
 *
 * Then, for OddFlow to features: bytes of heap allocated per packet once all is compiled (the same capture from
 * memory, twice and then four times; V8's sampling profiler, what was collected included), and peak resident
 * memory when 1 M and 4 M packets of as many flows come through a pipe. Linux.
 *
 *   npm run -s build && node packages/flows/bench/line-rate.mjs [ROUNDS] [ACTIVE_FLOWS]
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { trafficBlocks } from './support/generate-traffic.mjs'

const PACKETS = 1_000_000
const FLOWS = 20_000
const TSHARK_PACKETS = 200_000
const SCAPY_PACKETS = 20_000
const ROUNDS = Number(process.argv[2] ?? 5)
const ACTIVE_FLOWS = Number(process.argv[3] ?? 4000)

const stageFile = fileURLToPath(new URL('support/line-rate-stage.mjs', import.meta.url))
const programFile = fileURLToPath(new URL('../../../apps/trainer/dist/main.js', import.meta.url))
const parserFile = createRequire(new URL('../../capture/package.json', import.meta.url)).resolve(
  'pcap-parser',
)
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1]
const mega = (bytes) => (bytes / 1e6).toFixed(1)

const SCAPY = `
import sys
from scapy.all import PcapReader, IP, IPv6, TCP, UDP
flows = {}
for packet in PcapReader(sys.argv[1]):
    ip = packet.getlayer(IP) or packet.getlayer(IPv6)
    ports = packet.getlayer(TCP) or packet.getlayer(UDP)
    if ip is None or ports is None: continue
    ends = sorted([(ip.src, ports.sport), (ip.dst, ports.dport)])
    flows.setdefault((ip.name, ports.name, *ends), []).append((float(packet.time), packet.wirelen))
print(len(flows))
`
const PARSER = `
let packets = 0
const parser = require(process.argv[1]).parse(require('node:fs').createReadStream(process.argv[2]))
parser.on('packet', () => packets++)
parser.on('end', () => console.log(packets))
`

/** Name, program, its arguments, packets in its file, how its version is asked for. */
function contestants(files) {
  const stage = (name) => [
    `oddflow, ${name}`,
    process.execPath,
    [stageFile, name, files.whole],
    PACKETS,
    null,
  ]
  const extract = (features) => [
    `extract, ${features}`,
    existsSync(programFile) ? process.execPath : null,
    [programFile, 'extract', files.whole, '--features', features, '-o', join(files.folder, 'rows.npy')],
    PACKETS,
    null,
  ]
  const scapy = scapyPython()
  const fields = ['ip.src', 'ipv6.src', 'tcp.srcport', 'udp.srcport', 'ip.dst', 'ipv6.dst', 'tcp.dstport']
  fields.push('udp.dstport', 'frame.time_epoch', 'frame.len')
  return [
    stage('read'),
    stage('dissect'),
    stage('flows'),
    stage('features'),
    stage('summaries'),
    extract('flow-summary'),
    extract('iat-size'),
    [
      'softflowd',
      'softflowd',
      ['-r', files.whole, '-6', '-d', '-m', '100000', '-p', files.pid, '-c', 'none'],
      PACKETS,
      ['-h'],
    ],
    ['nfpcapd', 'nfpcapd', ['-r', files.whole, '-w', files.folder], PACKETS, ['-V']],
    ['argus', 'argus', ['-r', files.whole, '-w', '/dev/null'], PACKETS, ['-h']],
    [
      'tshark -T fields',
      'tshark',
      ['-n', '-r', files.tshark, '-T', 'fields', ...fields.flatMap((field) => ['-e', field])],
      TSHARK_PACKETS,
      ['--version'],
    ],
    [
      'scapy',
      scapy,
      ['-c', SCAPY, files.scapy],
      SCAPY_PACKETS,
      ['-c', 'import scapy; print(scapy.__version__)'],
    ],
    ['pcap-parser', process.execPath, ['-e', PARSER, parserFile, files.whole], PACKETS, null],
  ]
}

/** The Python that Debian's scapy runs under is not always the first one. */
function scapyPython() {
  for (const python of ['/usr/bin/python3', 'python3']) {
    if (spawnSync(python, ['-c', 'import scapy.all'], { stdio: 'ignore' }).status === 0) return python
  }
  return null
}

const onOneCore = spawnSync('taskset', ['-c', '0', 'true']).status === 0 ? 'taskset -c 0 ' : ''

/** Wall and processor seconds of one run; null where there is no such program. */
function timeOf(program, args) {
  if (program === null) return null
  const script = `TIMEFORMAT='%R %U %S'; command -v "$1" >/dev/null || exit 127; time ${onOneCore}"$@" >/dev/null 2>&1`
  const { status, stderr } = spawnSync('bash', ['-c', script, 'bash', program, ...args], { encoding: 'utf8' })
  if (status === 127) return null
  if (status !== 0) throw new Error(`${program} ended with exit code ${status}: ${stderr}`)
  const [wall, user, system] = stderr.trim().split(/\s+/).slice(-3).map(Number)
  return { wall, cpu: user + system }
}

function steadySeconds(args) {
  const command = `${onOneCore}"$@"`
  const run = execFileSync('bash', ['-c', command, 'bash', process.execPath, ...args, 'steady'], {
    encoding: 'utf8',
  })
  return JSON.parse(run).cpuSeconds
}

function versionOf(program, args) {
  if (args === null || program === null) return ''
  const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  return /\d+\.\d[\w.]*/.exec(`${stdout}${stderr}`)?.[0] ?? ''
}

function writeCapture(file, packets) {
  const flows = (FLOWS * packets) / PACKETS
  const handle = openSync(file, 'w')
  let bytes = 0
  for (const block of trafficBlocks(packets, flows, ACTIVE_FLOWS)) bytes += writeSync(handle, block)
  closeSync(handle)
  return bytes
}

function allocations(file) {
  const run = execFileSync(process.execPath, [stageFile, 'features', file, 'heap'], { encoding: 'utf8' })
  const { packets, flows, allocatedBytes, places, collections } = JSON.parse(run)
  const list = places.map(({ name, bytes }) => `${name} ${(bytes / packets).toFixed(3)}`).join(', ')
  console.log(
    `to features: ${(allocatedBytes / packets).toFixed(2)} bytes of heap allocated per packet, ${collections} collections ` +
      `in ${packets / 1e6} M packets of ${flows} flows (${list})`,
  )
}

function race(folder) {
  const files = {
    folder,
    whole: join(folder, 'whole.pcap'),
    tshark: join(folder, 'tshark.pcap'),
    scapy: join(folder, 'scapy.pcap'),
    pid: join(folder, 'pid'),
  }
  const bytes = writeCapture(files.whole, PACKETS)
  writeCapture(files.tshark, TSHARK_PACKETS)
  writeCapture(files.scapy, SCAPY_PACKETS)
  const { flows, rows } = JSON.parse(
    execFileSync(process.execPath, [stageFile, 'features', files.whole], { encoding: 'utf8' }),
  )
  console.log(
    `${cpus()[0].model}, ${onOneCore ? 'one core' : 'no taskset: any core'}, Node ${process.version}; ${PACKETS} packets, ${mega(bytes)} MB, ` +
      `${flows} flows (${ACTIVE_FLOWS} at a time), ${rows} rows; ${ROUNDS} rounds in turn, medians; load ${loadavg()[0].toFixed(1)}`,
  )
  const runners = contestants(files)
  const times = runners.map(() => [])
  const steady = runners.map(([name]) => (name.startsWith('oddflow') ? [] : null))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [k, [, program, args]] of runners.entries()) {
      const time = timeOf(program, args)
      if (time !== null) times[k].push(time)
      if (steady[k] !== null) steady[k].push(steadySeconds(args))
    }
  }
  const rates = runners.map(([, , , packets], k) =>
    times[k].length === 0 ? null : packets / median(times[k].map(({ cpu }) => cpu)),
  )
  const ours = rates[runners.findIndex(([name]) => name === 'oddflow, features')]
  for (const [k, [name, program, , packets, version]] of runners.entries()) {
    if (rates[k] === null) {
      console.log(`${name.padEnd(20)} absent`)
      continue
    }
    const best = packets / Math.min(...times[k].map(({ cpu }) => cpu))
    const wall = median(times[k].map((time) => time.wall))
    const told = steady[k] === null ? '' : `, steady ${(packets / median(steady[k]) / 1e6).toFixed(3)}`
    console.log(
      `${name.padEnd(20)} ${(rates[k] / 1e6).toFixed(3).padStart(7)} M packets/s (best ${(best / 1e6).toFixed(3)}, ` +
        `wall ${(packets / wall / 1e6).toFixed(3)}${told}), OddFlow to features × ${(ours / rates[k]).toFixed(2)} ${versionOf(program, version)}`,
    )
  }
  console.log(`load ${loadavg()[0].toFixed(1)} at the end`)
  allocations(files.whole)
}

/** Sends generated packets through a pipe to a stage that tells its peak memory. */
async function fed(stage, packets) {
  const child = spawn(process.execPath, [stageFile, stage, '-', 'memory'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const answer = (async () => {
    let text = ''
    for await (const chunk of child.stdout.setEncoding('utf8')) text += chunk
    return JSON.parse(text)
  })()
  for (const block of trafficBlocks(packets, FLOWS, ACTIVE_FLOWS)) {
    if (!child.stdin.write(block)) await new Promise((resolve) => child.stdin.once('drain', resolve))
  }
  child.stdin.end()
  return answer
}

async function memory() {
  for (const stage of ['read', 'features']) {
    const peaks = []
    for (const packets of [PACKETS, 4 * PACKETS]) peaks.push((await fed(stage, packets)).peakBytes)
    console.log(`${stage}: peak resident memory ${peaks.map(mega).join(' and ')} MB with 1 and 4 M packets`)
  }
}

const folder = mkdtempSync(join(tmpdir(), 'oddflow-line-rate-'))
try {
  race(folder)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
await memory()

/**
 * Captures as tshark reads them: npm run -s slow:compare -- [FOLDER]
 *
 * Every capture of the folder, or of one that generate-captures.py makes (scapy, randpkt and editcap: some 470 of
 * many link layers, tunnels and writers), is read by tshark -T fields and by OddFlow: packets, lengths, times to
 * the nanosecond, and of each packet with ports the addresses and ports, of the outermost IP packet and of the innermost.
 * tshark's reassembly is off; what a packet quotes (ICMP's errors) is no packet of its own. Each difference is
 * printed, and the exit code is then 1.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import {
  createPacketBatch,
  createPacketDecoder,
  formatAddress,
  PACKET_OK,
} from '../../packages/capture/dist/index.js'
import { readCapture } from '../../packages/capture/dist/node/index.js'

const FIELDS = [
  [
    'frame.time_epoch',
    'frame.len',
    'frame.cap_len',
    'frame.protocols',
    'ip.src',
    'ip.dst',
    'ipv6.src',
    'ipv6.dst',
  ],
  ['tcp.srcport', 'tcp.dstport', 'udp.srcport', 'udp.dstport', 'sctp.srcport', 'sctp.dstport'],
].flat()
const SHOWN = 8
/** Differences that are meant, of the captures that generate-captures.py makes; one that no longer occurs is told. */
const EXPLAINED = [
  {
    files: /^editcap-(?:nokia|rh6_1|suse6_3)pcap/,
    lines: /./,
    reason:
      'variants of pcap that bear the magic number of another and are told by trial: draft-ietf-opsawg-pcap 5 has record headers of 16 bytes',
  },
  {
    files: /snapped|simple|^randpkt-sctp/,
    lines: /^packet \d+: (?:outer|inner) .* sctp, tshark null$/,
    reason:
      'the ports are captured, the rest of the SCTP header (RFC 9260, 3.1) is not: a key all the same, as with TCP and UDP',
  },
]
/** Between an IP header and its transport. */
const PASSED = new Set(['ipv6.hopopts', 'ipv6.routing', 'ipv6.dstopts', 'ipv6.fraghdr', 'ah', 'ipv6.ah'])

function byTshark(file) {
  const options = ['ip.defragment:FALSE', 'ipv6.defragment:FALSE', 'tcp.desegment_tcp_streams:FALSE']
  const said = execFileSync(
    'tshark',
    [
      ['-n', '-r', file, ...options.flatMap((option) => ['-o', option]), '-T', 'fields', '-E', 'separator=|'],
      ['-E', 'occurrence=a', '-E', 'aggregator=,', ...FIELDS.flatMap((field) => ['-e', field])],
    ].flat(),
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1e9 },
  )
  const lines = said === '' ? [] : said.replace(/\n$/, '').split('\n')
  return lines.map((line) => {
    const values = line.split('|')
    const of = (name) => values[FIELDS.indexOf(name)].split(',').filter((text) => text !== '')
    const protocols = of('frame.protocols').join(',').split(':')
    const views = viewsOf(protocols, of)
    return {
      time: of('frame.time_epoch')[0] ?? null,
      wire: Number(of('frame.len')[0]),
      captured: Number(of('frame.cap_len')[0]),
      ...views,
    }
  })
}

/** Ends of the outermost IP packet and of the innermost one, where it has ports. */
function viewsOf(protocols, of) {
  const seen = {}
  const nth = (name) => {
    seen[name] = (seen[name] ?? 0) + 1
    return seen[name] - 1
  }
  const found = []
  for (const [at, name] of protocols.entries()) {
    if (name === 'icmp' || name === 'icmpv6') break
    if (name !== 'ip' && name !== 'ipv6') continue
    const k = nth(name)
    let next = at + 1
    while (PASSED.has(protocols[next])) next++
    const transport = protocols[next]
    let ends = null
    if (['tcp', 'udp', 'sctp'].includes(transport)) {
      const t = nth(transport)
      const [from, to] = [of(`${transport}.srcport`)[t], of(`${transport}.dstport`)[t]]
      if (from !== undefined && to !== undefined)
        ends = `${of(`${name}.src`)[k]} ${from} > ${of(`${name}.dst`)[k]} ${to} ${transport}`
    }
    found.push(ends)
  }
  return { outer: found[0] ?? null, inner: found.findLast((ends) => ends !== null) ?? null }
}

async function byOddFlow(file) {
  const rows = []
  const decoders = ['outer', 'inner'].map((decapsulate) => createPacketDecoder({ decapsulate }))
  const packets = createPacketBatch(2048)
  const end = await readCapture(file, (frames) => {
    const first = rows.length
    for (const [k, view] of ['outer', 'inner'].entries()) {
      decoders[k].decode(frames, packets)
      for (let i = 0; i < packets.count; i++) {
        if (k === 0) {
          const micros = packets.timestampMicros[i]
          const nanos = Number.isNaN(micros)
            ? null
            : BigInt(micros) * 1000n + BigInt(frames.timestampSubNanos[i])
          const time = nanos === null ? null : secondsOf(nanos)
          rows.push({ time, wire: packets.frameBytes[i], captured: frames.capturedBytes[i] })
        }
        rows[first + i][view] = endsOf(packets, i)
      }
    }
  })
  return { rows, end }
}

function secondsOf(nanos) {
  const absolute = nanos < 0n ? -nanos : nanos
  return `${nanos < 0n ? '-' : ''}${absolute / 1000000000n}.${String(absolute % 1000000000n).padStart(9, '0')}`
}

const NAMES = { 6: 'tcp', 17: 'udp', 132: 'sctp' }
function endsOf(packets, i) {
  const name = NAMES[packets.protocol[i]]
  if (packets.status[i] !== PACKET_OK || name === undefined) return null
  const end = (column, port) =>
    `${formatAddress(packets[column], 4 * i, packets.ipVersion[i])} ${packets[port][i]}`
  return `${end('sourceAddress', 'sourcePort')} > ${end('destinationAddress', 'destinationPort')} ${name}`
}

async function compare(file) {
  const theirs = byTshark(file)
  const { rows, end } = await byOddFlow(file)
  const differences = []
  if (rows.length !== theirs.length) differences.push(`${rows.length} packets, tshark ${theirs.length}`)
  if (end.error !== null || end.truncated) differences.push(`end: ${end.detail}`)
  for (let i = 0; i < Math.min(rows.length, theirs.length); i++) {
    for (const what of ['time', 'wire', 'captured', 'outer', 'inner']) {
      if (rows[i][what] !== theirs[i][what])
        differences.push(`packet ${i + 1}: ${what} ${rows[i][what]}, tshark ${theirs[i][what]}`)
    }
  }
  return { packets: rows.length, differences }
}

function generate(folder) {
  const script = new URL('generate-captures.py', import.meta.url).pathname
  for (const python of ['/usr/bin/python3', 'python3']) {
    if (spawnSync(python, ['-c', 'import scapy'], { stdio: 'ignore' }).status !== 0) continue
    execFileSync(python, [script, folder], { stdio: ['ignore', 'ignore', 'inherit'] })
    return
  }
  throw new Error('there is no scapy: install python3-scapy, or name a folder of captures')
}

async function run() {
  const given = process.argv[2]
  const folder = given ?? mkdtempSync(join(tmpdir(), 'oddflow-captures-'))
  try {
    if (given === undefined) generate(folder)
    const files = readdirSync(folder).sort()
    let packets = 0
    let differing = 0
    let explained = 0
    const used = new Set()
    for (const [k, name] of files.entries()) {
      const { packets: more, differences: all } = await compare(join(folder, name))
      packets += more
      const known = EXPLAINED.filter(({ files: those }) => those.test(name))
      const differences = all.filter((line) => {
        const reason = known.find(({ lines }) => lines.test(line))
        if (reason !== undefined) used.add(reason)
        return reason === undefined
      })
      if (all.length > 0 && differences.length === 0) explained++
      if (differences.length > 0) {
        differing++
        console.log(`${name}: ${differences.length} differences`)
        for (const line of differences.slice(0, SHOWN)) console.log(`  ${line}`)
      }
      if (k % 25 === 24) process.stderr.write(`${k + 1} of ${files.length} captures, ${differing} differ\n`)
    }
    const unused = given === undefined ? EXPLAINED.filter((reason) => !used.has(reason)) : []
    for (const { files: those, reason } of unused) console.log(`explains nothing: ${those} ${reason}`)
    console.log(
      `${files.length} captures, ${packets} packets: ${differing} captures differ from tshark, ${explained} more as explained`,
    )
    for (const { reason } of used) console.log(`  ${reason}`)
    if (differing > 0 || unused.length > 0) process.exitCode = 1
  } finally {
    if (given === undefined) rmSync(folder, { recursive: true, force: true })
  }
}

await run()

/**
 * Header bits against tshark's decoding of the same packets: VLAN, IPv6 with extension headers, IP options,
 * MPLS, PPPoE, other link layers, snapped packets. Flows and bits are made again here from tshark's numbers.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodePcap } from '@oddflow/capture'
import type { FlowContract } from '@oddflow/core'
import { afterAll, describe, expect, it } from 'vitest'
import { createFlowExtractor } from '../src/index.js'
import { contractOf } from './support/packets.js'
import { goldenCaptures, readPackets, sharedMissing } from './support/shared.js'

const P = 3
/** Capture of the evidence, and what is done to it first: all packets twice, or all cut to a number of bytes. */
const FILES: readonly (readonly [name: string, change: 'as it is' | 'twice' | number])[] = [
  ['iot/alexa_app.pcapng', 'as it is'],
  ['iot/alexa_app.pcapng', 60],
  ['ip/http_ip4and6.pcapng', 'as it is'],
  ['ip/ipv6_ext_headers.pcap', 'twice'],
  ['ip/tcp_port_reuse.pcapng', 'as it is'],
  ['encap/mpls.pcap', 'as it is'],
  ['encap/pppoe.pcap', 'as it is'],
  ['link/radiotap_http.pcap', 'as it is'],
  ['link/raw_12_ipv6.pcap', 'as it is'],
  ['link/sll2_http.pcap', 'as it is'],
]

/** Options in IPv4 and behind two VLAN tags, from a client and back; fields that say which header is which. */
function tagged(): Uint8Array {
  const frame = (client: boolean, flags: number): Uint8Array => {
    const ends = [192, 0, 2, 1, 198, 51, 100, 9]
    const ports = client ? [0xc0, 0x01, 0, 80] : [0, 80, 0xc0, 0x01]
    const addresses = client ? ends : [...ends.slice(4), ...ends.slice(0, 4)]
    return Uint8Array.from([
      ...[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xa8, 0, 7, 0x81, 0, 0x60, 9, 8, 0],
      ...[0x47, 0, 0, 48, 0, 1, 0x40, 0, client ? 63 : 250, 6, 0, 0, ...addresses, 0x94, 4, 0, 0, 1, 1, 1, 0],
      ...[...ports, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 255, 255, 0, 0, 0, 0],
    ])
  }
  const flags = [0xc2, 0x52, 0x10, 0x39]
  return encodePcap(flags.map((value, k) => ({ timestampMicros: k, bytes: frame(k % 2 === 0, value) })))
}

const FIELDS = [
  [
    'ip.src',
    'ip.dst',
    'ip.len',
    'ip.ttl',
    'ip.frag_offset',
    'ipv6.src',
    'ipv6.dst',
    'ipv6.plen',
    'ipv6.hlim',
  ],
  ['ipv6.fraghdr.offset', 'tcp.srcport', 'tcp.dstport', 'tcp.flags', 'udp.srcport', 'udp.dstport'],
].flat()

function hasTshark(): boolean {
  try {
    execFileSync('tshark', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const bits = (value: number, count: number): number[] =>
  Array.from({ length: count }, (_, k) => Math.floor(value / 2 ** (count - 1 - k)) % 2)

/** The first P packets of each flow, in tshark's numbers, as bits. */
function expectedRows(file: string): string[] {
  const said = execFileSync(
    'tshark',
    [
      ['-n', '-r', file, '-o', 'ip.defragment:FALSE', '-o', 'ipv6.defragment:FALSE', '-T', 'fields'],
      ['-E', 'occurrence=f', '-E', 'separator=|', ...FIELDS.flatMap((field) => ['-e', field])],
    ].flat(),
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1e8 },
  )
  const flows = new Map<string, { from: string; packets: number[][] }>()
  for (const line of said.trimEnd().split('\n')) {
    const of = Object.fromEntries(line.split('|').map((value, k) => [FIELDS[k]!, value]))
    const isTcp = of['tcp.srcport'] !== ''
    if (!isTcp && of['udp.srcport'] === '') continue
    const isV4 = of['ip.src'] !== ''
    if (Number(of['ip.frag_offset'] || of['ipv6.fraghdr.offset'] || 0) > 0) continue
    const ports = isTcp
      ? [Number(of['tcp.srcport']), Number(of['tcp.dstport'])]
      : [Number(of['udp.srcport']), Number(of['udp.dstport'])]
    const from = `${isV4 ? of['ip.src'] : of['ipv6.src']} ${ports[0]}`
    const to = `${isV4 ? of['ip.dst'] : of['ipv6.dst']} ${ports[1]}`
    const key = `${isTcp} ${[from, to].sort()}`
    const flow = flows.get(key) ?? { from, packets: [] }
    flows.set(key, flow)
    flow.packets.push([
      ...bits(flow.from === from ? 0 : 1, 1),
      ...bits(isV4 ? 4 : 6, 4),
      ...bits(isV4 ? Number(of['ip.len']) : 40 + Number(of['ipv6.plen']), 16),
      ...bits(Number(isV4 ? of['ip.ttl'] : of['ipv6.hlim']), 8),
      ...bits(isTcp ? 6 : 17, 8),
      ...bits(ports[0]!, 16),
      ...bits(ports[1]!, 16),
      ...(isTcp ? bits(Number(of['tcp.flags']) & 255, 8) : new Array<number>(8).fill(-1)),
    ])
  }
  return [...flows.values()]
    .filter(({ packets }) => packets.length > 1)
    .map(({ packets }) => {
      const row = packets.slice(0, P).flat()
      return [...row, ...new Array<number>(77 * P - row.length).fill(-1)].join('')
    })
    .sort()
}

describe('the bits are those of the headers as tshark reads them', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-header-bits-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it.for(sampleOf(FILES, 0.5))('%s, %s', async ([name, change], context) => {
    if (sharedMissing) return context.skip('no evidence folder: set ODDFLOW_SHARED')
    if (!hasTshark()) return context.skip('no tshark')
    const source = join(goldenCaptures, 'captures', name)
    if (change === 'as it is') return compare(source)
    const changed = join(folder, 'changed.pcapng')
    if (change === 'twice') execFileSync('mergecap', ['-a', '-w', changed, source, source])
    else execFileSync('editcap', ['-s', String(change), source, changed])
    await compare(changed)
  })

  it('two VLAN tags and IPv4 options', async (context) => {
    if (!hasTshark()) return context.skip('no tshark')
    const file = join(folder, 'tagged.pcap')
    writeFileSync(file, tagged())
    await compare(file)
  })

  async function compare(file: string): Promise<void> {
    const rows: string[] = []
    const { iatUnit: _, ...rules } = contractOf({
      idleTimeoutMicros: Number.MAX_SAFE_INTEGER,
      truncation: { mode: 'truncate', durationMicros: Number.MAX_SAFE_INTEGER },
    })
    const extractor = createFlowExtractor({
      contract: { ...rules, featureSet: 'header-bits', packetsPerFlow: P, dimension: 77 * P } as FlowContract,
      onRecord: ({ row }) => {
        if (row !== null) rows.push(Array.from(row).join(''))
      },
    })
    for (const batch of await readPackets(file)) extractor.add(batch)
    extractor.finish()
    expect(rows.sort()).toEqual(expectedRows(file))
    expect(rows.length).toBeGreaterThan(0)
  }
})

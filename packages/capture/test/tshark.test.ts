import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createPacketBatch, decodePackets, formatAddress, formatMac, PACKET_OK } from '../src/index.js'
import { readCapture } from '../src/node/index.js'
import { goldenCaptures, hasProgram, sharedMissing } from './support/shared.js'

const FIELDS = [
  'frame.len',
  'eth.src',
  'eth.dst',
  'ip.src',
  'ip.dst',
  'ipv6.src',
  'ipv6.dst',
  'ip.ttl',
  'ipv6.hlim',
  'ip.len',
  'ipv6.plen',
  'tcp.srcport',
  'tcp.dstport',
  'udp.srcport',
  'udp.dstport',
  'sctp.srcport',
  'sctp.dstport',
  'tcp.flags',
  'tcp.len',
  'ieee8021ad.id',
  'vlan.id',
  'icmp.type',
  'icmp.code',
  'icmpv6.type',
  'icmpv6.code',
  'wlan.sa',
  'wlan.da',
] as const

const golden = join(goldenCaptures, 'captures')
const FILES = [
  'iot/alexa_app.pcapng',
  'iot/fridge_open_shut_b8.pcapng',
  'iot/schlage_lock_week.pcap',
  'ip/http_ip4and6.pcapng',
  'ip/ipv6_ext_headers.pcap',
  'ip/ipv6_routing_atomic_frag.pcap',
  'encap/qinq_8021ad.pcap',
  'encap/mpls.pcap',
  'encap/mpls_pw.pcap',
  'encap/pppoe.pcap',
  'encap/pppoe_compressed_proto.pcap',
  'link/chdlc_104.pcap',
  'link/nflog_239.pcap',
  'link/ppi_ether.pcap',
  'link/ppp_9.pcap',
  'link/radiotap_http.pcap',
  'link/null_loopback.pcapng.gz',
  'link/raw_101.pcap',
  'link/raw_228.pcap',
  'link/sll2_http.pcap',
]

const noTshark = !hasProgram('tshark', 'header columns are not compared with it')

describe.skipIf(noTshark || sharedMissing)('the columns of keyed packets are what tshark shows', () => {
  it.each(sampleOf(FILES, 0.5))('%s', async (name) => {
    const file = join(golden, name)
    const options = ['-o', 'ip.defragment:FALSE', '-o', 'ipv6.defragment:FALSE']
    const fields = FIELDS.flatMap((field) => ['-e', field])
    const said = execFileSync(
      'tshark',
      ['-n', '-r', file, ...options, '-T', 'fields', '-E', 'occurrence=f', '-E', 'separator=|', ...fields],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1e8 },
    )
    const rows = said.trimEnd().split('\n')
    const packets = createPacketBatch(2048)
    let row = 0
    let keyed = 0
    await readCapture(file, (frames) => {
      decodePackets(frames, packets)
      for (let i = 0; i < packets.count; i++) {
        const values = rows[row++]!.split('|')
        const of = (field: (typeof FIELDS)[number]): string => values[FIELDS.indexOf(field)]!
        expect(packets.frameBytes[i]).toBe(Number(of('frame.len')))
        if (packets.status[i] !== PACKET_OK) continue
        keyed++
        const version = packets.ipVersion[i]!
        const hasMacs = [1, 127, 192].includes(frames.linkType[i]!)
        const found = {
          eth: hasMacs ? formatMac(packets.sourceMac, 6 * i) : '',
          ethTo: hasMacs ? formatMac(packets.destinationMac, 6 * i) : '',
          from: formatAddress(packets.sourceAddress, 4 * i, version),
          to: formatAddress(packets.destinationAddress, 4 * i, version),
          ports: [packets.sourcePort[i], packets.destinationPort[i]],
          hops: packets.hopLimit[i],
          ipBytes: packets.ipBytes[i],
          flags: packets.tcpFlags[i],
          payloadBytes: packets.protocol[i] === 6 ? packets.payloadBytes[i] : 0,
          vlan: packets.vlan[i],
        }
        const v4 = version === 4
        const first = (...names: (typeof FIELDS)[number][]): number =>
          Number(names.map(of).find((text) => text !== '') ?? 0)
        const isTransport = [6, 17, 132].includes(packets.protocol[i]!)
        expect(found).toEqual({
          eth: hasMacs ? of('eth.src') || of('wlan.sa') : '',
          ethTo: hasMacs ? of('eth.dst') || of('wlan.da') : '',
          from: of(v4 ? 'ip.src' : 'ipv6.src'),
          to: of(v4 ? 'ip.dst' : 'ipv6.dst'),
          ports: isTransport
            ? [
                first('tcp.srcport', 'udp.srcport', 'sctp.srcport'),
                first('tcp.dstport', 'udp.dstport', 'sctp.dstport'),
              ]
            : v4
              ? icmpPorts(4, of('icmp.type'), of('icmp.code'))
              : icmpPorts(6, of('icmpv6.type'), of('icmpv6.code')),
          hops: Number(of(v4 ? 'ip.ttl' : 'ipv6.hlim')),
          ipBytes: v4 ? Number(of('ip.len')) : 40 + Number(of('ipv6.plen')),
          flags: packets.protocol[i] === 6 ? Number(of('tcp.flags')) & 255 : 0,
          payloadBytes: Number(of('tcp.len')),
          vlan: first('ieee8021ad.id', 'vlan.id'),
        })
      }
    })
    expect(row).toBe(rows.length)
    expect(keyed).toBeGreaterThan(0)
  })
})

/** RFC 792 and RFC 4443: the type that answers, in the place of the code. */
const ANSWERS: Readonly<Record<string, number>> = {
  '4/0': 8,
  '4/8': 0,
  '6/128': 129,
  '6/129': 128,
  '6/133': 134,
  '6/134': 133,
  '6/135': 136,
  '6/136': 135,
}

function icmpPorts(version: number, type: string, code: string): number[] {
  return type === '' ? [0, 0] : [Number(type), ANSWERS[`${version}/${type}`] ?? Number(code)]
}

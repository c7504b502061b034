import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { compileFilter } from '../../src/filter/compile-filter.js'
import { readCapture } from '../../src/node/open-capture.js'
import { createPacketBatch } from '../../src/packet-batch.js'
import { decodePackets } from '../../src/packet-decoder.js'
import { encodePcap } from '../../src/pcap.js'
import { captures, goldenCaptures, hasProgram, sharedMissing } from '../support/shared.js'

const golden = join(goldenCaptures, 'captures')
/** Without VLAN tags and IPv6 fragments, where tcpdump's words mean less (compile-filter.ts). */
const FILES = [
  join(golden, 'iot/alexa_app.pcapng'),
  join(golden, 'iot/botnet_test7.pcap'),
  join(golden, 'iot/fridge_open_shut_b8.pcapng'),
  join(golden, 'iot/huebridge_a1.pcap'),
  join(golden, 'iot/maxgateway_syn_retransmit.pcap'),
  join(golden, 'ip/http_ip4and6.pcapng'),
  join(golden, 'ip/ipv4_fragments.pcap'),
  join(golden, 'ip/icmp_embeds_udp.pcapng'),
  join(golden, 'link/raw_12_ipv6.pcap'),
  join(golden, 'link/raw_101.pcap'),
  join(captures, 'ndpi_dns-exf.pcap'),
  join(captures, 'ndpi_NTPv4.pcap'),
]

const FILTERS = [
  'tcp',
  'udp',
  'icmp',
  'icmp6',
  'ip',
  'ip6',
  'arp',
  'sctp',
  'not ip',
  'not tcp and not udp',
  'tcp or udp',
  'host 192.168.143.43',
  'src host 192.168.143.43',
  'dst host 192.168.143.43',
  'ip host 172.16.16.140',
  'host 2001:db8:1:2::1000',
  'src 2001:db8:1:2::1002',
  'ip6 host 2001:618:1:8000::5',
  'net 192.168',
  'net 192.168.0.0/16',
  'src net 172.16.0.0/12',
  'dst net 10.0.0.0/8',
  'net 192.168.143.0 mask 255.255.255.0',
  'net 2001:db8::/32',
  'src or dst net 224.0.0.0/4',
  'port 443',
  'port 0673',
  'port 0x1bb',
  'portrange 0050-0443',
  'less 0100',
  'greater 0x100',
  'proto 021',
  'net 10.0.0.0/010',
  'port 80 or 443',
  'tcp port 80',
  'udp port 53',
  'src port 53',
  'dst port 443',
  'src or dst port 53',
  'src and dst port 5353',
  'port (80 or 53)',
  'tcp src port 443 and dst host 192.168.143.43',
  'portrange 1-1023',
  'tcp dst portrange 400-500',
  'udp portrange 1900-5353',
  'not port 53 and not 443',
  'tcp or udp and port 53',
  'udp port 53 or tcp and ip6',
  'not (tcp port 443 or arp)',
  '!tcp && !(udp || icmp)',
  'arp or icmp or ip6',
  'host 192.168.143.43 or 172.16.16.140 and port 80',
  'net 0.0.0.0/0',
  'less 80',
  'greater 200 and tcp',
  'proto 17',
  'ip proto 6',
  'ip proto \\udp',
  'ip6 proto 6',
  'proto 1 or 2',
  'ip multicast',
  'ip6 multicast',
  'port domain',
  'port http',
  'port https or ntp',
  'udp port mdns',
  'tcp dst port ssh',
]
const ETHERNET_FILTERS = [
  'ether host 70:2c:1f:39:25:6e',
  'ether src 00:0c:29:d3:46:dd',
  'ether dst ff:ff:ff:ff:ff:ff',
  'ether src 70:2c:1f:39:25:6e and tcp',
  'broadcast',
  'ether broadcast',
  'multicast',
  'ether multicast and not broadcast',
  'ether proto \\arp',
  'ether proto 0x86dd',
  'ether proto 2048',
]

/** Multicast listener reports have a hop-by-hop header, which tcpdump's plain `icmp6` does not pass. */
const TCPDUMP_WORDS: Readonly<Record<string, string>> = { icmp6: 'icmp6 or ip6 protochain 58' }

const noTcpdump = !hasProgram('tcpdump', 'filters are not compared with it')

/** How many packets each filter keeps. */
async function counted(file: string, filters: readonly string[]): Promise<number[]> {
  const compiled = filters.map(compileFilter)
  const counts = new Array<number>(filters.length).fill(0)
  const packets = createPacketBatch(2048)
  await readCapture(file, (frames) => {
    decodePackets(frames, packets)
    for (let i = 0; i < packets.count; i++) {
      compiled.forEach((filter, k) => {
        if (filter(packets, i)) counts[k]!++
      })
    }
  })
  return counts
}

function countedByTcpdump(file: string, filter: string): number {
  const said = execFileSync('tcpdump', ['-n', '--count', '-r', file, TCPDUMP_WORDS[filter] ?? filter], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return Number.parseInt(said, 10)
}

async function expectTcpdumpsCounts(file: string, filters: readonly string[]): Promise<void> {
  const counts = await counted(file, filters)
  for (const [k, filter] of filters.entries()) {
    expect([filter, counts[k]]).toEqual([filter, countedByTcpdump(file, filter)])
  }
}

describe.skipIf(noTcpdump || sharedMissing)('the same packets as tcpdump', () => {
  const pairs = FILES.flatMap((file) => {
    // tcpdump refuses arp and ether on raw IP
    const filters = file.includes('/link/')
      ? FILTERS.filter((filter) => !filter.includes('arp'))
      : [...FILTERS, ...ETHERNET_FILTERS]
    return filters.map((filter) => ({ file, filter }))
  })
  const tried = sampleOf(pairs, 0.3)
  it.each(FILES)('%s', async (file) => {
    const filters = tried.filter((pair) => pair.file === file).map(({ filter }) => filter)
    expect(filters.length).toBeGreaterThan(5)
    await expectTcpdumpsCounts(file, filters)
  })
})

/** What tcpdump makes of "vlan or ip" depends on bytes of packets without a tag. All have a `vlan` in front,: plain words in front of it see through tags, which tcpdump's do not. */
const VLAN_FILTERS = [
  'vlan',
  'not vlan',
  'vlan 10',
  'vlan 012',
  'vlan 024 and vlan 0xA',
  'vlan 0',
  'vlan 20 or vlan 10',
  'vlan and vlan',
  'vlan 20 and vlan 10',
  'vlan 10 and vlan 20',
  'vlan and vlan and ip',
  'vlan and not vlan',
  'vlan and ip',
  'vlan and ip6',
  'vlan and arp',
  'vlan and not ip',
  'vlan or udp',
  'not vlan and udp',
  '(vlan and tcp) or udp',
  'vlan 10 and tcp',
  'vlan 0xa and udp port 53',
  'vlan and port 53 or 80',
  'vlan and net 192.168.0.0/16',
  'vlan and src or dst net 10.0.0.0/8',
  'vlan and host 192.0.2.1',
  'vlan and proto 17',
  'vlan and ip multicast',
  'vlan and multicast',
  'vlan and ether dst ff:ff:ff:ff:ff:ff',
  'vlan and less 100',
  'vlan and ether proto 0x0800',
]

/** Captures with tags, and without PPPoE and MPLS, which tcpdump sees through by words of their own alone. */
const TAGGED = [
  ...['encap/ipip_vlan.pcap', 'encap/qinq_8021ad.pcap', 'encap/vxlan.pcap'].map((name) => join(golden, name)),
  join(golden, 'iot/schlage_lock_week.pcap'),
  ...['ndpi_hsrp2_ipv6.pcapng', 'ndpi_mongodb.pcap', 'ndpi_rdp2.pcap', 'ndpi_rtmp.pcap'].map((name) =>
    join(captures, name),
  ),
  ...['ndpi_smtp-starttls.pcap', 'ndpi_stun.pcap', 'ndpi_whois.pcapng', 'ndpi_gre.pcapng'].map((name) =>
    join(captures, name),
  ),
]

describe.skipIf(noTcpdump)('the same packets of VLANs as tcpdump', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-vlan-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('with no tag, one, or two, and of a priority alone', async () => {
    const macs = [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1]
    const ip = (protocol: number, source: number[], port: number): number[] => [
      ...[8, 0, 0x45, 0, 0, 40, 0, 1, 0, 0, 64, protocol, 0, 0, ...source, 192, 0, 2, 1],
      ...[port >>> 8, port & 255, 0, 53, ...new Array<number>(16).fill(0)],
    ]
    const arp = [
      8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 168, 1, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1,
    ]
    const payloads = [
      ip(6, [192, 168, 1, 1], 80),
      ip(17, [10, 0, 0, 1], 5353),
      arp,
      [0x86, 0xdd, 0x60, ...new Array(60).fill(0)],
    ]
    const tags = [
      ...[
        [],
        [0x81, 0, 0, 10],
        [0x81, 0, 0xe0, 10],
        [0x81, 0, 0, 20],
        [0x81, 0, 0x20, 0],
        [0x88, 0xa8, 0, 20],
      ],
      ...[
        [0x88, 0xa8, 0, 20, 0x81, 0, 0, 10],
        [0x81, 0, 0, 10, 0x81, 0, 0, 20],
        [0x91, 0, 0, 10, 0x81, 0, 0, 10],
      ],
      ...[
        [0x81, 0, 0, 0, 0x81, 0, 0, 10],
        [0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3],
      ],
    ]
    const file = join(folder, 'tags.pcap')
    const frames = tags.flatMap((tag) =>
      payloads.map((payload) => ({
        timestampMicros: 0,
        bytes: Uint8Array.from([...macs, ...tag, ...payload]),
      })),
    )
    writeFileSync(file, encodePcap(frames))
    await expectTcpdumpsCounts(file, VLAN_FILTERS)
  })

  it.skipIf(sharedMissing).each(TAGGED)('%s', (file) => expectTcpdumpsCounts(file, VLAN_FILTERS))
})

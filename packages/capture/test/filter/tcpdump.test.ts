import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { decodePackets } from '../../src/decode-packets.js'
import { compileFilter } from '../../src/filter/compile-filter.js'
import { readCapture } from '../../src/node/open-capture.js'
import { createPacketBatch } from '../../src/packet-batch.js'
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

describe.skipIf(noTcpdump || sharedMissing)('the same packets as tcpdump', () => {
  it.each(FILES)('%s', async (file) => {
    // tcpdump refuses arp and ether on raw IP
    const filters = file.includes('/link/')
      ? FILTERS.filter((filter) => !filter.includes('arp'))
      : [...FILTERS, ...ETHERNET_FILTERS]
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
    for (const [k, filter] of filters.entries()) {
      const said = execFileSync('tcpdump', ['-n', '--count', '-r', file, TCPDUMP_WORDS[filter] ?? filter], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      expect([filter, counts[k]]).toEqual([filter, Number.parseInt(said, 10)])
    }
  })
})

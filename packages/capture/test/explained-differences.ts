/**
 * Where OddFlow's view of a capture differs from the outside evidence, and why.
 *
 * Held both ways: a difference that is not listed fails, and so does an entry that no longer differs. Names
 * of fields: packets, wireBytes, first, last (times), flows and packetsInFlows (captures), ipv4_tcp and so
 * on, unassigned (golden captures).
 */
export interface ExplainedDifference {
  readonly fields: readonly string[]
  readonly reason: string
}

const CUSTOM_BLOCKS =
  'tshark lists custom blocks and other blocks that hold no frame as records; draft-ietf-opsawg-pcapng 4.7 has them skipped'
const LINK_TYPE = 'the link type is not read; its packets count as link-type-unsupported'

/** data/captures: what tshark says. */
export const CAPTURE_DIFFERENCES: Readonly<Record<string, ExplainedDifference>> = {
  'pcapng_test017.pcapng': { fields: ['packets', 'wireBytes'], reason: CUSTOM_BLOCKS },
  'pcapng_test018.pcapng': { fields: ['packets', 'wireBytes'], reason: CUSTOM_BLOCKS },
  'pcapng_test202.pcapng': { fields: ['packets', 'wireBytes'], reason: CUSTOM_BLOCKS },
  'tcpdump_vtp_asan-2.pcap': {
    fields: ['packets', 'wireBytes', 'first', 'last'],
    reason: 'tshark refuses link type 182; its packets are counted here',
  },
  'tcpdump_brcm-tag-prepend.pcap': {
    fields: ['packets', 'wireBytes', 'first', 'last'],
    reason: 'tshark refuses link type 282; its packets are counted here',
  },
  'ndpi_fuzz-2021-10-13.pcap': {
    fields: ['first', 'last'],
    reason:
      'a nanosecond field of 1.88 s: tshark prints it behind the point as it is, here it is carried into the seconds',
  },
  'ndpi_fuzz-2021-06-07-c6c72a0a56.pcap': {
    fields: ['wireBytes', 'first', 'last'],
    reason:
      'a packet of 4,093,509,168 bytes on the wire, which tshark caps at 2^31 − 1, and a fraction of 1404 s, which it does not carry',
  },
  'tcpdump_macsec-short-longer.pcap': {
    fields: ['flows', 'packetsInFlows'],
    reason: 'tshark reads the payload of a MACsec frame (88e5), which is not IP in the outer view',
  },
  'ndpi_dns.pcap': {
    fields: ['flows', 'packetsInFlows'],
    reason: 'PPPoE sessions (8864) count as pppoe',
  },
  'tcpdump_LINKTYPE_IPV4_invalid.pcap': {
    fields: ['flows', 'packetsInFlows'],
    reason: 'LINKTYPE_IPV4 with an IPv6 packet: the link type admits IPv4 alone (tcpdump.org/linktypes)',
  },
  'tcpdump_mpls-ldp-hello.pcap': { fields: ['flows', 'packetsInFlows'], reason: LINK_TYPE },
  'tcpdump_ieee802.11_htc.pcap': { fields: ['flows', 'packetsInFlows'], reason: LINK_TYPE },
}

/** data/golden-captures/expected.json: an independent reader; its outer view. */
export const GOLDEN_DIFFERENCES: Readonly<Record<string, ExplainedDifference>> = {
  'captures/format/pcapng_absurd_ts_snap.pcapng': {
    fields: ['last'],
    reason: 'a time in the year 586,524: beyond 2^53 µs a double is the nearest, not the exact, microsecond',
  },
  'captures/link/radiotap_http.pcap': {
    fields: ['ipv4_tcp', 'packetsInFlows', 'unassigned'],
    reason: LINK_TYPE,
  },
  'captures/link/ppi_ether.pcap': {
    fields: ['ipv4_udp', 'packetsInFlows', 'unassigned'],
    reason: LINK_TYPE,
  },
  'captures/link/ppp_9.pcap': { fields: ['ipv4_udp', 'packetsInFlows', 'unassigned'], reason: LINK_TYPE },
  'captures/link/chdlc_104.pcap': {
    fields: ['ipv4_tcp', 'packetsInFlows', 'unassigned'],
    reason: LINK_TYPE,
  },
  'captures/link/nflog_239.pcap': {
    fields: ['ipv4_tcp', 'packetsInFlows', 'unassigned'],
    reason: LINK_TYPE,
  },
  'captures/encap/pppoe.pcap': {
    fields: ['ipv6_udp', 'packetsInFlows', 'unassigned'],
    reason: 'PPPoE sessions (8864) count as pppoe',
  },
  'captures/encap/pppoe_compressed_proto.pcap': {
    fields: ['ipv4_tcp', 'packetsInFlows', 'unassigned'],
    reason: 'PPPoE sessions (8864) count as pppoe',
  },
  'captures/encap/mpls.pcap': {
    fields: ['packetsInFlows', 'unassigned'],
    reason: 'MPLS frames (8847) count as mpls',
  },
  'captures/encap/mpls_pw.pcap': { fields: ['unassigned'], reason: 'MPLS frames (8847) count as mpls' },
  'captures/encap/many_encapsulations.pcap': {
    fields: ['unassigned'],
    reason: 'one MPLS and one PPPoE frame, whose IP headers are not read',
  },
}

const IPV6_CHAIN_CUT =
  'an IPv6 extension header that is not whole: ip-header-truncated (non-ip here), not another protocol'

/** data/hostile: packets in flows and unassigned ones, where the file is read to its end. */
export const HOSTILE_DIFFERENCES: Readonly<Record<string, ExplainedDifference>> = {
  'packet/ihl_15_no_options.pcap': {
    fields: ['unassigned'],
    reason: 'the IP length is less than the header length (RFC 791, 3.1): ip-header-invalid, not short-l4',
  },
  'real/zeek_trunc/ipv4-truncated-broken-header.pcap': {
    fields: ['unassigned'],
    reason: 'the IP length is less than the header length (RFC 791, 3.1): ip-header-invalid, not short-l4',
  },
  'real/zeek_trunc/ipv4-internally-truncated-header.pcap': {
    fields: ['unassigned'],
    reason: 'the IP options are not all captured: ip-header-truncated, not short-l4',
  },
  'real/tcpdump/hoobr_rt6_print.pcap': { fields: ['unassigned'], reason: IPV6_CHAIN_CUT },
  'real/tcpdump/ip6_frag_asan.pcap': { fields: ['unassigned'], reason: IPV6_CHAIN_CUT },
  'real/tcpdump/ipv6-next-header-oobr-2.pcap': { fields: ['unassigned'], reason: IPV6_CHAIN_CUT },
  'real/tcpdump/ipv6-rthdr-oobr.pcap': { fields: ['unassigned'], reason: IPV6_CHAIN_CUT },
  'real/zeek_trunc/ip6-ext-trunc.pcap': { fields: ['unassigned'], reason: IPV6_CHAIN_CUT },
  'real/tcpdump/icmp-cksum-oobr-2.pcap': { fields: ['unassigned'], reason: LINK_TYPE },
  'real/tcpdump/wb-oobr.pcap': { fields: ['packetsInFlows', 'unassigned'], reason: LINK_TYPE },
  'real/zeek_trunc/mpls-6in6-broken.pcap.gz': {
    fields: ['unassigned'],
    reason: 'MPLS frames (8847) count as mpls',
  },
}

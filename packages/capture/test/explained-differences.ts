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
  'tcpdump_LINKTYPE_IPV4_invalid.pcap': {
    fields: ['flows', 'packetsInFlows'],
    reason: 'LINKTYPE_IPV4 with an IPv6 packet: the link type admits IPv4 alone (tcpdump.org/linktypes)',
  },
}

/** data/golden-captures/expected.json: an independent reader; its outer and inner views. */
export const GOLDEN_DIFFERENCES: Readonly<Record<string, ExplainedDifference>> = {
  'captures/format/pcapng_absurd_ts_snap.pcapng': {
    fields: ['last'],
    reason:
      'a time in the year 586,524: beyond 2^53 − 1 µs it is no time here (NaN, with a warning), so the last one is that of a packet before',
  },
}

const IPV6_CHAIN_CUT =
  'an IPv6 extension header that is not whole: ip-header-truncated (non-ip here), not another protocol'

/** data/hostile: packets in flows and unassigned ones, where the file is read to its end. */
export const HOSTILE_DIFFERENCES: Readonly<Record<string, ExplainedDifference>> = {
  'real/tcpdump/icmp-icmp_print-oobr-2.pcap': {
    fields: ['unassigned'],
    reason: 'Frame Relay is read (RFC 2427, 4; so does tshark): ICMP and VRRP in IPv4, not non-ip',
  },
  'real/tcpdump/vrrp-vrrp_print-oobr.pcap': {
    fields: ['unassigned'],
    reason: 'Frame Relay is read (RFC 2427, 4; so does tshark): VRRP in IPv4, not non-ip',
  },
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
  'real/tcpdump/wb-oobr.pcap': {
    fields: ['packetsInFlows', 'unassigned'],
    reason: 'MPLS in PPP (0281, RFC 3032, 4.3) is read, as tshark does; the evidence counts it as non-ip',
  },
  'real/zeek_trunc/mpls-6in6-broken.pcap.gz': {
    fields: ['unassigned'],
    reason: IPV6_CHAIN_CUT,
  },
}

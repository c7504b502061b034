/** The codes of packet-status.ts as constants, for the decoders. */
import { packetStatusCode } from './packet-status.js'

export const LINK_TYPE_UNSUPPORTED = packetStatusCode('link-type-unsupported')
export const LINK_HEADER_TRUNCATED = packetStatusCode('link-header-truncated')
export const NOT_IP = packetStatusCode('not-ip')
export const ARP = packetStatusCode('arp')
export const IP_HEADER_TRUNCATED = packetStatusCode('ip-header-truncated')
export const IP_HEADER_INVALID = packetStatusCode('ip-header-invalid')
export const IP_LATER_FRAGMENT = packetStatusCode('ip-later-fragment')
export const TRANSPORT_HEADER_TRUNCATED = packetStatusCode('transport-header-truncated')
export const TRANSPORT_HEADER_INVALID = packetStatusCode('transport-header-invalid')
export const NO_TRANSPORT = packetStatusCode('ip-encrypted-or-no-transport')
export const MPLS = packetStatusCode('mpls')
export const PPPOE = packetStatusCode('pppoe')

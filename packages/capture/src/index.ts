export { formatAddress, formatMac, parseIpv4, parseIpv6, parseMac } from './addresses.js'
export { type CaptureDrops, type CaptureEnd, type CaptureFormat, describeDamage } from './capture-notes.js'
export { type CaptureReader, type CaptureReaderOptions, createCaptureReader } from './capture-reader.js'
export {
  type CaptureSummariser,
  type CaptureSummary,
  createCaptureSummariser,
  createFlowKeySet,
  type FlowCounts,
  type FlowKeySet,
} from './capture-summary.js'
export { compileFilter, type PacketFilter } from './filter/compile-filter.js'
export {
  type DnsMessage,
  type DomainName,
  hostName,
  readDnsMessage,
  readDomainName,
  readServerName,
  type ServerName,
} from './host-names.js'
export { icmpCodeOf } from './ip.js'
export { linkTypeName } from './link-layer.js'
export {
  type ColumnSource,
  createFrameBatch,
  createPacketBatch,
  type FrameBatch,
  HEAP_COLUMNS,
  PACKET_OK,
  PACKET_STATUS_NAMES,
  type PacketBatch,
  type PacketStatusName,
  packetStatusCode,
} from './packet-batch.js'
export {
  describePacketCheck,
  PacketCheck,
  type PacketCheckCounts,
  type PacketCheckOptions,
  type PacketCheckWarning,
  packetCheckWarnings,
} from './packet-check.js'
export {
  createPacketDecoder,
  type Decapsulation,
  decodePackets,
  type PacketDecoder,
  type PacketDecoderCounters,
  type PacketDecoderOptions,
} from './packet-decoder.js'
export {
  describeOrder,
  PACKET_ORDER_BYTES,
  PacketOrder,
  type PacketOrderCounts,
  type TakePackets,
} from './packet-order.js'
export {
  encodePcap,
  encodePcapFileHeader,
  encodePcapRecord,
  type PcapFrame,
  type PcapOptions,
} from './pcap.js'

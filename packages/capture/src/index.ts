export { formatAddress, formatMac, parseIpv4, parseIpv6, parseMac, parseOctets, wordOf } from './addresses.js'
export {
  addDrops,
  type CaptureDrops,
  type CaptureEnd,
  type CaptureFormat,
  type CaptureNotes,
  createCaptureNotes,
  createWarningList,
  describeDamage,
  type InterfaceStatistics,
  MAXIMUM_BLOCK_BYTES,
  MAXIMUM_CAPTURED_BYTES,
  MAXIMUM_COMMENT_BYTES,
  MAXIMUM_COMMENTS,
  MAXIMUM_INTERFACES,
  MAXIMUM_WARNINGS,
  MAXIMUM_WIRE_BYTES,
  NO_DROPS,
  type WarningList,
  warnOfLargeCounters,
} from './capture-notes.js'
export {
  type CaptureReader,
  type CaptureReaderOptions,
  createCaptureReader,
  DEFAULT_BATCH_FRAMES,
} from './capture-reader.js'
export { type CaptureSummariser, type CaptureSummary, createCaptureSummariser } from './capture-summary.js'
export type { PacketFilter } from './filter/compile-filter.js'
export { compileFilter, MAXIMUM_FILTER_DEPTH } from './filter/compile-filter.js'
export {
  createFlowKeySet,
  DEFAULT_MAXIMUM_FLOW_KEYS,
  type FlowCounts,
  type FlowKeySet,
} from './flow-key-set.js'
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
  MAXIMUM_OPEN_CAPTURES,
  type MergeCounters,
  type MergeInput,
  type MergeInputCounters,
  mergeCaptures,
} from './merge-captures.js'
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
  DUPLICATE_WINDOW_MICROS,
  describePacketCheck,
  PacketCheck,
  type PacketCheckCounts,
  type PacketCheckOptions,
  type PacketCheckWarning,
  packetCheckWarnings,
} from './packet-check.js'
export {
  createPacketDecoder,
  DECAPSULATIONS,
  type Decapsulation,
  decodePackets,
  MAXIMUM_TUNNELS,
  type PacketDecoder,
  type PacketDecoderCounters,
  type PacketDecoderOptions,
} from './packet-decoder.js'
export {
  describeOrder,
  PACKET_ORDER_BYTES,
  PacketOrder,
  type PacketOrderCounts,
  REORDER_PACKETS,
  REORDER_WINDOW_MICROS,
  type TakePackets,
} from './packet-order.js'
export {
  encodePcap,
  encodePcapFileHeader,
  encodePcapRecord,
  type PcapFrame,
  type PcapOptions,
} from './pcap-writer.js'
export {
  createReorderWindow,
  DEFAULT_WINDOW_FRAMES,
  MAXIMUM_WINDOW_BYTES,
  MAXIMUM_WINDOW_FRAMES,
  type ReorderWindow,
} from './reorder-window.js'
export { type ReplayClock, type ReplayOptions, replayFrames } from './replay-frames.js'

export { extractMatrix, extractRecords } from './extract-records.js'
export type { CollectedFlows } from './flow-collector.js'
export {
  createFlowCollector,
  DEFAULT_IDLE_TIMEOUT_MICROS,
  type FlowCollector,
  type FlowCollectorOptions,
} from './flow-collector.js'
export type { DropReason, FlowCounters } from './flow-counters.js'
export { protocolName } from './flow-counters.js'
export {
  createFlowExtractor,
  DEFAULT_FLOW_MEMORY_BYTES,
  type FlowExtractor,
  type FlowExtractorOptions,
} from './flow-extractor.js'
export {
  type CommunityIdFlow,
  type ConnectionState,
  communityId,
  connectionState,
  createFlowLogFormat,
  type FlowLogField,
  type FlowLogFieldKind,
  type FlowLogFormat,
  type FlowLogOptions,
  flowLogFields,
} from './flow-log.js'
export type { FlowIdentity, RecordCounts } from './flow-record.js'
export {
  copyFlowRecord,
  createFlowRecord,
  END_REASONS,
  type EndReason,
  type FlowRecord,
  type NoRowReason,
} from './flow-record.js'
export { FlowTable, flowTableBytes } from './flow-table.js'
export {
  DEFAULT_SUMMARY_TIMEOUTS,
  flowSummaryContract,
  type LearnContractOptions,
  learnFeatureContract,
  learnIatSizeContract,
  SAMPLING_QUANTILES,
} from './learn-contract.js'
export { judgeOnePacket, learnOnePacketRule, MAXIMUM_SERVICES, serviceName } from './one-packet-rule.js'

export type { CollectedFlows } from './collected-flows.js'
export { extractMatrix, extractRecords } from './extract-records.js'
export {
  createFlowCollector,
  DEFAULT_IDLE_TIMEOUT_MICROS,
  type FlowCollector,
  type FlowCollectorOptions,
} from './flow-collector.js'
export type { DropReason, FlowCounters } from './flow-counters.js'
export {
  createFlowExtractor,
  DEFAULT_FLOW_MEMORY_BYTES,
  type FlowExtractor,
  type FlowExtractorOptions,
} from './flow-extractor.js'
export type { FlowIdentity } from './flow-identity.js'
export { type CommunityIdFlow, communityId } from './flow-log/community-id.js'
export { type ConnectionState, connectionState } from './flow-log/connection-state.js'
export {
  createFlowLogFormat,
  type FlowLogEntry,
  type FlowLogFormat,
  flowLogEntry,
  formatFlowCsvHeader,
  formatFlowCsvLine,
  formatFlowJsonLine,
} from './flow-log/flow-log.js'
export {
  type FlowLogField,
  type FlowLogFieldKind,
  type FlowLogOptions,
  flowLogFields,
} from './flow-log/flow-log-fields.js'
export { protocolName } from './flow-protocols.js'
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
export type { RecordCounts } from './record-counts.js'

/**
 * Options that say how packets become rows: feature set, units, sizes, transports, timeouts, and what happens at
 * the learned duration. `train` and `extract` take them; everywhere else the model's contract has them.
 */
import {
  FLOW_FEATURE_SETS,
  FLOW_PROTOCOLS,
  type FlowFeatureSet,
  type FlowProtocol,
  type SizeMeasure,
} from '@oddflow/core'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { number, whole } from './option-values.js'

export interface FlowFlags {
  readonly features?: FlowFeatureSet
  readonly iatUnit?: 's' | 'us'
  readonly size?: SizeMeasure
  readonly protocols?: readonly FlowProtocol[]
  readonly truncation?: 'split' | 'truncate'
  readonly idleTimeout?: number
  readonly activeTimeout?: number
  readonly endOnClose?: boolean
  readonly vlanKey?: boolean
  readonly samplingQuantile?: number
  readonly headerPackets?: number
}

/** Each with its flag, for refusals by name. */
export const FLOW_FLAGS: Readonly<Record<keyof FlowFlags, string>> = {
  features: '--features',
  iatUnit: '--iat-unit',
  size: '--size',
  protocols: '--protocols',
  truncation: '--truncation',
  idleTimeout: '--idle-timeout',
  activeTimeout: '--active-timeout',
  endOnClose: '--end-on-close',
  vlanKey: '--vlan-key',
  samplingQuantile: '--sampling-quantile',
  headerPackets: '--header-packets',
}

/** @param truncation what happens at the learned duration where nothing is said. */
export function withFlowFlags(command: Command, truncation: 'split' | 'truncate'): Command {
  const options = [
    new Option('--features <set>', "features of a row (default: the recipe's)").choices([
      ...FLOW_FEATURE_SETS,
    ]),
    new Option(
      '--iat-unit <unit>',
      'unit of the times in rows: iat-size, iat, stats-header (default: s)',
    ).choices(['s', 'us']),
    new Option(
      '--size <measure>',
      'packet size: frame on the wire, IP length, payload of the transport, or captured bytes (default: payload for flow-summary, else frame)',
    ).choices(['frame', 'ip', 'payload', 'captured']),
    new Option(
      '--protocols <list>',
      `transports whose flows count, of ${FLOW_PROTOCOLS.join(',')} (default: tcp,udp)`,
    ).argParser(protocolList),
    new Option(
      '--truncation <mode>',
      `packet feature sets: at the learned duration, split a flow or truncate it (default: ${truncation})`,
    ).choices(['split', 'truncate']),
    new Option('--idle-timeout <seconds>', 'end a flow after a longer gap (default: 600)').argParser(number),
    new Option(
      '--active-timeout <seconds>',
      'cut a flow after this time; its rest is another flow (default: 600 for flow-summary, else none)',
    ).argParser(number),
    new Option(
      '--end-on-close',
      'end a TCP flow 1 s after RST or both FINs; a SYN after FIN or RST starts another (default for flow-summary)',
    ),
    new Option('--no-end-on-close', 'let TCP flags end no flow (default for all but flow-summary)'),
    new Option('--vlan-key', 'keep packets of different VLANs in different flows'),
    new Option(
      '--sampling-quantile <q>',
      'samp-size, samp-num: length of a window as a quantile of flow durations (default: 0.3)',
    ).argParser(number),
    new Option(
      '--header-packets <count>',
      'header-bits: maximum number of packets in a row (default: 10)',
    ).argParser(whole),
  ]
  for (const option of options) command.addOption(option.helpGroup('Flows and features:'))
  return command
}

function protocolList(text: string): readonly FlowProtocol[] {
  const names = text.split(',').map((name) => name.trim())
  const unknown = names.find((name) => !(FLOW_PROTOCOLS as readonly string[]).includes(name))
  if (unknown !== undefined) {
    throw new InvalidArgumentError(`expected some of ${FLOW_PROTOCOLS.join(',')}, found "${unknown}".`)
  }
  return FLOW_PROTOCOLS.filter((name) => names.includes(name))
}

/**
 * A novel flow record → an alert.
 *
 * The id is a
 * hash of the model, the flow and the record's place in it: the same record under the same model has the same
 * id whenever it is judged, so whoever receives an alert twice can tell.
 */

import { createHash } from 'node:crypto'
import { formatAddress } from '@oddflow/capture'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import { isResponderDevice, macText, type Network, type Rarity, reportedBytes } from '@oddflow/program'
import type { Verdict } from '../pipeline/watcher.js'
import { type Alert, type AlertRule, isFactRule } from './alert.js'

export interface AlertContext {
  readonly localNetworks: readonly Network[]
  /** What a device calls itself; null where it has not said. */
  readonly nameOf?: (mac: string) => string | null
}

/** A verdict, or what takes its place in an alert of a device. */
export type AlertVerdict = Omit<Verdict, 'rule'> & {
  readonly rule: AlertRule
  readonly fact?: string
  /** A fact about the responder, whichever end is the device of a verdict. */
  readonly isOfResponder?: boolean
}

export function makeAlert(
  record: FlowRecord,
  verdict: AlertVerdict,
  losses: Pick<Alert, 'lostPackets' | 'lostInWindow'>,
  rarity: Rarity | null,
  context: AlertContext,
): Alert {
  const { ipVersion, protocol, initiatorAddress, responderAddress } = record
  const source = formatAddress(initiatorAddress, 0, ipVersion)
  const destination = formatAddress(responderAddress, 0, ipVersion)
  const isResponder = verdict.isOfResponder ?? isResponderDevice(record, context.localNetworks)
  const { initiator: initiatorBytes, responder: responderBytes } = reportedBytes(record)
  const model = verdict.model ?? ''
  const mac = macText(isResponder ? record.responderMac : record.initiatorMac)
  const name = mac === null ? null : (context.nameOf?.(mac) ?? null)
  const idText = isFactRule(verdict.rule) ? `${model} ${verdict.rule}` : model
  const flowHash = hashOf([...keyNumbers(record), record.captureIndex, record.flowFirstPacketNumber], '')
  const recordHash = hashOf([...keyNumbers(record), record.startMicros, record.pieceIndex], idText)
  return {
    id: recordHash.toString('hex', 0, 16),
    flowId: Number(flowHash.readBigUInt64BE(0) >> 11n),
    sourceWords: initiatorAddress.slice(),
    destinationWords: responderAddress.slice(),
    ipVersion,
    protocol,
    vlan: record.vlan,
    device: {
      mac,
      address: isResponder ? destination : source,
      ...(name === null ? {} : { name }),
    },
    peer: isResponder ? source : destination,
    flow: {
      protocol: protocolName(protocol),
      source,
      sourcePort: record.initiatorPort,
      destination,
      destinationPort: record.responderPort,
      startMicros: record.startMicros,
      durationMicros: record.durationMicros,
      packets: record.packets,
      bytes: initiatorBytes + responderBytes,
      piece: record.pieceIndex,
    },
    flowStartMicros: record.flowStartMicros,
    initiatorPackets: record.initiatorPackets,
    responderPackets: record.responderPackets,
    initiatorBytes,
    responderBytes,
    rule: verdict.rule,
    ...(verdict.fact === undefined ? {} : { fact: verdict.fact }),
    score: verdict.score,
    threshold: verdict.threshold,
    early: verdict.early,
    atMicros: record.startMicros + record.durationMicros,
    model: verdict.model,
    ...losses,
    rarity,
    row: verdict.score === null ? null : (record.row?.slice() ?? null),
    ...(verdict.shadow === undefined ? {} : { shadow: verdict.shadow }),
    folded: null,
  }
}

function keyNumbers(record: FlowRecord): number[] {
  return [
    record.ipVersion,
    record.protocol,
    ...record.initiatorAddress,
    ...record.responderAddress,
    record.initiatorPort,
    record.responderPort,
  ]
}

/** SHA-256 of numbers and a text. */
function hashOf(numbers: readonly number[], text: string): Buffer {
  const bytes = new DataView(new ArrayBuffer(8 * numbers.length))
  for (const [i, number] of numbers.entries()) bytes.setFloat64(8 * i, number)
  return createHash('sha256').update(new Uint8Array(bytes.buffer)).update(text).digest()
}

/**
 * Verdicts on flow records under a saved model, for files and live traffic. Each names its rule:
 *
 * - `score`: the record has a row, and is novel if its score is at or below the threshold;
 * - `one-packet`: under feature sets of single packets, a flow of one packet is novel unless training had one-packet flows
 *   to the same service;
 * - `not-judged`: the record has no row for another reason (too few packets in time, or the authors' rules).
 */

import { formatAddress, formatMac, parseIpv4, parseIpv6 } from '@oddflow/capture'
import {
  ArgumentError,
  ContractMismatchError,
  type FlowContract,
  matrixOf,
  type OnePacketRule,
} from '@oddflow/core'
import { createScoreWorkspace, isNovel, type SavedModel, scoreSamples } from '@oddflow/detectors'
import { type FlowRecord, judgeOnePacket } from '@oddflow/flows'

/** Ranges without routes on the Internet: RFC 1918, 6598 (shared), 3927 and 4291 (link-local), 4193 (unique local). */
export const PRIVATE_NETWORKS: readonly string[] = [
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '169.254.0.0/16',
  'fe80::/10',
  'fc00::/7',
]

/** A range of addresses: "192.0.2.0/24", "2001:db8::/32", or one address. */
export interface Network {
  readonly ipVersion: 4 | 6
  /** Four words, as addresses have them in packets. */
  readonly words: Uint32Array
  readonly masks: Uint32Array
}

/** Throws ArgumentError that says what was expected. */
export function parseNetwork(text: string): Network {
  const [address, length, more] = text.split('/')
  const v4 = parseIpv4(address)
  const v6 = v4 === null ? parseIpv6(address) : null
  const bits = v4 === null ? 128 : 32
  const prefix = length === undefined ? bits : /^\d{1,3}$/.test(length) ? Number(length) : -1
  if ((v4 === null && v6 === null) || prefix < 0 || prefix > bits || more !== undefined) {
    throw new ArgumentError(
      `expected an address or a network such as 192.0.2.0/24 or 2001:db8::/32, found ${JSON.stringify(text)}`,
    )
  }
  const words = v6 ?? Uint32Array.of(0, 0, 0, v4!)
  const skipped = v4 === null ? 0 : 96
  const masks = Uint32Array.from({ length: 4 }, (_, w) => maskOf(prefix + skipped - 32 * w))
  return { ipVersion: v4 === null ? 6 : 4, words: words.map((word, w) => word & masks[w]), masks }
}

/** Whether an address, given as four words, lies in a network. */
export function isInNetwork(network: Network, words: ArrayLike<number>, ipVersion: number): boolean {
  if (network.ipVersion !== ipVersion) return false
  for (let w = 0; w < 4; w++) if ((words[w] & network.masks[w]) >>> 0 !== network.words[w]) return false
  return true
}

/** The word with its first `bits` bits set; all from 32 on, none below 1. */
function maskOf(bits: number): number {
  if (bits <= 0) return 0
  return bits >= 32 ? 0xffffffff : (0xffffffff << (32 - bits)) >>> 0
}

/** Whether the responder is the device of a flow: the end in a local network, or the initiator if both or neither are. */
export function isResponderDevice(record: FlowRecord, localNetworks: readonly Network[]): boolean {
  const { ipVersion, initiatorAddress, responderAddress } = record
  const isLocal = (address: Uint32Array): boolean =>
    localNetworks.some((network) => isInNetwork(network, address, ipVersion))
  return !isLocal(initiatorAddress) && isLocal(responderAddress)
}

/** null where the link has no addresses. */
export function macText(mac: Uint8Array): string | null {
  return mac.some((byte) => byte !== 0) ? formatMac(mac, 0) : null
}

/** The device of a flow: its MAC address as text, or its IP address where the link has none. */
export function deviceKeyOf(record: FlowRecord, localNetworks: readonly Network[]): string {
  const isResponder = isResponderDevice(record, localNetworks)
  return (
    macText(isResponder ? record.responderMac : record.initiatorMac) ??
    formatAddress(isResponder ? record.responderAddress : record.initiatorAddress, 0, record.ipVersion)
  )
}

/**
 * Equal numbers, from 0, for records of one device in one capture; the private networks are local. The device is that of
 * deviceKeyOf, without its text.
 */
export function createDeviceNumbers(): (record: FlowRecord) => number {
  const localNetworks = PRIVATE_NETWORKS.map(parseNetwork)
  const captures = new Map<number, Map<number | string, number>>()
  let count = 0
  return (record) => {
    const devices = captures.get(record.captureIndex) ?? new Map<number | string, number>()
    captures.set(record.captureIndex, devices)
    const isResponder = isResponderDevice(record, localNetworks)
    const mac = macNumber(isResponder ? record.responderMac : record.initiatorMac)
    const address = isResponder ? record.responderAddress : record.initiatorAddress
    const device = mac !== 0 ? mac : formatAddress(address, 0, record.ipVersion)
    const number = devices.get(device) ?? count++
    devices.set(device, number)
    return number
  }
}

/** Its 48 bits; 0 where the link layer has no address. */
function macNumber(mac: Uint8Array): number {
  let number = 0
  for (let i = 0; i < 6; i++) number = 256 * number + mac[i]!
  return number
}

/** The rule that gave a verdict. */
export type VerdictRule = 'score' | 'one-packet' | 'not-judged'

/** A verdict on a flow record. */
export interface Verdict {
  /** Higher is more normal; null if another rule than the score decided. */
  readonly score: number | null
  readonly novel: boolean
  readonly rule: VerdictRule
}

/** Gives verdicts on flow records under one model. */
export interface FlowJudge {
  /** The model's: records must be made under it. */
  readonly contract: FlowContract
  /** D numbers, to which an extractor writes its rows (FlowExtractorOptions.row). */
  readonly row: Float64Array
  /** A record's row, where it has one, must be `row`. */
  judge(record: FlowRecord): Verdict
}

/**
 * Bytes of a flow's ends for people: the contract's size measure, or the IP lengths where these are more, since a scan
 * carries no payload and a capture may hold the beginnings of its packets.
 */
export function reportedBytes(
  record: Pick<FlowRecord, 'initiatorBytes' | 'initiatorIpBytes' | 'responderBytes' | 'responderIpBytes'>,
): { readonly initiator: number; readonly responder: number } {
  return {
    initiator: Math.max(record.initiatorBytes, record.initiatorIpBytes),
    responder: Math.max(record.responderBytes, record.responderIpBytes),
  }
}

/**
 * Throws ContractMismatchError for a model that was trained on rows and knows nothing of flows.
 * @param given - a row that judges of one contract share; default a new one.
 */
export function createFlowJudge(
  { contract, detector, threshold, onePacketRule }: SavedModel,
  given?: Float64Array,
): FlowJudge {
  if (contract.featureSet === 'rows') {
    throw new ContractMismatchError(
      'the model was trained on feature rows, not on captures; train on captures, or extract rows in the way its own were made',
    )
  }
  const workspace = createScoreWorkspace(detector)
  const row = given ?? new Float64Array(contract.dimension)
  const matrix = matrixOf(1, contract.dimension, row)
  const score = new Float64Array(1)
  return {
    contract,
    row,
    judge(record) {
      if (record.row !== null) {
        scoreSamples(detector, matrix, score, workspace)
        return { score: score[0]!, novel: isNovel(score[0]!, threshold), rule: 'score' }
      }
      return judgeWithoutRow(onePacketRule, record)
    },
  }
}

/** The verdict on a record that has no row. */
export function judgeWithoutRow(onePacketRule: OnePacketRule | null, record: FlowRecord): Verdict {
  if (record.noRowReason !== 'one-packet') return { score: null, novel: false, rule: 'not-judged' }
  const novel = onePacketRule === null || judgeOnePacket(onePacketRule, record)
  return { score: null, novel, rule: 'one-packet' }
}

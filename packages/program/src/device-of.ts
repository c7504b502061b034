/**
 * Which end of a flow is the device: the end in a local network, the initiator where both are or neither is.
 *
 * A device goes by its MAC address, and by its address where the link has none.
 */
import { formatAddress, formatMac } from '@oddflow/capture'
import type { FlowRecord } from '@oddflow/flows'
import { isInNetwork, type Network, PRIVATE_NETWORKS, parseNetwork } from './local-networks.js'

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

export function deviceKeyOf(record: FlowRecord, localNetworks: readonly Network[]): string {
  const isResponder = isResponderDevice(record, localNetworks)
  return (
    macText(isResponder ? record.responderMac : record.initiatorMac) ??
    formatAddress(isResponder ? record.responderAddress : record.initiatorAddress, 0, record.ipVersion)
  )
}

/** Numbers that are equal for records of one device in one capture, from 0; local are the private networks. */
export function createDeviceNumbers(): (record: FlowRecord) => number {
  const localNetworks = PRIVATE_NETWORKS.map(parseNetwork)
  const numbers = new Map<string, number>()
  return (record) => {
    const key = `${record.captureIndex} ${deviceKeyOf(record, localNetworks)}`
    const number = numbers.get(key) ?? numbers.size
    numbers.set(key, number)
    return number
  }
}

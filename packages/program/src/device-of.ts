/**
 * Which end of a flow is the device: the end in a local network, the initiator where both are or neither is.
 *
 * A device goes by its MAC address, and by its address where the link has none.
 */
import { formatAddress, formatMac } from '@oddflow/capture'
import type { FlowRecord } from '@oddflow/flows'
import { isInNetwork, type Network } from './local-networks.js'

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

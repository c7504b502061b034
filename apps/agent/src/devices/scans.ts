/**
 * Scans: ports of a device, or of a local address that is no known device, that were tried, and hosts that a device tried.
 *
 * A *probe* is a flow of at most PROBE_PACKETS packets of its initiator: a connection that is used has more. Ports from 32,768
 * on are no services and are not counted, nor is what may be the answer to a request that was not seen.
 */
import { formatAddress } from '@oddflow/capture'
import { copyFlowRecord, type FlowRecord } from '@oddflow/flows'
import { spanText } from '../incidents/sentences.js'
import type { FirstContact } from './contacts.js'
import type { Device } from './device.js'
import { addressesOf, type FactSources, hashOf, isLocal, whoText } from './fact-sources.js'
import type { Spread, Spreads } from './spreads.js'

const PROBE_PACKETS = 4
const EPHEMERAL = 32_768
const PRIVILEGED = 1024
/** Local addresses that are no known device; the one with fewest ports makes room. */
const MAXIMUM_UNKNOWN = 64
const [TCP, UDP] = [6, 17]

/** Ports of a device that were tried, and hosts that it tried. */
type Probes = Record<'ports' | 'hosts', Spread>

export interface Scans {
  /** A flow, each of its ends that is a known device, and whether it is a first contact of its initiator. */
  note(
    record: FlowRecord,
    initiator: Device | undefined,
    target: Device | undefined,
    first: FirstContact | null,
  ): void
}

export function createScans(sources: FactSources, spreads: Spreads): Scans {
  const probes = new WeakMap<Device, Probes>()
  /** By address. */
  const unknown = new Map<string, Spread>()

  const probesOf = (device: Device): Probes => {
    const of = probes.get(device) ?? { ports: spreads.create(), hosts: spreads.create() }
    probes.set(device, of)
    return of
  }
  const unknownAt = (address: string): Spread => {
    const known = unknown.get(address)
    if (known !== undefined) return known
    if (unknown.size >= MAXIMUM_UNKNOWN) {
      const [least, spread] = [...unknown].reduce((a, b) => (b[1].count < a[1].count ? b : a))
      spreads.close(spread, tellPorts)
      unknown.delete(least)
    }
    const spread = spreads.create()
    unknown.set(address, spread)
    return spread
  }
  const tellPorts = (spread: Spread, record: FlowRecord, lastMicros: number): void => {
    const [initiator, responder] = addressesOf(record)
    const by = whoText(sources, record.initiatorMac, initiator, lastMicros)
    const span = spanText(spread.lastMicros - spread.beganMicros)
    const fact = `${responder} was contacted on ${spread.count} ports in ${span} by ${by}`
    sources.onFact(record, 'port-scan', fact, true)
  }
  const tellHosts = (spread: Spread, record: FlowRecord, lastMicros: number): void => {
    const by = whoText(sources, record.initiatorMac, addressesOf(record)[0], lastMicros)
    const span = spanText(spread.lastMicros - spread.beganMicros)
    const fact = `${spread.count} hosts or services were contacted for the first time in ${span}, a few packets each, by ${by}`
    sources.onFact(record, 'host-scan', fact, false)
  }
  return {
    note(record, initiator, target, first) {
      const { protocol, responderPort, initiatorPort, responderAddress, startMicros, ipVersion } = record
      if (record.initiatorPackets > PROBE_PACKETS) return
      if (initiatorPort < PRIVILEGED && responderPort >= PRIVILEGED) return
      const copy = (): FlowRecord => copyFlowRecord(record)
      const countHost = (device: Device, host: number): void =>
        spreads.count(probesOf(device).hosts, host, startMicros, copy, tellHosts)
      if (isLocal(sources, responderAddress, ipVersion)) {
        if ((protocol === TCP || protocol === UDP) && responderPort < EPHEMERAL) {
          const ports =
            target === undefined
              ? unknownAt(formatAddress(responderAddress, 0, ipVersion))
              : probesOf(target).ports
          spreads.count(ports, responderPort, startMicros, copy, tellPorts)
        }
        if (initiator !== undefined && first?.isNewPeer === true)
          countHost(initiator, hashOf(responderAddress, 0))
        return
      }
      // outside those count that do not answer: a browser's do
      const isRefused = (record.responderTcpFlags & 4) !== 0 && record.responderPackets <= 1
      if (initiator !== undefined && first !== null && (record.responderPackets === 0 || isRefused))
        countHost(initiator, hashOf(responderAddress, responderPort))
    },
  }
}

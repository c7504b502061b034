/** Large transfers: much data in one direction in unusual flows, against the usual flow that is most like them. */
import { type Alert, servicePort } from '../alerts/alert.js'
import type { AlertExplainer } from '../alerts/eve.js'
import { serviceText, sizeText, spanText } from './sentences.js'

/** A large transfer has at least these bytes, and this multiple of those of the nearest usual flow. */
const VOLUME_BYTES = 65_536
const VOLUME_TIMES = 16
/** Within so long. */
const VOLUME_MICROS = 600_000_000
/** Of IP and TCP, with options. */
const HEADER_BYTES = 60

/** Within VOLUME_MICROS. */
export interface Volume {
  beganMicros: number
  flows: number
  sentBytes: number
  receivedBytes: number
  /** Of either direction: when it is compared with the usual again. */
  nextBytes: number
}

export function noVolume(beganMicros = 0): Volume {
  return { beganMicros, flows: 0, sentBytes: 0, receivedBytes: 0, nextBytes: VOLUME_BYTES }
}

/** Adds an unusual flow; returns the large transfers that it or those just before are, in words that follow the device's name. */
export function volumeFacts(
  volume: Volume,
  alert: Alert,
  atMicros: number,
  explain: AlertExplainer,
): { readonly rule: 'upload' | 'download'; readonly fact: string }[] {
  if (Math.abs(atMicros - volume.beganMicros) >= VOLUME_MICROS)
    Object.assign(volume, noVolume(atMicros - alert.flow.durationMicros))
  const { sent, received } = bytesOf(alert)
  volume.flows++
  volume.sentBytes += sent.isData ? sent.bytes : 0
  volume.receivedBytes += received.isData ? received.bytes : 0
  const most = Math.max(volume.sentBytes, volume.receivedBytes)
  if (most < volume.nextBytes) return []
  volume.nextBytes = 2 * most
  const { nearestBytes } = explain(alert)
  const flows = volume.flows === 1 ? 'one unusual flow' : `${volume.flows} unusual flows`
  const peer = `${alert.peer} (${serviceText(alert.flow.protocol, servicePort(alert.flow))})`
  const span = spanText(atMicros - volume.beganMicros)
  return (
    [
      ['upload', 'sent', volume.sentBytes, sent.by, 'to'],
      ['download', 'received', volume.receivedBytes, received.by, 'from'],
    ] as const
  ).flatMap(([rule, verb, bytes, end, direction]) => {
    const usual = nearestBytes?.[end] ?? null
    if (usual === null || bytes < VOLUME_BYTES || bytes < VOLUME_TIMES * usual) return []
    const fact = `${verb} ${sizeText(bytes)} in ${span}, in ${flows} ${direction} ${peer}; the most similar usual flow ${verb} ${sizeText(usual)}`
    return [{ rule, fact }]
  })
}

/** Of what one end of a flow sent. */
interface EndBytes {
  readonly by: 'initiator' | 'responder'
  readonly bytes: number
  /** More than headers: requests of a flood are no data. */
  readonly isData: boolean
}

/** From the sight of the device. */
export function bytesOf({ device, flow, ...alert }: Alert): { sent: EndBytes; received: EndBytes } {
  const initiator: EndBytes = {
    by: 'initiator',
    bytes: alert.initiatorBytes,
    isData: alert.initiatorBytes > HEADER_BYTES * alert.initiatorPackets,
  }
  const responder: EndBytes = {
    by: 'responder',
    bytes: alert.responderBytes,
    isData: alert.responderBytes > HEADER_BYTES * alert.responderPackets,
  }
  return device.address === flow.source
    ? { sent: initiator, received: responder }
    : { sent: responder, received: initiator }
}

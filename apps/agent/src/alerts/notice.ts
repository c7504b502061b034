/**
 * Notice: an event about the agent itself, such as an overload. Notices go where alerts go, in the same order, and are not
 * suppressed or folded. In EVE they are alerts without addresses; `oddflow` has `id`, `rule`, `summary` and numbers by name.
 */
import { createHash } from 'node:crypto'
import { jsonLine } from '@oddflow/program'
import type { NoticeEvent, NoticeRule } from '../page/api.js'
import { eveAlert, eveTime, type Signature } from './eve.js'

export interface Notice {
  readonly rule: NoticeRule
  readonly atMicros: number
  readonly summary: string
  readonly numbers?: Readonly<Record<string, number>>
}

/** Behind those of flows (eve.ts). */
const SIGNATURES: Readonly<Record<NoticeRule, Signature>> = {
  degraded: [1_790_006, 'agent degraded'],
  recovered: [1_790_007, 'agent recovered'],
  'blind-model': [1_790_008, 'model that notices no synthetic attack'],
  'overload-entered': [1_790_009, 'overload: the agent drops packets'],
  'overload-left': [1_790_010, 'overload is over'],
  'state-damaged': [1_790_011, 'damage in the state folder'],
  'fleet-model': [1_790_012, 'a model of the fleet is in use, or refused'],
}

/** One line of JSON without its line feed. @param iface - the interface's name, null for a file. */
export function encodeNotice(notice: Notice, iface: string | null): Uint8Array {
  const { rule, atMicros, summary, numbers = {} } = notice
  const id = createHash('sha256').update(`${atMicros} ${rule} ${summary}`).digest('hex').slice(0, 32)
  const event = {
    timestamp: eveTime(atMicros),
    ...(iface === null ? {} : { in_iface: iface }),
    event_type: 'alert',
    alert: eveAlert(SIGNATURES[rule], 'Not Suspicious Traffic'),
    oddflow: { id, rule, summary, ...numbers },
  }
  // what the page looks into
  const checked: NoticeEvent = event
  return new TextEncoder().encode(jsonLine(checked))
}

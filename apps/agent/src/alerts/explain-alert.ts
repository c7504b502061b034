/**
 * Why an alert: a sentence for people, and the features that moved the score.
 *
 * The features, and the reasons in words, are `createFlowExplainer`'s of @oddflow/program, from the sight of the device
 * that the alert is about. It takes up to some hundred scores, so it is made as an alert is given out and not for those
 * that are folded.
 *
 * The sentence holds words of the program's own, numbers, and addresses as packets have them: nothing that a device
 * could have chosen.
 */
import type { SavedModel } from '@oddflow/detectors'
import { createFlowExplainer, type FlowExplanation, rarityText } from '@oddflow/program'
import { type Alert, servicePort } from './alert.js'

/** What the sentence is about: as FlowExplanation has it, or another rule than the score. */
export type AlertReason = FlowExplanation['reason'] | 'rule'

export interface AlertExplanation extends Omit<FlowExplanation, 'reason'> {
  readonly reason: AlertReason
  /** A sentence for people. */
  readonly summary: string
}

export type AlertExplainer = (alert: Alert) => AlertExplanation

export function createAlertExplainer(saved: SavedModel): AlertExplainer {
  const explain = createFlowExplainer(saved)
  return (alert) => {
    const { row, score, threshold, flow, device } = alert
    if (row === null || score === null || threshold === null) return explainNothing(alert)
    const viewpoint = device.address === flow.source ? 'initiator' : 'responder'
    const found = explain({ row, score, threshold, packets: flow.packets, viewpoint })
    return { ...found, summary: summaryOf(alert, found.reason, found.reasons) }
  }
}

/** Of what no model can be asked about. */
export function explainNothing(alert: Alert): AlertExplanation {
  const reason = alert.rule === 'score' ? 'no-comparison' : 'rule'
  return { reason, reasons: [], summary: summaryOf(alert, reason, []), mode: null, features: [] }
}

function summaryOf(alert: Alert, reason: AlertReason, reasons: readonly string[]): string {
  const { flow, device, peer, rule, rarity, folded, fact } = alert
  const what = `${flow.protocol} between ${device.mac ?? device.address} and ${peer}, port ${servicePort(flow)}`
  const count = folded === null ? '' : ` (${folded.count} more alike)`
  if (fact !== undefined) return `${fact}${count}`
  // flows of more packets may have gone there: the rule knows of none but those of one (flows: one-packet-rule.ts)
  if (rule === 'one-packet')
    return `one packet of ${what}: no flow of a single packet to this service was seen in training${count}`
  if (rule === 'new-device')
    return `${device.mac ?? device.address} was not seen before; its first flow: ${what}`
  if (rule === 'device-flood')
    return `many new devices within a minute, the last of them ${device.mac ?? device.address}`
  const rare = rarity === null ? null : rarityText(rarity)
  const rest = `${rare === null ? '' : `; ${rare}`}${count}`
  if (reason === 'no-comparison')
    return `${what}: unlike normal flows; the model keeps none to compare it with${rest}`
  if (reasons.length === 0)
    return `${what}: unlike normal flows as a whole, no single feature makes the difference${rest}`
  return `${what}: ${reasons.join(', ')}${rest}`
}

/**
 * Why an alert: the nearest mode of normal behaviour, and the features that keep the flow from it.
 *
 * The arithmetic is `createExplainer`'s of @oddflow/detectors (greedy occlusion towards the nearest normal example
 * that the model remembers, at most five features); here features get their names, and a sentence is made. It takes up to
 * some hundred scores, so it is made as an alert is given out and not for those that are folded.
 *
 * The sentence holds words of the program's own, numbers, and addresses as packets have them: nothing that a device
 * could have chosen.
 */
import { type FeatureColumn, featureColumns } from '@oddflow/core'
import { createExplainer, type NearestMode, type SavedModel } from '@oddflow/detectors'
import { type Alert, servicePort } from './alert.js'

export interface ExplainedFeature {
  readonly name: string
  readonly unit: string
  readonly value: number
  /** Of the nearest normal flow that the model remembers. */
  readonly nearest: number
  /** Of the typical flow of the mode; null where there are no modes. */
  readonly typical: number | null
  /** What the score gains when the feature is as in the nearest flow, those before it being so. */
  readonly gain: number
}

export interface AlertExplanation {
  /** A sentence for people. */
  readonly summary: string
  /** null where the detector has no modes, or another rule than the score decided. */
  readonly mode: NearestMode | null
  /** The most telling first; none where the detector remembers no normal flow, or there is no score. */
  readonly features: readonly ExplainedFeature[]
}

export type AlertExplainer = (alert: Alert) => AlertExplanation

/** Of them, so many are named in the sentence. */
const NAMED = 3

export function createAlertExplainer({ detector, contract }: SavedModel): AlertExplainer {
  const columns = featureColumns(contract)
  const explainer = createExplainer(detector)
  return (alert) => {
    const { row, score, threshold } = alert
    if (explainer === null || row === null || score === null || threshold === null)
      return explainNothing(alert)
    const { mode, features: shares } = explainer.explain(row, score, threshold)
    const features = shares.map(({ column, ...share }) => ({ ...nameOf(columns, column), ...share }))
    return { summary: summaryOf(alert, features), mode, features }
  }
}

/** Of what no model can be asked about. */
export function explainNothing(alert: Alert): AlertExplanation {
  return { summary: summaryOf(alert, []), mode: null, features: [] }
}

function nameOf(columns: readonly FeatureColumn[], column: number): { name: string; unit: string } {
  const { name, unit } = columns[column]
  return { name, unit }
}

function summaryOf(alert: Alert, features: readonly ExplainedFeature[]): string {
  const { flow, device, peer, rule, folded } = alert
  const what = `${flow.protocol} between ${device.mac ?? device.address} and ${peer}, port ${servicePort(flow)}`
  const count = folded === null ? '' : ` (${folded.count} more alike)`
  if (rule === 'one-packet') return `one packet of ${what}: nothing went to this service before${count}`
  if (rule === 'new-device')
    return `${device.mac ?? device.address} was not seen before; its first flow: ${what}`
  if (rule === 'device-flood')
    return `many new devices within a minute, the last of them ${device.mac ?? device.address}`
  if (features.length === 0) return `${what}: unlike normal flows${count}`
  const named = features
    .slice(0, NAMED)
    .map(({ name, unit, value, nearest }) => {
      const of = unit === '' ? '' : ` ${unit}`
      return `${name} ${short(value)}${of} (normal ${short(nearest)})`
    })
    .join(', ')
  return `${what}: unlike normal flows in ${named}${count}`
}

function short(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3)))
}

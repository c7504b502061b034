/**
 * Why an alert: the nearest mode of normal behaviour, and the features that keep the flow from it.
 *
 * The arithmetic is `createExplainer`'s of @oddflow/detectors (greedy occlusion towards the nearest normal example
 * that the model remembers, at most five features); here features get their names, and a sentence is made. It takes up to
 * some hundred scores, so it is made as an alert is given out and not for those that are folded.
 *
 * Nothing is said of features that gain the score nothing, or next to nothing of what it lacks: then the flow is unlike
 * normal ones as a whole, and the sentence says so; where the detector remembers no flow to compare with it says that. Features are told by name, wherever they stand in the two rows (row-columns.ts), and one that
 * only one of the two flows has, since that is longer, as such.
 *
 * The sentence holds words of the program's own, numbers, and addresses as packets have them: nothing that a device
 * could have chosen.
 */
import type { FeatureColumn } from '@oddflow/core'
import { createExplainer, type NearestMode, type SavedModel } from '@oddflow/detectors'
import { type Alert, servicePort } from './alert.js'
import { createRowColumns, type RowColumns } from './row-columns.js'

export interface ExplainedFeature {
  readonly name: string
  readonly unit: string
  /** null where the flow has no such feature, having ended before. */
  readonly value: number | null
  /** Of the nearest normal flow that the model remembers; null where it has no such feature. */
  readonly nearest: number | null
  /** Of the typical flow of the mode; null where it has no such feature, or there are no modes. */
  readonly typical: number | null
  /** What the score gains when the feature's columns are as in the nearest flow, those before being so. */
  readonly gain: number
}

/**
 * What the sentence is about: features by name; the flow as a whole, since no feature gains anything; another rule than the
 * score; or that there is nothing to compare with: no model, or one that remembers no normal flow.
 */
export type AlertReason = 'features' | 'whole' | 'rule' | 'no-comparison'

export interface AlertExplanation {
  readonly reason: AlertReason
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
/** Share of the way from the score to the threshold; a feature that gains less explains nothing. */
const NEGLIGIBLE = 0.01
/** What a model remembers comes back from its scaler exact to rounding. */
const ROUNDING = 1e-7

export function createAlertExplainer({ detector, contract }: SavedModel): AlertExplainer {
  const columnsOf = createRowColumns(contract)
  const explainer = createExplainer(detector)
  // their examples are means, which no flow has been: places are all that is known of them
  const isOfMeans = detector.kind === 'gmm' || detector.kind === 'pca'
  return (alert) => {
    const { row, score, threshold, flow } = alert
    if (explainer === null || row === null || score === null || threshold === null)
      return explainNothing(alert)
    const { mode, features: shares, nearestRow, typicalRow } = explainer.explain(row, score, threshold)
    const own = { values: row, columns: columnsOf(row, flow.packets) }
    const remembered = (values: Float64Array): NamedRow => ({
      values,
      columns: isOfMeans ? own.columns : columnsOf(values, null),
    })
    const nearest = remembered(nearestRow)
    const typical = typicalRow === null ? null : remembered(typicalRow)
    const gains = new Map<string, { readonly column: FeatureColumn; gain: number }>()
    for (const { column: at, gain } of shares) {
      const column = whatDiffers(own, nearest, at)
      if (column === null) continue
      const earlier = gains.get(column.name)
      if (earlier === undefined) gains.set(column.name, { column, gain })
      else earlier.gain += gain
    }
    const least = NEGLIGIBLE * (threshold - score)
    const features = [...gains.values()]
      .filter(({ gain }) => gain > 0 && gain >= least)
      .map(({ column: { name, unit }, gain }) => ({
        name,
        unit,
        value: featureOf(own, name),
        nearest: featureOf(nearest, name),
        typical: typical === null ? null : featureOf(typical, name),
        gain,
      }))
    const reason = features.length === 0 ? 'whole' : 'features'
    return { reason, summary: summaryOf(alert, features, reason), mode, features }
  }
}

interface NamedRow {
  readonly values: Float64Array
  readonly columns: RowColumns
}

/** null where the flow has no such feature. */
function featureOf({ values, columns }: NamedRow, name: string): number | null {
  const at = columns.findIndex((column) => column?.name === name)
  return at === -1 ? null : values[at]
}

/**
 * The feature by which two rows differ in a column. Where one flow ends and the other goes on the column holds a size here
 * and a time there, or nothing; when the size is the same in both, it is the time that one of them lacks. null where
 * they differ by rounding alone.
 */
function whatDiffers(own: NamedRow, nearest: NamedRow, at: number): FeatureColumn | null {
  const [here, there] = [own.columns[at], nearest.columns[at]]
  if (here !== null && here.name === there?.name) return here
  for (const column of [here, there, own.columns[at - 1], nearest.columns[at - 1]]) {
    if (column === null || column === undefined) continue
    const [value, normal] = [featureOf(own, column.name), featureOf(nearest, column.name)]
    if (value === null || normal === null ? value !== normal : Math.abs(value - normal) > ROUNDING)
      return column
  }
  return null
}

/** Of what no model can be asked about. */
export function explainNothing(alert: Alert): AlertExplanation {
  const reason = alert.rule === 'score' ? 'no-comparison' : 'rule'
  return { reason, summary: summaryOf(alert, [], reason), mode: null, features: [] }
}

function summaryOf(alert: Alert, features: readonly ExplainedFeature[], reason: AlertReason): string {
  const { flow, device, peer, rule, folded } = alert
  const what = `${flow.protocol} between ${device.mac ?? device.address} and ${peer}, port ${servicePort(flow)}`
  const count = folded === null ? '' : ` (${folded.count} more alike)`
  // flows of more packets may have gone there: the rule knows of none but those of one (flows: one-packet-rule.ts)
  if (rule === 'one-packet')
    return `one packet of ${what}: no flow of a single packet to this service was seen in training${count}`
  if (rule === 'new-device')
    return `${device.mac ?? device.address} was not seen before; its first flow: ${what}`
  if (rule === 'device-flood')
    return `many new devices within a minute, the last of them ${device.mac ?? device.address}`
  if (reason === 'whole')
    return `${what}: unlike normal flows as a whole, no single feature makes the difference${count}`
  if (features.length === 0)
    return `${what}: unlike normal flows, with none of which it could be compared${count}`
  const named = features
    .slice(0, NAMED)
    .map(({ name, unit, value, nearest }) => {
      const of = unit === '' ? '' : ` ${unit}`
      const normal = nearest === null ? 'none' : value === null ? `${short(nearest)}${of}` : short(nearest)
      return `${value === null ? `no ${name}` : `${name} ${short(value)}${of}`} (normal ${normal})`
    })
    .join(', ')
  return `${what}: unlike normal flows in ${named}${count}`
}

function short(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3)))
}

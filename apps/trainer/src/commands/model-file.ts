/** Commands on one model file: `oddflow inspect`, `export` and `sign`; and a model in words for all commands. */

import {
  ArgumentError,
  columnLabel,
  contractProtocols,
  endsOnClose,
  explicitContract,
  type FlowContract,
  featureColumns,
  packetFeatureSet,
  packetView,
  plural,
} from '@oddflow/core'
import {
  type DetectorModel,
  detectorFacts,
  detectorFigures,
  detectorOptionsOf,
  encodeCHeader,
  exceedingSizes,
  type ModelFact,
  modelSpaceNumbers,
  type ParameterSelection,
  type SavedModel,
  type Threshold,
} from '@oddflow/detectors'
import { learnedStateOf } from '@oddflow/online'
import {
  checkWritable,
  createLineWriter,
  findDetectionLimits,
  jsonLine,
  printable,
  readModel,
  readModelFile,
  readPrivateKey,
  signaturePath,
  UsageError,
  writeFileWhole,
} from '@oddflow/program'
import { flagOf } from '../flags.js'
import { note } from '../inputs.js'
import { describeLimits, limitsJson, limitWarnings } from '../output/describe-limits.js'
import { formatBelowOne } from '../report/format.js'

/**
 * A feature contract in words: what a row is made of, its columns with their units, and how packets become flows.
 */

/** Columns that are named in full; of longer rows the first, and the last. */
const SHOWN_COLUMNS = 6

function contractFacts(contract: FlowContract): ModelFact[] {
  return [
    { label: 'features', value: featureText(contract) },
    { label: 'columns', value: columnText(contract) },
    { label: 'flows', value: flowText(contract) },
  ]
}

/** "IAT+SIZE of the first 12 packets, seconds, frame bytes". */
export function featureText(contract: FlowContract): string {
  if (contract.featureSet === 'flow-summary') {
    return 'flow summary of whole flows, logarithms of payload bytes and seconds'
  }
  const { title, describe } = packetFeatureSet(contract.featureSet)
  const packets = `the first ${plural(contract.packetsPerFlow, 'packet')}`
  return `${title} of ${describe(contract, packets, `${contract.sizeMeasure} bytes`)}`
}

/** "iat1_s, size1_bytes, …, size8_bytes". */
function columnText(contract: FlowContract): string {
  const labels = featureColumns(contract).map(columnLabel)
  const shown =
    labels.length <= SHOWN_COLUMNS ? labels : [...labels.slice(0, SHOWN_COLUMNS - 2), '…', labels.at(-1)]
  const note =
    contract.featureSet === 'iat-size'
      ? ' (a flow of fewer packets ends with its last size in the place of a time)'
      : ''
  return `${shown.join(', ')}${note}`
}

/** "split at 2.5 s", unless the rows cover whole flows. */
export function cutText(contract: FlowContract): string[] {
  if (contract.featureSet === 'flow-summary') return []
  const { mode, durationMicros } = contract.truncation
  return [`${mode} at ${durationMicros / 1e6} s`]
}

function flowText(contract: FlowContract): string {
  const { flowKey, idleTimeoutMicros, activeTimeoutMicros } = contract
  const { decapsulation, joinFragments } = packetView(contract)
  const parts = [
    `${flowKey === 'directional-5-tuple' ? 'one for each direction, IPv4' : 'bidirectional'}; idle timeout ${idleTimeoutMicros / 1e6} s${activeTimeoutMicros === null ? '' : `, active timeout ${activeTimeoutMicros / 1e6} s`}`,
    ...cutText(contract),
  ]
  const protocols = contractProtocols(contract).join(', ')
  if (contract.protocols !== undefined) parts.push(`of ${protocols}`)
  if (decapsulation === 'inner') parts.push('tunnels opened')
  if (joinFragments) parts.push('fragments joined')
  if (contract.vlanKey === true) parts.push('one for each VLAN')
  if (endsOnClose(contract)) parts.push('TCP flows end when they close')
  return parts.join('; ')
}

/** Facts in reading order. @param calibratedBy - how, where more is known than the model keeps */
export function modelFacts(saved: SavedModel, calibratedBy = calibrationText(saved.threshold)): ModelFact[] {
  const { detector, contract, threshold, onePacketRule, provenance } = saved
  const { fitReport, parameters } = detector
  const { calibration } = threshold
  const { updates } = provenance
  // rows of updates count in both
  const given = updates?.rows ?? 0
  const [fitted, all] = [fitReport.trainingRows - given, provenance.rows - given]
  const others =
    calibration.method === 'held-out-inputs' ? '' : `; ${calibration.rows} others set the threshold`
  const facts: ModelFact[] = [
    { label: 'detector', value: detector.kind },
    ...detectorFacts(detector),
    { label: 'scaler', value: parameters.scaler },
    {
      label: 'trained on',
      value: `${fitted === all ? '' : `${fitted} of `}${all} rows of D = ${plural(contract.dimension, 'number')}${others}`,
    },
    {
      label: 'threshold',
      value: `${threshold.value.toPrecision(8)}: ${promiseText(threshold)} (asked: ${percent(threshold.falsePositiveRate)}${calibration.guaranteed ? '' : `; that needs ${calibration.rowsNeeded} calibration rows`})`,
    },
    { label: 'calibrated by', value: calibratedBy },
  ]
  if (contract.featureSet !== 'rows') facts.push(...contractFacts(contract))
  else if (detector.scaler.categoryColumn !== undefined) {
    facts.push({
      label: 'services',
      value: `column ${detector.scaler.categoryColumn + 1}: compared as equal or different, not as a number`,
    })
  }
  if (onePacketRule !== null) {
    facts.push({
      label: 'one-packet flows',
      value:
        onePacketRule.flows === 0
          ? 'none in training, so each is novel'
          : `${onePacketRule.flows} in training, to ${plural(onePacketRule.services.length, 'service')}; others are novel`,
    })
  }
  if (provenance.selection !== undefined) facts.push(selectionFact(provenance.selection, detector))
  const learned = learnedStateOf(saved)
  if (learned !== undefined) {
    const { counters, options, reservoir, held } = learned
    facts.push({
      label: 'learned since',
      value: `${counters.learnt} of ${counters.arrived} rows in ${plural(counters.rounds, 'round')} (${counters.refusedRounds} undone by the guard${options.guard === null ? ', which is off' : ''}); ${reservoir.rows.rows} kept, ${held.rows.rows} on hold`,
    })
  }
  if (updates !== undefined) {
    const { count, rows, last } = updates
    facts.push({
      label: 'updates',
      value: `${count}, with ${plural(rows, 'row')} stated to be normal; the last with ${last.rows}: ${last.novelBefore} novel before, ${last.oddRows} unlike all others and not learned, data ${last.dataSha256.slice(0, 16)}…`,
    })
  }
  const numbers = modelSpaceNumbers(detector)
  facts.push(
    { label: 'space', value: `${plural(numbers, 'number')} (${numbers * 8} bytes) needed to score` },
    {
      label: 'made by',
      value: `oddflow ${provenance.oddflowVersion}, seed ${provenance.seed}, data ${provenance.dataSha256.slice(0, 16)}…`,
    },
  )
  return facts
}

/** The one figure of what to expect of a threshold, which holds as far as normal traffic stays as it was. */
export function promiseText({ calibration }: Threshold): string {
  return `about ${percent(calibration.bound)} false alarms on traffic like the training's, more on other normal traffic`
}

function calibrationText({ calibration }: Threshold): string {
  const rows = plural(calibration.rows, 'row')
  if (calibration.method === 'split-conformal') return `${rows} kept from the fit`
  const { inputs, flaggedRows, worstInputRate, oddRows } = calibration
  const by = inputs === 1 ? 'quarters of one input' : plural(inputs, 'input')
  const worst = inputs === 1 ? '' : ` (worst input: ${percent(worstInputRate)})`
  const odd = oddRows === 0 ? '' : `; ${plural(oddRows, 'odd row')} left out`
  return `${rows}: ${by} held out in turn; ${flaggedRows} flagged${worst}${odd}`
}

/** "--bandwidth-quantile 0.4 --k 6 of 100 candidates: AUC 0.9931 on 75 normal and 75 novel rows". */
function selectionFact(selection: ParameterSelection, { parameters }: DetectorModel): ModelFact {
  const options = detectorOptionsOf(parameters) as Readonly<Record<string, unknown>>
  const choice = Object.keys(selection.grid).map((name) => `${flagOf(name)} ${options[name]}`)
  const failed = selection.failed === 0 ? '' : ` (${selection.failed} could not be fitted)`
  return {
    label: 'chosen',
    value: `${choice.join(' ')} of ${plural(selection.candidates, 'candidate')}${failed}: AUC ${formatBelowOne(selection.auc, 4)} on ${selection.normalRows} normal and ${selection.novelRows} novel rows`,
  }
}

/** `settings`: the flags of `train` that ask for the same detector, defaults written out but for sizes that the rows were
 * too few for, which would be refused if they were stated. */
function settingsFact({ detector: { parameters, fitReport } }: SavedModel): ModelFact {
  const { detector, ...options } = detectorOptionsOf(parameters)
  const lowered: readonly string[] = exceedingSizes(parameters, { rows: fitReport.trainingRows })
  const flags = Object.entries(options).flatMap(([name, value]) => {
    if (value === undefined || lowered.includes(name)) return []
    if (typeof value === 'boolean') return [value ? flagOf(name) : flagOf(name).replace(/^--/, '--no-')]
    return [`${flagOf(name)} ${value}`]
  })
  return { label: 'settings', value: [`--detector ${detector}`, ...flags].join(' ') }
}

export function describeModel(
  saved: SavedModel,
  more: readonly ModelFact[] = [],
  calibratedBy?: string,
): string[] {
  const facts = [...modelFacts(saved, calibratedBy), ...more]
  const width = Math.max(...facts.map(({ label }) => label.length))
  return facts.map(({ label, value }) => `  ${label.padEnd(width)}  ${printable(value)}`)
}

/** Everything but the tensors. */
export function modelJson(saved: SavedModel): Record<string, unknown> {
  const { detector, contract, threshold, onePacketRule, provenance } = saved
  const learned = learnedStateOf(saved)
  return {
    kind: detector.kind,
    parameters: detector.parameters,
    ...detectorFigures(detector),
    fitReport: detector.fitReport,
    spaceNumbers: modelSpaceNumbers(detector),
    featureContract: explicitContract(contract),
    columns: featureColumns(contract),
    threshold,
    onePacketRule,
    provenance,
    ...(learned === undefined ? {} : { learned: { counters: learned.counters, options: learned.options } }),
  }
}

export function percent(rate: number): string {
  return `${Number((100 * rate).toPrecision(3))} %`
}

/** `oddflow inspect MODEL`: what a model file holds, and what the model would notice. */
export function inspect(path: string, options: { readonly format: 'text' | 'json' }): void {
  const saved = readModel(path, learnedStateOf)
  const limits = findDetectionLimits(saved)
  const out = createLineWriter()
  if (options.format === 'json') {
    out.line(jsonLine({ ...modelJson(saved), detectionLimits: limitsJson(limits) }))
  } else {
    out.line(printable(path))
    for (const line of describeModel(saved, [settingsFact(saved)])) out.line(line)
    for (const line of describeLimits(limits)) out.line(line)
    const notes = [...saved.detector.fitReport.notes, ...limitWarnings(limits)]
    for (const note of notes) out.line(`  note: ${printable(note)}`)
  }
  out.flush()
}

export interface ExportOptions {
  readonly output: string
  readonly name: string
}

/** `oddflow export MODEL --to c`: a model as source code. */
export function exportModel(model: string, { output, name }: ExportOptions): void {
  if (output !== '-') checkWritable(output, [model])
  const header = headerOf(model, name)
  writeFileWhole(output, header.text)
  note(
    `${output === '-' ? 'standard output' : output}: ${header.tableBytes} bytes of constant tables, ${header.stackBytes} bytes of arrays on the stack`,
  )
}

function headerOf(model: string, name: string) {
  const saved = readModel(model)
  try {
    return encodeCHeader(saved, { name })
  } catch (error) {
    if (error instanceof ArgumentError) throw new UsageError(`--${error.message}`)
    throw error
  }
}

/** `oddflow sign`: writes a signature beside each model. */
export function sign(models: readonly string[], { key }: { readonly key: string }): void {
  const signWith = readPrivateKey(key)
  const out = createLineWriter(1)
  for (const model of models) {
    readModelFile(model, { onlyRegular: true, check: learnedStateOf, signWith })
    out.line(`${printable(signaturePath(model))}: signs ${printable(model)}`)
  }
  out.flush()
}

/** `oddflow inspect MODEL`: what a model file holds, and what the model would notice. */
import { createLineWriter, findDetectionLimits, jsonLine, printable, readModel } from '@oddflow/program'
import { describeLimits, limitsJson, limitWarnings } from '../output/describe-limits.js'
import { describeModel, modelJson, settingsFact } from '../output/describe-model.js'

export function inspect(path: string, options: { readonly format: 'text' | 'json' }): void {
  const saved = readModel(path)
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

/** `oddflow inspect MODEL`: what a model file holds. */
import { createLineWriter, jsonLine, printable, readModel } from '@oddflow/program'
import { describeModel, modelJson, settingsFact } from '../output/describe-model.js'

export function inspect(path: string, options: { readonly format: 'text' | 'json' }): void {
  const saved = readModel(path)
  const out = createLineWriter()
  if (options.format === 'json') out.line(jsonLine(modelJson(saved)))
  else {
    out.line(printable(path))
    for (const line of describeModel(saved, [settingsFact(saved)])) out.line(line)
    for (const note of saved.detector.fitReport.notes) out.line(`  note: ${printable(note)}`)
  }
  out.flush()
}

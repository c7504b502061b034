/** `oddflow inspect MODEL`: what a model file holds. */
import { readModel } from '../input/read-model.js'
import { describeModel, modelJson } from '../output/describe-model.js'
import { createLineWriter } from '../output/stdout.js'

export function inspect(path: string, options: { readonly format: 'text' | 'json' }): void {
  const saved = readModel(path)
  const out = createLineWriter()
  if (options.format === 'json') out.line(JSON.stringify(modelJson(saved)))
  else {
    out.line(path)
    for (const line of describeModel(saved)) out.line(line)
    for (const note of saved.detector.fitReport.notes) out.line(`  note: ${note}`)
  }
  out.flush()
}

/** `oddflow export MODEL --to c`: a model as source code. */
import { ArgumentError } from '@oddflow/core'
import { encodeCHeader } from '@oddflow/detectors'
import { checkWritable, readModel, UsageError, writeFileWhole } from '@oddflow/program'
import { note } from '../inputs.js'

export interface ExportOptions {
  readonly output: string
  readonly name: string
}

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

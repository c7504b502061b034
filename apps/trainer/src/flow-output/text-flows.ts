/** Flow records as JSON lines or CSV. */
import { createFlowLogFormat } from '@oddflow/flows'
import type { FlowWriterFactory } from './flow-writer.js'

/** Text is gathered into writes of about this many characters. */
const FLUSH_AT = 256 * 1024

export function createTextFlowWriter(format: 'json' | 'csv'): FlowWriterFactory {
  return (file, sizeMeasure) => {
    const { header, line } = createFlowLogFormat(format, { sizeMeasure })
    let pending = [header]
    let length = 0
    const flush = (): void => {
      file.write(Buffer.from(pending.join('')))
      pending = []
      length = 0
    }
    return {
      write(record) {
        const text = line(record)
        pending.push(text)
        length += text.length
        if (length >= FLUSH_AT) flush()
      },
      finish: flush,
    }
  }
}

/** Flow records as JSON lines or CSV. */
import { createFlowLogFormat } from '@oddflow/flows'
import type { FlowWriterFactory } from './flow-writer.js'

/** Lines are gathered into writes of at most this many bytes. */
const BUFFER_BYTES = 256 * 1024

export function createTextFlowWriter(format: 'json' | 'csv'): FlowWriterFactory {
  return (file, options) => {
    const { header, line } = createFlowLogFormat(format, options)
    const buffer = Buffer.allocUnsafe(BUFFER_BYTES)
    // all of it is ASCII: a character is a byte
    let held = buffer.write(header, 'latin1')
    const flush = (): void => {
      file.write(buffer.subarray(0, held))
      held = 0
    }
    return {
      write(record) {
        const text = line(record)
        if (held + text.length > BUFFER_BYTES) flush()
        held += buffer.write(text, held, 'latin1')
      },
      finish: flush,
    }
  }
}

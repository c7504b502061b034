/**
 * What a broker may send to a client that has subscribed to nothing: short answers. Whatever else it sends ends the connection.
 *
 * The library gathers a packet until it is whole, up to the 256 MB that the protocol allows (MQTT 3.1.1, section 2.2.3), and
 * acknowledges messages as fast as they come. So the fixed headers are followed beside it: a PUBLISH (type 3), or a packet of more
 * than MAXIMUM_BYTES, is refused at its first bytes.
 */
import type { Duplex } from 'node:stream'

const PUBLISH = 3
const MAXIMUM_BYTES = 1024

/** Ends the connection at the first bytes that are none of an answer, and says why. */
export function guardBroker(stream: Duplex, onRefused: (why: string) => void): void {
  const refuses = createFrameCheck()
  stream.on('data', (bytes: Uint8Array) => {
    const why = refuses(bytes)
    if (why === null || stream.destroyed) return
    onRefused(why)
    stream.destroy(new Error(why))
  })
}

/** Given the bytes as they come, says why the connection is to end; null while there is no reason. */
export function createFrameCheck(): (bytes: Uint8Array) => string | null {
  /** Bytes of the current packet that are still to come. */
  let rest = 0
  let type = -1
  let length = 0
  let shift = 0
  return (bytes) => {
    for (let at = 0; at < bytes.length; ) {
      if (rest > 0) {
        const taken = Math.min(rest, bytes.length - at)
        rest -= taken
        at += taken
        continue
      }
      const byte = bytes[at++]
      if (type < 0) {
        type = byte >>> 4
        length = 0
        shift = 0
        if (type === PUBLISH) return 'the broker sent a message, though nothing was asked for'
        continue
      }
      length |= (byte & 0x7f) << shift
      shift += 7
      if (length > MAXIMUM_BYTES || shift > 28)
        return 'the broker sent a packet of a length that no answer has'
      if (byte < 0x80) {
        rest = length
        type = -1
      }
    }
    return null
  }
}

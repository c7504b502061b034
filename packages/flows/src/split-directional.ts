/**
 * splitDirectional: the packets of each directional key, sorted by time, into flows at the idle timeout.
 *
 * The order of work is that of the authors' code: first all packets of a key, in whatever order they were
 * captured, then a stable sort by time, then a new flow after every gap longer than the timeout; times are
 * floats of seconds, so a gap of exactly 600 s may come out a little longer or shorter than that, as it does
 * there. Flows of one key follow each other. All this needs the whole capture, so it is done after
 * collecting, and there is no streaming form of it.
 */
import type { CollectedFlows } from './collected-flows.js'
import { copyIdentity, createFlowIdentity } from './flow-identity.js'
import { END_REASONS } from './flow-record.js'

const IDLE_TIMEOUT = END_REASONS.indexOf('idle-timeout')

/** @param keys - one "flow" for each key; its columns are changed. */
export function splitDirectional(keys: CollectedFlows): CollectedFlows {
  const { packetMicros, packetOffset, packetNumber, idleTimeoutMicros } = keys
  const timeoutSeconds = idleTimeoutMicros / 1_000_000
  const offsets: number[] = [0]
  const keyOf: number[] = []
  for (let key = 0; key < keys.count; key++) {
    const [first, end] = [packetOffset[key], packetOffset[key + 1]]
    sortByTime(keys, first, end)
    for (let i = first + 1; i < end; i++) {
      if (packetMicros[i] / 1_000_000 - packetMicros[i - 1] / 1_000_000 > timeoutSeconds) {
        offsets.push(i)
        keyOf.push(key)
      }
    }
    offsets.push(end)
    keyOf.push(key)
  }
  const count = keyOf.length
  const identity = createFlowIdentity(count)
  const endReason = new Uint8Array(count)
  for (let f = 0; f < count; f++) {
    copyIdentity(keys.identity, keyOf[f], identity, f)
    identity.firstPacketNumber[f] = packetNumber[offsets[f]]
    endReason[f] = keyOf[f] === keyOf[f + 1] ? IDLE_TIMEOUT : keys.endReason[keyOf[f]]
  }
  return {
    ...keys,
    count,
    identity,
    endReason,
    packetOffset: Float64Array.from(offsets),
    counters: { ...keys.counters, flows: count },
  }
}

function sortByTime(flows: CollectedFlows, first: number, end: number): void {
  const { packetMicros } = flows
  let sorted = true
  for (let i = first + 1; i < end && sorted; i++) sorted = packetMicros[i] >= packetMicros[i - 1]
  if (sorted) return
  const order = Array.from({ length: end - first }, (_, k) => first + k)
  order.sort((i, j) => packetMicros[i] - packetMicros[j] || i - j)
  const columns = [packetMicros, flows.packetBytes, flows.packetIpBytes, flows.packetMeta, flows.packetNumber]
  for (const column of columns) {
    const values = order.map((i) => column[i])
    column.set(values, first)
  }
}

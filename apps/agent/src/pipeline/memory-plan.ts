/**
 * MemoryPlan: what a ceiling on resident memory leaves for each part.
 *
 * Node itself with the program loaded takes RUNTIME_BYTES (measured, decision 0009); model,
 * batches, queues and garbage the next part. What is left goes to open flows, within bounds: fewer than the
 * least would lose flows in a home network, more than the most was never of use.
 */
import { UsageError } from '@oddflow/program'
import type { OutputSettings } from '../settings.js'

const MEBIBYTE = 1_048_576
const RUNTIME_BYTES = 96 * MEBIBYTE
const LEAST_FLOW_BYTES = 2 * MEBIBYTE
const MOST_FLOW_BYTES = 256 * MEBIBYTE

/** Node's part grows by so much with the MQTT library loaded (measured). */
const MQTT_BYTES = 24 * MEBIBYTE

export const DEFAULT_MEMORY_LIMIT_BYTES = 128 * MEBIBYTE

export interface MemoryPlan {
  readonly limitBytes: number
  /** Of open flows. */
  readonly flowBytes: number
  /** Alerts that wait in memory for a disk or an output. */
  readonly queueBytes: number
}

/** Throws UsageError when the ceiling leaves no room to work in. */
export function planMemory(
  limitBytes: number,
  modelBytes: number,
  outputs: readonly OutputSettings[] = [],
): MemoryPlan {
  const runtimeBytes = RUNTIME_BYTES + librariesBytes(outputs)
  const queueBytes = Math.min(8 * MEBIBYTE, Math.max(MEBIBYTE, Math.floor(limitBytes / 32)))
  // a model is in memory twice while it is read, and the scorers of verdicts and of explanations pack it anew
  const room = limitBytes - runtimeBytes - 2 * queueBytes - 4 * modelBytes
  if (room < LEAST_FLOW_BYTES) {
    const least = Math.ceil((runtimeBytes + 2 * MEBIBYTE + 4 * modelBytes + LEAST_FLOW_BYTES) / MEBIBYTE)
    throw new UsageError(
      `--memory-limit ${Math.floor(limitBytes / MEBIBYTE)}M: too little for Node, this model and any flows; give ${least}M or more`,
    )
  }
  return { limitBytes, flowBytes: Math.min(room, MOST_FLOW_BYTES), queueBytes }
}

/** What libraries take that only some outputs need; the default ceiling is higher by as much. */
export function librariesBytes(outputs: readonly OutputSettings[]): number {
  return outputs.some(({ kind }) => kind === 'mqtt') ? MQTT_BYTES : 0
}

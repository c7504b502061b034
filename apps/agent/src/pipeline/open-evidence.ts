/** The packets that are kept for alerts, opened from the settings. */
import { fileError } from '@oddflow/program'
import { type Evidence, openEvidence } from '../evidence/evidence.js'
import { createFrameRing, FRAME_RING_BYTES, type FrameRing } from '../evidence/frame-ring.js'
import type { Settings } from '../settings.js'
import type { AgentEnvironment } from './environment.js'

/** null where no packets are kept. */
export async function openKeptPackets(
  { evidence }: Settings,
  { files, log }: AgentEnvironment,
): Promise<{ ring: FrameRing; evidence: Evidence } | null> {
  if (evidence === null) return null
  const { directory, limitBytes } = evidence
  const ring = createFrameRing()
  const onTrouble = (trouble: unknown): void => {
    if (trouble === null) log.info(`${directory}: works again`)
    else log.warn(`${fileError('write', directory, trouble).message}; packets of alerts are not kept`)
  }
  try {
    return { ring, evidence: await openEvidence({ files, directory, limitBytes, ring, onTrouble }) }
  } catch (error) {
    throw fileError('write', directory, error)
  }
}

/** Memory that it takes. */
export function keptPacketsBytes({ evidence }: Settings): number {
  return evidence === null ? 0 : FRAME_RING_BYTES
}

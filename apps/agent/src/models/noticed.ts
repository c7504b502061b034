/**
 * The smallest synthetic attack of each kind that a model flags (docs/detection-limits.md). A separate process finds it when a person
 * asks, one model at a time; the results are cached.
 */
import { decodeModelFile, encodeModelFile } from '@oddflow/detectors'
import { findDetectionLimits, limitText } from '@oddflow/program'
import { createTurns } from '../files/state-file.js'
import type { Decider } from '../pipeline/counters.js'

export interface NoticeJob {
  /** A model file. */
  readonly notice: Uint8Array
  /** The active threshold, perhaps set by an alert budget. */
  readonly threshold: number
}

/** The smallest synthetic attack of a kind that a model notices. */
export interface Noticed {
  readonly kind: string
  /** "from 13 ports". */
  readonly from: string
}

export function noticedBy({ notice, threshold }: NoticeJob): Noticed[] {
  const saved = decodeModelFile(notice)
  const { limits } = findDetectionLimits({ ...saved, threshold: { ...saved.threshold, value: threshold } })
  return limits.map((limit) => ({ kind: limit.attack.title, from: limitText(limit) }))
}

const MAXIMUM_KNOWN = 64

/** By the key of a device; null if no model judges it. */
export type NoticedOf = (device: string) => Promise<readonly Noticed[] | null>

export function createNoticedOf(
  modelOf: Decider['modelOf'],
  find: (job: NoticeJob) => Promise<Noticed[]>,
): NoticedOf {
  const known = new Map<string, Promise<Noticed[]>>()
  const inTurn = createTurns()
  return async (device) => {
    const inForce = modelOf(device)
    if (inForce === null) return null
    const { model, threshold, saved } = inForce
    const key = `${model}/${threshold}`
    const before = known.get(key)
    if (before !== undefined) return before
    const found = inTurn(() => find({ notice: encodeModelFile(saved), threshold }))
    found.catch(() => known.delete(key))
    known.set(key, found)
    for (const oldest of known.keys()) if (known.size > MAXIMUM_KNOWN) known.delete(oldest)
    return found
  }
}

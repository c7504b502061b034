/** What became of the flows and the packets, in a sentence each; every packet and record is in it. */
import { describeOrder } from '@oddflow/capture'
import { plural } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import type { FlowCounters } from '@oddflow/flows'
import type { InputKind } from '../input/input-kind.js'
import { type CaptureRead, sumUnsupported } from '../pipeline/read-packets.js'
import type { GroupKind } from '../pipeline/score-groups.js'
import type { VerdictCounts } from '../pipeline/verdict.js'

export function describeVerdicts(counts: readonly VerdictCounts[], kind: InputKind): string {
  const sum = (key: keyof VerdictCounts): number => counts.reduce((total, c) => total + c[key], 0)
  const total = sum('total')
  const what = kind === 'rows' ? plural(total, 'row') : plural(total, 'flow record')
  if (kind === 'rows') return `${what}: ${sum('novel')} novel`
  const rules = [
    `${sum('novelByScore')} of ${sum('byScore')} by score`,
    `${sum('novelOnePacket')} of ${plural(sum('onePacket'), 'one-packet flow')} by service`,
  ]
  const byRule = sum('onePacket') === 0 ? '' : ` (${rules.join(', ')})`
  const notJudged = sum('notJudged')
  return `${what}: ${sum('novel')} novel${byRule}${notJudged > 0 ? `; ${notJudged} not judged (no row is made of them)` : ''}`
}

/** @param reads what was read, by which link types that are not supported are named */
export function describePackets(counters: FlowCounters, reads: readonly CaptureRead[]): string {
  const dropped = Object.entries(counters.dropped) as [string, number][]
  const types = Object.entries(sumUnsupported(reads)).map(([name, n]) => `${n} ${name}`)
  const lost = dropped
    .map(
      ([reason, n]) =>
        `${n} ${reason}${reason === 'link-type-unsupported' && types.length > 0 ? ` (${types.join(', ')})` : ''}`,
    )
    .join(', ')
  const parts = [`${plural(counters.packets, 'packet')}: ${counters.packetsInFlows} in flows`]
  if (lost !== '') parts.push(`not in flows: ${lost}`)
  if (counters.remainders > 0) {
    parts.push(
      `${plural(counters.remainderPackets, 'packet')} left over at the end of ${plural(counters.remainders, 'long flow')}`,
    )
  }
  if (counters.timestampBackwards > 0) {
    parts.push(
      `${plural(counters.timestampBackwards, 'packet')} with a time before the one before it (taken as simultaneous)`,
    )
  }
  parts.push(...describeOrder(counters))
  if (counters.evictedFlows > 0)
    parts.push(`${plural(counters.evictedFlows, 'flow')} ended early for lack of memory`)
  return parts.join('; ')
}

/** Which scores are novel, and which way they point. */
export function describeThreshold({ threshold }: SavedModel): string {
  return `novel: a score of ${threshold.value.toPrecision(6)} or lower; the lower, the more unusual`
}

/** What the verdict on a group is held against, and what so many training groups can promise. */
export function describeGroupLevel({ groups }: SavedModel, kind: GroupKind): string {
  const level = groups?.[kind]
  if (level === null || level === undefined) return ''
  return `novel: a ${kind} with a score above ${level.level.toFixed(3)}, the largest of ${level.groups} training ${kind}s; the higher, the more unusual (flows score the other way round); about 1 in ${level.groups + 1} normal ${kind}s exceeds it`
}

/** Verdict: what is said of one flow record or one row, and of which it is said. */
import type { FlowExplanation, VerdictRule } from '@oddflow/program'

export interface FlowFacts {
  readonly capture: string
  /** "tcp", "udp", "icmp", "icmpv6", "sctp". With ICMP the ports are type, and answering type or code. */
  readonly protocol: string
  readonly source: string
  readonly sourcePort: number
  readonly destination: string
  readonly destinationPort: number
  readonly startMicros: number
  readonly durationMicros: number
  readonly packets: number
  readonly bytes: number
  /** 0 for a flow's first record; a long flow has more. */
  readonly piece: number
}

export interface Verdict {
  /** Higher is more normal; null where another rule than the score decided. */
  readonly score: number | null
  /** score − threshold; novel iff ≤ 0. */
  readonly decision: number | null
  readonly novel: boolean
  readonly rule: VerdictRule
  /** The input that it came from. */
  readonly input: string
  /** The row's number in its file, for feature rows. */
  readonly row: number | null
  readonly flow: FlowFacts | null
  /** Whose flow it is: MAC address, or address where the link has none; where verdicts are explained, of novel ones. */
  readonly device?: string
  /** Why it is novel; of novel verdicts by score, where that was asked for. Until the verdicts are released. */
  readonly explain?: () => FlowExplanation
}

/** How many verdicts of each kind. */
export interface VerdictCounts {
  total: number
  novel: number
  byScore: number
  novelByScore: number
  onePacket: number
  novelOnePacket: number
  notJudged: number
}

export function noVerdicts(): VerdictCounts {
  return { total: 0, novel: 0, byScore: 0, novelByScore: 0, onePacket: 0, novelOnePacket: 0, notJudged: 0 }
}

/** Adds one verdict to `counts`. */
export function countVerdict(counts: VerdictCounts, rule: VerdictRule, novel: boolean): void {
  counts.total++
  if (novel) counts.novel++
  if (rule === 'score') {
    counts.byScore++
    if (novel) counts.novelByScore++
  } else if (rule === 'one-packet') {
    counts.onePacket++
    if (novel) counts.novelOnePacket++
  } else counts.notJudged++
}

export function countVerdicts(verdicts: Iterable<Verdict>): VerdictCounts {
  const counts = noVerdicts()
  for (const { rule, novel } of verdicts) countVerdict(counts, rule, novel)
  return counts
}

/** "192.0.2.1:443", "[2001:db8::1]:443". */
export function endpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/**
 * The scans and repeated connections that an update learned as normal, by initiator. The limits of synthetic attacks
 * do not show this: a synthetic scan differs from the learned one.
 */
import { formatAddress } from '@oddflow/capture'
import { type Matrix, plural } from '@oddflow/core'
import { createScoreWorkspace, novelRows, type SavedModel } from '@oddflow/detectors'
import { type FlowRecord, protocolName } from '@oddflow/flows'
import { rowMatrix } from '../library/rows.js'

interface FlowEnds {
  readonly initiator: string
  readonly responder: string
  /** "tcp". */
  readonly protocol: string
  readonly responderPort: number
}

interface LearntFlows {
  /** Flows with rows, in the order of their rows. */
  onFlow(record: FlowRecord): void
  /** The rows of the flows since the last call. */
  onRows(rows: Matrix): void
  /** Descriptions of the flows that were novel and are normal to the updated model, the largest first. */
  patternsUnder(updated: SavedModel): string[]
}

/** Fewer ports or hosts are no scan. */
const LEAST_SCANNED = 10
/** Fewer flows to one service are no pattern; five guesses of a password are one to fail2ban. */
const LEAST_FLOWS = 5
const MOST_PATTERNS = 5

export function createLearntFlows(before: SavedModel): LearntFlows {
  const workspace = createScoreWorkspace(before.detector)
  const pending: FlowEnds[] = []
  const novel: { readonly ends: FlowEnds; readonly row: Float64Array }[] = []
  return {
    onFlow(record) {
      pending.push({
        initiator: formatAddress(record.initiatorAddress, 0, record.ipVersion),
        responder: formatAddress(record.responderAddress, 0, record.ipVersion),
        protocol: protocolName(record.protocol),
        responderPort: record.responderPort,
      })
    },
    onRows(rows) {
      const { cols, data } = rows
      const verdicts = novelRows(before, rows, workspace)
      pending.forEach((ends, i) => {
        if (verdicts[i]) novel.push({ ends, row: data.slice(i * cols, (i + 1) * cols) })
      })
      pending.length = 0
    },
    patternsUnder(updated) {
      if (novel.length === 0) return []
      const rows = novel.map(({ row }) => row)
      const verdicts = novelRows(updated, rowMatrix(rows, rows[0].length))
      return patternsOf(novel.filter((_, i) => !verdicts[i]).map(({ ends }) => ends))
    },
  }
}

/** "a scan of 175 ports of 192.0.2.10 by 192.0.2.66"; a flow is in one pattern alone. */
export function patternsOf(flows: readonly FlowEnds[]): string[] {
  const found: { readonly text: string; readonly flows: number }[] = []
  let rest = flows
  const take = (
    shared: readonly (keyof FlowEnds)[],
    patternOf: (flows: readonly FlowEnds[], first: FlowEnds) => string | null,
  ): void => {
    const groups = new Map<string, FlowEnds[]>()
    for (const flow of rest) {
      const key = shared.map((field) => flow[field]).join()
      const group = groups.get(key) ?? []
      groups.set(key, group)
      group.push(flow)
    }
    const left: FlowEnds[] = []
    for (const group of groups.values()) {
      const text = group.length < LEAST_FLOWS ? null : patternOf(group, group[0])
      if (text === null) left.push(...group)
      else found.push({ text, flows: group.length })
    }
    rest = left
  }
  const distinct = (group: readonly FlowEnds[], field: keyof FlowEnds): number =>
    new Set(group.map((flow) => flow[field])).size
  take(['initiator', 'responder', 'protocol'], (group, { initiator, responder }) => {
    const ports = distinct(group, 'responderPort')
    return ports < LEAST_SCANNED ? null : `a scan of ${ports} ports of ${responder} by ${initiator}`
  })
  take(['initiator', 'protocol', 'responderPort'], (group, { initiator, protocol, responderPort }) => {
    const hosts = distinct(group, 'responder')
    return hosts < LEAST_SCANNED
      ? null
      : `a scan of ${hosts} hosts by ${initiator}, ${protocol} port ${responderPort}`
  })
  take(
    ['initiator', 'responder', 'protocol', 'responderPort'],
    (group, { initiator, responder, protocol, responderPort }) =>
      `${plural(group.length, 'flow')} of ${initiator} to ${responder}, ${protocol} port ${responderPort}`,
  )
  found.sort((a, b) => b.flows - a.flows)
  const more = found.slice(MOST_PATTERNS).reduce((sum, { flows: count }) => sum + count, 0)
  const shown = found.slice(0, MOST_PATTERNS).map(({ text }) => text)
  return more === 0 ? shown : [...shown, `${plural(more, 'flow')} of other kinds`]
}

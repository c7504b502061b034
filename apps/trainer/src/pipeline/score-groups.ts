/**
 * Inputs → one verdict a capture, or a device of a capture (groups.ts of the detectors).
 *
 * A flow belongs to the device at its local end; of two local ends, or none, to the initiator. Flows that have no
 * score of their own (flows of one packet under feature sets without a row for them) are in no group.
 */
import { DataError } from '@oddflow/core'
import {
  createGroups,
  createScoreWorkspace,
  type Group,
  type GroupVerdict,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { createFlowJudge, deviceKeyOf, PRIVATE_NETWORKS, parseNetwork, UsageError } from '@oddflow/program'
import { inputKind } from '../input/input-kind.js'
import { readRowsUnder } from '../input/read-rows.js'
import type { CaptureInput, CaptureRead, ReadOptions } from './read-packets.js'
import { type RecordOptions, readRecords, type ScoreSummary } from './score-inputs.js'

export type GroupKind = 'capture' | 'device'

export interface ScoredGroup extends GroupVerdict {
  readonly group: GroupKind
  readonly capture: string
  /** MAC address, or the address where the link has none; null for a whole capture. */
  readonly device: string | null
}

export interface GroupResult {
  /** In order of their first flows. */
  readonly groups: readonly ScoredGroup[]
  readonly read: CaptureRead | null
}

/** Of one capture: a flood of made-up addresses must not take all memory. */
const MAXIMUM_DEVICES = 65_536

const LOCAL_NETWORKS = PRIVATE_NETWORKS.map(parseNetwork)

export async function scoreGroups(
  saved: SavedModel,
  inputs: readonly CaptureInput[],
  kind: GroupKind,
  options: ReadOptions & RecordOptions & { readonly view: Parameters<typeof readRecords>[2]['view'] },
  onInput: (result: GroupResult) => void,
): Promise<ScoreSummary> {
  const createGroup = groupsOf(saved, kind)
  if (inputKind(inputs[0].files[0]) === 'rows') {
    if (kind === 'device') throw new UsageError('--group device: feature rows name no device; give captures')
    for (const { name } of inputs) {
      const rows = readRowsUnder(saved.contract, name)
      const scores = scoreSamples(
        saved.detector,
        rows,
        new Float64Array(rows.rows),
        createScoreWorkspace(saved.detector),
      )
      const group = createGroup()
      for (const score of scores) group.add(score)
      onInput({ groups: [{ group: kind, capture: name, device: null, ...group.verdict() }], read: null })
    }
    return { counters: null }
  }
  const { contract, row, judge } = createFlowJudge(saved)
  let capture = ''
  let groups = new Map<string, Group>()
  const counters = await readRecords(
    contract,
    inputs,
    options,
    {
      row,
      begin(name) {
        capture = name
        groups = new Map()
        if (kind === 'capture') groups.set('', createGroup())
      },
      onRecord(record) {
        const { score } = judge(record)
        if (score === null) return
        const key = kind === 'capture' ? '' : deviceKeyOf(record, LOCAL_NETWORKS)
        let group = groups.get(key)
        if (group === undefined) {
          if (groups.size >= MAXIMUM_DEVICES) {
            throw new DataError(
              `${capture}: more than ${MAXIMUM_DEVICES} devices in one capture; give a --filter that leaves fewer`,
            )
          }
          group = createGroup()
          groups.set(key, group)
        }
        group.add(score)
      },
      end: (read): GroupResult => ({
        groups: Array.from(groups, ([key, group]) => ({
          group: kind,
          capture,
          device: kind === 'capture' ? null : key,
          ...group.verdict(),
        })),
        read,
      }),
    },
    onInput,
  )
  return { counters }
}

function groupsOf({ groups }: SavedModel, kind: GroupKind): () => Group {
  if (groups === undefined) {
    throw new UsageError(
      `--group ${kind}: the model does not know how unusual groups of flows may be; train it with --detector ensemble`,
    )
  }
  if (groups[kind] === null) {
    throw new UsageError(
      `--group ${kind}: the model was trained on fewer than two ${kind === 'capture' ? 'captures' : 'devices'}, which gives groups no level; train it on more captures`,
    )
  }
  return createGroups(groups, kind)
}

/** `oddflow score MODEL INPUT…`: a verdict on each flow or row. */

import { DataError } from '@oddflow/core'
import {
  createGroups,
  createScoreWorkspace,
  type Group,
  type GroupVerdict,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import {
  createFlowJudge,
  createLineWriter,
  deviceKeyOf,
  PRIVATE_NETWORKS,
  parseNetwork,
  UsageError,
} from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import type { CaptureFlags } from '../flags.js'
import { complain, inputKind, noFlowIn, note, warn, warnOfBareRows } from '../inputs.js'
import {
  createGroupWriter,
  createVerdictWriter,
  describeGroupLevel,
  describePackets,
  describeThreshold,
  describeVerdicts,
} from '../output/verdict-lines.js'
import {
  type CaptureInput,
  type CaptureRead,
  complaints,
  describeView,
  inputsUnderModel,
  type ReadOptions,
  stopForStreams,
} from '../pipeline/read-packets.js'
import { readRowsUnder } from '../pipeline/read-rows.js'
import { type RecordOptions, readRecords, type ScoreSummary, scoreInputs } from '../pipeline/score-inputs.js'
import type { VerdictCounts } from '../pipeline/verdict-store.js'

/**
 * Inputs → one verdict a capture, or a device of a capture (groups.ts of the detectors).
 *
 * A flow belongs to the device at its local end; of two local ends, or none, to the initiator. Flows that have no
 * score of their own (flows of one packet under feature sets without a row for them) are in no group.
 */

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

export interface ScoreCommandOptions extends CaptureFlags {
  readonly novelOnly?: boolean
  readonly explain?: boolean
  readonly group?: GroupKind
  readonly format: 'table' | 'json' | 'csv'
}

export async function score(
  modelPath: string,
  files: readonly string[],
  options: ScoreCommandOptions,
): Promise<void> {
  if (options.explain === true && options.group !== undefined) {
    throw new UsageError('--explain: explains flows and rows; leave out one of --explain and --group')
  }
  const { kind, saved, inputs, reading } = inputsUnderModel(modelPath, files, options)
  const progress = createProgress()
  const out = createLineWriter()
  const scoring = {
    ...reading,
    progress,
    stop: stopForStreams(files),
    // one input that cannot be read takes nothing from the others
    onUnreadable:
      files.length === 1
        ? undefined
        : (error: Error) => {
            complain(error.message)
            process.exitCode = 1
          },
  }
  const totals: VerdictCounts[] = []
  try {
    const reads: CaptureRead[] = []
    if (options.group !== undefined) {
      const writer = createGroupWriter(options.format, out)
      let flows = 0
      const { counters } = await scoreGroups(saved, inputs, options.group, scoring, ({ groups, read }) => {
        for (const line of read === null ? [] : complaints(read)) warn(line)
        if (read !== null) reads.push(read)
        for (const group of groups) {
          flows += group.flows
          // an empty capture is no normal one
          if (group.flows > 0 && (options.novelOnly !== true || group.novel)) writer.write(group)
        }
        out.flush()
      })
      progress.stop()
      if (counters !== null && reads.length > 0 && flows === 0) {
        throw noFlowIn(files, describePackets(counters, reads))
      }
      if (counters !== null) note(describePackets(counters, reads))
      note(describeGroupLevel(saved, options.group))
      return
    }
    const writer = createVerdictWriter(options.format, kind, out, options.explain === true ? saved : null)
    const { counters } = await scoreInputs(
      saved,
      inputs,
      { ...scoring, keepRows: false, novelOnly: options.novelOnly, explain: options.explain },
      ({ verdicts, release, counts, read }) => {
        for (const line of read === null ? [] : complaints(read)) warn(line)
        if (read !== null) reads.push(read)
        totals.push(counts)
        for (const verdict of verdicts) writer.write(verdict)
        release()
        // what is known of one input is not lost if the next cannot be read
        out.flush()
      },
    )
    out.flush()
    progress.stop()
    if (counters !== null && reads.length > 0 && totals.every(({ total }) => total === 0)) {
      throw noFlowIn(files, describePackets(counters, reads))
    }
    warnOfBareRows(saved, kind)
    note(describeVerdicts(totals, kind))
    if (counters !== null) note(describePackets(counters, reads))
    const seen = describeView(reads)
    if (seen !== null) note(seen)
    note(describeThreshold(saved))
  } finally {
    progress.stop()
  }
}

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
import type { CaptureFlags } from '../flags.js'
import { complain, inputKind, noFlowIn, note, warn, warnOfBareRows, withProgress } from '../inputs.js'
import {
  createGroupWriter,
  createVerdictWriter,
  describeGroupLevel,
  describePackets,
  describeThreshold,
  describeVerdicts,
  notePackets,
} from '../output/verdict-lines.js'
import {
  type CaptureInput,
  type CaptureRead,
  complaints,
  type InputsUnderModel,
  inputsUnderModel,
  type Reading,
  stopForStreams,
} from '../pipeline/read-packets.js'
import { readRowsUnder } from '../pipeline/read-rows.js'
import { type RecordOptions, readRecords, type ScoreSummary, scoreInputs } from '../pipeline/score-inputs.js'
import type { VerdictCounts } from '../pipeline/verdict-store.js'

export type GroupKind = 'capture' | 'device'

export interface ScoredGroup extends GroupVerdict {
  readonly group: GroupKind
  readonly capture: string
  /** MAC address, or the address where the link has none; null for a whole capture. */
  readonly device: string | null
}

interface GroupResult {
  /** In order of their first flows. */
  readonly groups: readonly ScoredGroup[]
  readonly read: CaptureRead | null
}

/** Of one capture: a flood of made-up addresses must not take all memory. */
const MAXIMUM_DEVICES = 65_536

const LOCAL_NETWORKS = PRIVATE_NETWORKS.map(parseNetwork)

/**
 * A verdict for each capture, or each device of a capture (groups.ts of the detectors). Flows without a score are in no
 * group.
 */
async function scoreGroups(
  saved: SavedModel,
  inputs: readonly CaptureInput[],
  kind: GroupKind,
  options: Reading & RecordOptions,
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
      `--group ${kind}: the model has no threshold for groups of flows; train it with --detector ensemble`,
    )
  }
  if (groups[kind] === null) {
    throw new UsageError(
      `--group ${kind}: the model was trained on fewer than two ${kind === 'capture' ? 'captures' : 'devices'}, so it has no threshold for ${kind}s; train it on more captures`,
    )
  }
  return createGroups(groups, kind)
}

interface ScoreCommandOptions extends CaptureFlags {
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
  const run: Run = { ...inputsUnderModel(modelPath, files, options), files, reads: [] }
  if (options.group === undefined) await writeVerdicts(run, options)
  else await writeGroups(run, options.group, options)
}

interface Run extends InputsUnderModel {
  readonly files: readonly string[]
  /** The captures that were read so far. */
  readonly reads: CaptureRead[]
}

async function writeGroups(run: Run, group: GroupKind, options: ScoreCommandOptions): Promise<void> {
  const { saved, inputs, reads } = run
  const out = createLineWriter()
  const writer = createGroupWriter(options.format, out)
  let flows = 0
  const { counters } = await withProgress((progress) =>
    scoreGroups(saved, inputs, group, { ...scoringOf(run), progress }, ({ groups, read }) => {
      addRead(reads, read)
      for (const each of groups) {
        flows += each.flows
        // an empty capture is no normal one
        if (each.flows > 0 && (options.novelOnly !== true || each.novel)) writer.write(each)
      }
      out.flush()
    }),
  )
  refuseNothing(run, counters, flows)
  if (counters !== null) note(describePackets(counters, reads))
  note(describeGroupLevel(saved, group))
}

async function writeVerdicts(run: Run, options: ScoreCommandOptions): Promise<void> {
  const { kind, saved, inputs, reads } = run
  const { novelOnly, explain, format } = options
  const out = createLineWriter()
  const writer = createVerdictWriter(format, kind, out, explain === true ? saved : null)
  const totals: VerdictCounts[] = []
  const { counters } = await withProgress((progress) =>
    scoreInputs(
      saved,
      inputs,
      { ...scoringOf(run), progress, keepRows: false, novelOnly, explain },
      ({ verdicts, release, counts, read }) => {
        addRead(reads, read)
        totals.push(counts)
        for (const verdict of verdicts) writer.write(verdict)
        release()
        // what is known of one input is not lost if the next cannot be read
        out.flush()
      },
    ),
  )
  out.flush()
  refuseNothing(
    run,
    counters,
    totals.reduce((sum, { total }) => sum + total, 0),
  )
  warnOfBareRows(saved, kind)
  note(describeVerdicts(totals, kind))
  notePackets(counters, reads)
  note(describeThreshold(saved))
}

function scoringOf({ files, reading }: Run) {
  // one input that cannot be read takes nothing from the others
  const onUnreadable = (error: Error): void => {
    complain(error.message)
    process.exitCode = 1
  }
  return {
    ...reading,
    stop: stopForStreams(files),
    onUnreadable: files.length === 1 ? undefined : onUnreadable,
  }
}

function addRead(reads: CaptureRead[], read: CaptureRead | null): void {
  if (read === null) return
  for (const line of complaints(read)) warn(line)
  reads.push(read)
}

function refuseNothing({ files, reads }: Run, counters: ScoreSummary['counters'], found: number): void {
  if (counters !== null && reads.length > 0 && found === 0) {
    throw noFlowIn(files, describePackets(counters, reads))
  }
}

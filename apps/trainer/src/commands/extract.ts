/** `oddflow extract CAPTURE… -o FILE`: captures to feature rows, without a model or under a model's contract. */
import type { CaptureReaderName } from '@oddflow/capture/node'
import { DataError, encodeCsvRows, encodeNpy, type IatSizeContract, type Matrix } from '@oddflow/core'
import { extractMatrix, extractRecords, learnIatSizeContract } from '@oddflow/flows'
import { readModel, UsageError } from '@oddflow/program'
import { inputKindOfAll } from '../input/input-kind.js'
import { nameInputs, namingInputs } from '../input/name-inputs.js'
import { describePackets, plural } from '../output/describe-verdicts.js'
import { note, warn } from '../output/messages.js'
import { createProgress } from '../output/progress.js'
import { checkWritable, writeFileWhole } from '../output/write-file.js'
import { collectFlows } from '../pipeline/collect-flows.js'
import { complaints, filterFrom } from '../pipeline/read-packets.js'
import { recipeNamed } from '../recipes.js'
import { flowRules } from './train.js'

export interface ExtractCommandOptions {
  readonly output: string
  readonly model?: string
  readonly iatUnit?: 's' | 'us'
  readonly size?: 'frame' | 'ip'
  readonly truncation?: 'split' | 'truncate'
  readonly idleTimeout?: number
  readonly activeTimeout?: number
  readonly filter?: string
  readonly reader?: CaptureReaderName
}

const CONTRACT_FLAGS = {
  iatUnit: '--iat-unit',
  size: '--size',
  truncation: '--truncation',
  idleTimeout: '--idle-timeout',
  activeTimeout: '--active-timeout',
} as const

export async function extract(files: readonly string[], options: ExtractCommandOptions): Promise<void> {
  if (inputKindOfAll(files) === 'rows')
    throw new UsageError(`${files[0]}: extract reads captures, and this is rows already`)
  const encode = encoderFor(options.output)
  const contractOfModel = options.model === undefined ? null : contractFrom(options.model, options)
  const rules = flowRules(options, recipeNamed('default'))
  checkWritable(options.output, options.model === undefined ? files : [...files, options.model])
  const progress = createProgress()
  try {
    const { flows, reads } = await collectFlows(files, {
      filter: filterFrom(options.filter),
      reader: options.reader,
      progress,
      sizeMeasure: contractOfModel?.sizeMeasure ?? rules.sizeMeasure,
      idleTimeoutMicros: contractOfModel?.idleTimeoutMicros ?? rules.idleTimeoutMicros,
    })
    for (const line of reads.flatMap(complaints)) warn(line)
    const contract =
      contractOfModel ??
      namingInputs(files, () =>
        learnIatSizeContract(flows, {
          mode: rules.truncation,
          iatUnit: rules.iatUnit,
          activeTimeoutMicros: rules.activeTimeoutMicros,
        }),
      )
    const counts = extractRecords(flows, contract, () => {})
    if (counts.rows === 0)
      throw new DataError(
        `${nameInputs(files)}: no flow of ${contract.minimumPackets} or more packets, so there is no row to write; check what was captured, and the filter`,
      )
    const rows = extractMatrix(flows, contract)
    writeFileWhole(options.output, encode(rows, columnNames(contract)))
    note(
      `${options.output}: ${plural(rows.rows, 'row')} of D = ${rows.cols} (first ${contract.packetsPerFlow} packets, ${contract.truncation.mode} at ${contract.truncation.durationMicros / 1e6} s); ${plural(counts.onePacketFlows, 'flow')} of one packet make no row`,
    )
    const evictions = {
      evictedFlows: 0,
      evictedHalfOpenFlows: 0,
      evictedActiveFlows: 0,
      evictedIdleFlows: 0,
    }
    note(describePackets({ ...flows.counters, ...counts, ...evictions }))
  } finally {
    progress.stop()
  }
}

function encoderFor(path: string): (rows: Matrix, names: string[]) => Uint8Array {
  if (/\.npy$/i.test(path)) return (rows) => encodeNpy(rows)
  if (/\.csv$/i.test(path)) return (rows, names) => encodeCsvRows(rows, names)
  throw new UsageError(`--output ${path}: expected a name that ends in .npy or .csv`)
}

function contractFrom(model: string, options: ExtractCommandOptions): IatSizeContract {
  for (const [key, flag] of Object.entries(CONTRACT_FLAGS)) {
    if (options[key as keyof ExtractCommandOptions] !== undefined) {
      throw new UsageError(
        `${flag}: the model's feature contract sets it; leave out one of ${flag} and --model`,
      )
    }
  }
  const { contract } = readModel(model)
  if (contract.featureSet !== 'iat-size')
    throw new UsageError(`${model}: was trained on rows and has no rule to make them`)
  return contract
}

/**
 * Columns are numbered, not named: the row of a flow with fewer packets than places ends with its last size
 * in a column where longer flows have an interarrival time (docs/flows.md).
 */
function columnNames({ dimension }: IatSizeContract): string[] {
  return Array.from({ length: dimension }, (_, i) => `x${i + 1}`)
}

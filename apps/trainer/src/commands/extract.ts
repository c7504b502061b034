/**
 * `oddflow extract CAPTURE… -o FILE`: captures to feature rows, without a model or under a model's contract; with
 * --flows, to flow records (extract-flows.ts).
 */

import {
  columnLabel,
  DataError,
  encodeCsvRows,
  encodeNpy,
  type FlowContract,
  featureColumns,
  type Matrix,
  plural,
} from '@oddflow/core'
import { learnFeatureContract } from '@oddflow/flows'
import { checkWritable, readModel, UsageError, writeFileWhole } from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import { type CaptureFlags, viewFrom, viewOfModel } from '../capture-flags.js'
import { FLOW_FLAGS, type FlowFlags } from '../flow-flags.js'
import { inputKindOfAll } from '../input/input-kind.js'
import { nameInputs, namingInputs } from '../input/name-inputs.js'
import { cutText, featureText } from '../output/describe-contract.js'
import { describePackets } from '../output/describe-verdicts.js'
import { note, warn } from '../output/messages.js'
import { collectFlows, countersOf, rowsOfFlows } from '../pipeline/collect-flows.js'
import { flowPlan, gatheringOf } from '../pipeline/flow-plan.js'
import { captureInputs, complaints, describeView, filterFrom } from '../pipeline/read-packets.js'
import { RECIPES, recipeNamed } from '../recipes.js'
import { extractFlows } from './extract-flows.js'

export interface ExtractCommandOptions extends CaptureFlags, FlowFlags {
  readonly output: string
  readonly model?: string
  readonly recipe?: string
  readonly flows?: boolean
}

export async function extract(files: readonly string[], options: ExtractCommandOptions): Promise<void> {
  if (inputKindOfAll(files) === 'rows')
    throw new UsageError(`${files[0]}: extract reads captures, and this is rows already`)
  if (options.flows === true) return extractFlows(files, options)
  const encode = encoderFor(options.output)
  const filter = filterFrom(options.filter)
  const known = options.model === undefined ? null : contractFrom(options.model, options)
  const { gathering, learning } =
    known === null
      ? flowPlan(options, recipeFrom(options.recipe))
      : { gathering: gatheringOf(known), learning: null }
  const view = known === null ? viewFrom(options) : viewOfModel(options, known)
  if (options.output !== '-')
    checkWritable(options.output, options.model === undefined ? files : [...files, options.model])
  const inputs = captureInputs(files, options.continuous)
  const progress = createProgress()
  try {
    const reading = {
      filter,
      reader: options.reader,
      dropDuplicates: options.dropDuplicates,
      flowMemoryBytes: options.flowMemory,
      view,
      progress,
    }
    const { flows, reads } = await collectFlows(inputs, gathering, reading)
    for (const line of reads.flatMap(complaints)) warn(line)
    const contract = known ?? namingInputs(files, () => learnFeatureContract(flows, { ...learning, view }))
    const { rows, counts } = rowsOfFlows(flows, contract)
    if (counts.rows === 0)
      throw new DataError(
        `${nameInputs(files)}: no flow of ${contract.minimumPackets} or more packets, so there is no row to write; check what was captured, and the filter`,
      )
    writeFileWhole(options.output, encode(rows, featureColumns(contract).map(columnLabel)))
    const facts = [featureText(contract), ...cutText(contract)]
    if (contract.minimumPackets > 1)
      facts.push(`${plural(counts.onePacketFlows, 'flow')} of one packet make no row`)
    note(
      `${options.output === '-' ? 'standard output' : options.output}: ${plural(rows.rows, 'row')} of D = ${rows.cols}: ${facts.join('; ')}`,
    )
    note(describePackets(countersOf(flows, counts), reads))
    const seen = describeView(reads)
    if (seen !== null) note(seen)
  } finally {
    progress.stop()
  }
}

/**
 * Rows that no model asks for are the paper's (long flows are truncated), in seconds, for whoever compares
 * detectors; a recipe that is named is followed to the letter.
 */
function recipeFrom(name: string | undefined) {
  return name === undefined
    ? { ...RECIPES.default, features: 'iat-size' as const, truncation: 'truncate' as const }
    : recipeNamed(name)
}

function encoderFor(path: string): (rows: Matrix, names: string[]) => Uint8Array {
  if (/\.npy$/i.test(path)) return (rows) => encodeNpy(rows)
  if (path === '-' || /\.csv$/i.test(path)) return (rows, names) => encodeCsvRows(rows, names)
  throw new UsageError(
    `--output ${path}: expected a name that ends in .npy or .csv, - for .csv on standard output, or --flows`,
  )
}

function contractFrom(model: string, options: ExtractCommandOptions): FlowContract {
  for (const [key, flag] of Object.entries({ recipe: '--recipe', ...FLOW_FLAGS })) {
    if (options[key as keyof ExtractCommandOptions] !== undefined) {
      throw new UsageError(
        `${flag}: the model's feature contract sets it; leave out one of ${flag} and --model`,
      )
    }
  }
  const { contract } = readModel(model)
  if (contract.featureSet === 'rows')
    throw new UsageError(`${model}: was trained on rows and has no rule to make them`)
  return contract
}

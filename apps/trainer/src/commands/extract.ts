/**
 * `oddflow extract CAPTURE… -o FILE`: captures to feature rows, without a model or under a model's contract; with
 * --flows, to flow records.
 */

import {
  columnLabel,
  connectionRules,
  DataError,
  encodeCsvRows,
  encodeNpy,
  FLOW_PROTOCOLS,
  type FlowContract,
  featureColumns,
  type IatSizeContract,
  type Matrix,
  packetRules,
  plural,
} from '@oddflow/core'
import { createFlowExtractor, type FlowCounters, learnFeatureContract } from '@oddflow/flows'
import { checkWritable, readModel, UsageError, writeFileWhole } from '@oddflow/program'
import {
  type CaptureFlags,
  FLOW_OPTIONS,
  type FlowFlags,
  givenFlag,
  RECIPES,
  type Recipe,
  recipeNamed,
  viewFrom,
  viewOfModel,
} from '../flags.js'
import { flowWriterFor, intoWholeFile } from '../flow-output.js'
import {
  hashSeed,
  inputKindOfAll,
  nameInputs,
  namingInputs,
  noFlowIn,
  note,
  warn,
  withProgress,
} from '../inputs.js'
import { describePackets, notePackets } from '../output/verdict-lines.js'
import {
  activeTimeoutFrom,
  type FlowPlan,
  flowPlan,
  gatheringFrom,
  gatheringOf,
  memoryOption,
  namingFlowMemory,
} from '../pipeline/flow-plan.js'
import {
  BATCH_FRAMES,
  type CaptureInput,
  type CaptureRead,
  captureInputs,
  complaints,
  type Reading,
  readingFrom,
  readPackets,
  stopForStreams,
} from '../pipeline/read-packets.js'
import { collectFlows, countersOf, rowsOfFlows } from '../pipeline/score-inputs.js'
import { readRowsOfCaptures, summaryContract } from '../pipeline/training-captures.js'
import { cutText, featureText } from './model-file.js'

/** What says how rows are made, and so nothing of flows. */
const ROW_OPTIONS = ['model', 'recipe', 'features', 'iatUnit', 'truncation']

/** Flow records, streamed as they end, so that memory is that of the open flows. */
export async function extractFlows(files: readonly string[], options: ExtractCommandOptions): Promise<void> {
  const flag = givenFlag(options, ROW_OPTIONS)
  if (flag !== undefined) {
    throw new UsageError(`${flag}: does not apply to --flows, which makes no rows; leave one of the two out`)
  }
  const createWriter = flowWriterFor(options.output)
  const contract = wholeFlows(options)
  const reading = { ...readingFrom(options), view: viewFrom(options), stop: stopForStreams(files) }
  if (options.output !== '-') checkWritable(options.output, files)
  const reads: CaptureRead[] = []
  const counters = await withProgress((progress) =>
    intoWholeFile(options.output, async (file) => {
      const writer = createWriter(file, contract)
      const extractor = namingFlowMemory(() =>
        createFlowExtractor({
          contract,
          hashSeed: hashSeed(),
          ...memoryOption(reading),
          onRecord: (record) => writer.write(record),
        }),
      )
      const packets = extractor.createBatch(BATCH_FRAMES)
      for (const input of captureInputs(files, options.continuous)) {
        const read = await readPackets(
          input,
          { ...reading, progress },
          (batch) => extractor.add(batch),
          packets,
        )
        extractor.endCapture()
        reads.push(read)
        for (const line of complaints(read)) warn(line)
        if (read.stoppedBy !== null) break
      }
      const total = extractor.finish()
      if (total.records === 0) throw noFlowIn(files, describePackets(total, reads))
      writer.finish()
      return total
    }),
  )
  note(`${outputName(options)}: ${plural(counters.records, 'flow record')}`)
  notePackets(counters, reads)
}

const outputName = ({ output }: ExtractCommandOptions): string =>
  output === '-' ? 'standard output' : output

/** A contract under which a record is a whole flow, or what an active timeout makes of it. */
function wholeFlows(options: ExtractCommandOptions): IatSizeContract {
  const { protocols, endOnClose, vlanKey, ...gathering } = gatheringFrom(
    options,
    RECIPES.default,
    FLOW_PROTOCOLS,
  )
  return {
    featureSet: 'iat-size',
    featureSetVersion: 1,
    dimension: 3,
    packetsPerFlow: 2,
    iatUnit: 'seconds',
    ...gathering,
    activeTimeoutMicros: activeTimeoutFrom(options),
    truncation: { mode: 'truncate', durationMicros: Number.MAX_SAFE_INTEGER },
    minimumPackets: 2,
    scaler: 'none',
    ...packetRules(viewFrom(options), protocols),
    ...connectionRules('iat-size', { endOnClose, vlanKey }),
  }
}

export interface ExtractCommandOptions extends CaptureFlags, FlowFlags {
  readonly output: string
  readonly model?: string
  readonly recipe?: string
  readonly flows?: boolean
}

export async function extract(files: readonly string[], options: ExtractCommandOptions): Promise<void> {
  if (inputKindOfAll(files) === 'rows')
    throw new UsageError(`${files[0]}: extract reads captures, and this is a file of rows`)
  if (options.flows === true) return extractFlows(files, options)
  const encode = encoderFor(options.output)
  const reading = readingFrom(options)
  const source =
    options.model === undefined
      ? flowPlan(options, recipeFrom(options.recipe))
      : contractFrom(options.model, options)
  const view = 'gathering' in source ? viewFrom(options) : viewOfModel(options, source)
  if (options.output !== '-')
    checkWritable(options.output, options.model === undefined ? files : [...files, options.model])
  const inputs = captureInputs(files, options.continuous)
  const { contract, rows, counters, reads } = await withProgress((progress) =>
    readRows(source, inputs, { ...reading, view, progress }),
  )
  for (const line of reads.flatMap(complaints)) warn(line)
  if (counters.records === 0) throw noFlowIn(files, describePackets(counters, reads))
  if (rows.rows === 0)
    throw new DataError(
      `${nameInputs(files)}: no flow of ${contract.minimumPackets} or more packets, so there is no row to write; check what was captured, and the filter`,
    )
  writeFileWhole(options.output, encode(rows, featureColumns(contract).map(columnLabel)))
  const facts = [featureText(contract), ...cutText(contract)]
  if (contract.minimumPackets > 1)
    facts.push(`${plural(counters.onePacketFlows, 'flow')} of one packet make no row`)
  note(`${outputName(options)}: ${plural(rows.rows, 'row')} of D = ${rows.cols}: ${facts.join('; ')}`)
  notePackets(counters, reads)
}

interface ExtractedRows {
  readonly contract: FlowContract
  readonly rows: Matrix
  readonly counters: FlowCounters
  readonly reads: readonly CaptureRead[]
}

/** Rows are made as flows end, unless their contract is learned from whole flows or cuts these. */
async function readRows(
  source: FlowPlan | FlowContract,
  inputs: readonly CaptureInput[],
  reading: Reading,
): Promise<ExtractedRows> {
  const known = !('gathering' in source)
    ? source
    : source.learning.featureSet === 'flow-summary'
      ? summaryContract(source, reading.view)
      : null
  if (known !== null && known.flowKey !== 'directional-5-tuple') {
    const { rows, counters, reads } = await readRowsOfCaptures(inputs, known, reading)
    return { contract: known, rows: rows.finish(null).rows, counters, reads }
  }
  const { gathering, learning } =
    'gathering' in source ? source : { gathering: gatheringOf(source), learning: {} }
  const { flows, reads } = await collectFlows(inputs, gathering, reading)
  const contract =
    known ??
    namingInputs(
      inputs.map(({ name }) => name),
      () => learnFeatureContract(flows, { ...learning, view: reading.view }),
    )
  const { rows, counts } = rowsOfFlows(flows, contract)
  return { contract, rows, counters: countersOf(flows, counts), reads }
}

/** Without a recipe, packet feature sets truncate long flows as the paper does; a recipe that is named is followed exactly. */
function recipeFrom(name: string | undefined): Recipe {
  return name === undefined ? { ...RECIPES.default, truncation: 'truncate' } : recipeNamed(name)
}

function encoderFor(path: string): (rows: Matrix, names: string[]) => Uint8Array {
  if (/\.npy$/i.test(path)) return (rows) => encodeNpy(rows)
  if (path === '-' || /\.csv$/i.test(path)) return (rows, names) => encodeCsvRows(rows, names)
  throw new UsageError(
    `--output ${path}: expected a name that ends in .npy or .csv, - for .csv on standard output, or --flows`,
  )
}

function contractFrom(model: string, options: ExtractCommandOptions): FlowContract {
  const flag = givenFlag(options, ['recipe', ...FLOW_OPTIONS])
  if (flag !== undefined) {
    throw new UsageError(
      `${flag}: the model's feature contract sets it; leave out one of ${flag} and --model`,
    )
  }
  const { contract } = readModel(model)
  if (contract.featureSet === 'rows')
    throw new UsageError(
      `${model}: was trained on rows and has no rule to make them; give a model that was trained on captures`,
    )
  return contract
}

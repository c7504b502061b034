/**
 * `oddflow extract --flows CAPTURE… -o FILE`: flow records for people and their tools, a line or a row each, with no
 * model and nothing learned. Records are streamed as they end, so that memory is that of the open flows.
 */
import { connectionRules, FLOW_PROTOCOLS, type IatSizeContract, packetRules, plural } from '@oddflow/core'
import { createFlowExtractor } from '@oddflow/flows'
import { checkWritable, UsageError } from '@oddflow/program'
import { createProgress } from '@oddflow/program/progress'
import { viewFrom } from '../capture-flags.js'
import { flowWriterFor, intoWholeFile } from '../flow-output/flow-writer.js'
import { noFlowIn } from '../input/name-inputs.js'
import { describePackets } from '../output/describe-verdicts.js'
import { note, warn } from '../output/messages.js'
import { memoryOption, namingFlowMemory } from '../pipeline/flow-memory.js'
import { activeTimeoutFrom, gatheringFrom } from '../pipeline/flow-plan.js'
import { hashSeed } from '../pipeline/hash-seed.js'
import {
  BATCH_FRAMES,
  type CaptureRead,
  captureInputs,
  complaints,
  describeView,
  filterFrom,
  readPackets,
  stopForStreams,
} from '../pipeline/read-packets.js'
import { RECIPES } from '../recipes.js'
import type { ExtractCommandOptions } from './extract.js'

/** What says how rows are made, and so nothing of flows. */
const ROW_FLAGS = {
  model: '--model',
  recipe: '--recipe',
  features: '--features',
  iatUnit: '--iat-unit',
  truncation: '--truncation',
  samplingQuantile: '--sampling-quantile',
  headerPackets: '--header-packets',
} as const

export async function extractFlows(files: readonly string[], options: ExtractCommandOptions): Promise<void> {
  for (const [key, flag] of Object.entries(ROW_FLAGS)) {
    if (options[key as keyof typeof ROW_FLAGS] !== undefined)
      throw new UsageError(
        `${flag}: does not apply to --flows, which makes no rows; leave one of the two out`,
      )
  }
  const createWriter = flowWriterFor(options.output)
  const contract = wholeFlows(options)
  const filter = filterFrom(options.filter)
  if (options.output !== '-') checkWritable(options.output, files)
  const progress = createProgress()
  const reads: CaptureRead[] = []
  try {
    const counters = await intoWholeFile(options.output, async (file) => {
      const writer = createWriter(file, contract)
      const extractor = namingFlowMemory(() =>
        createFlowExtractor({
          contract,
          hashSeed: hashSeed(),
          ...memoryOption({ flowMemoryBytes: options.flowMemory }),
          onRecord: (record) => writer.write(record),
        }),
      )
      const reading = {
        filter,
        reader: options.reader,
        dropDuplicates: options.dropDuplicates,
        view: viewFrom(options),
        progress,
        stop: stopForStreams(files),
      }
      const packets = extractor.createBatch(BATCH_FRAMES)
      for (const input of captureInputs(files, options.continuous)) {
        const read = await readPackets(input, reading, (batch) => extractor.add(batch), packets)
        extractor.endCapture()
        reads.push(read)
        for (const line of complaints(read)) warn(line)
        if (read.stoppedBy !== null) break
      }
      const total = extractor.finish()
      if (total.records === 0) throw noFlowIn(files, describePackets(total, reads))
      writer.finish()
      return total
    })
    progress.stop()
    note(
      `${options.output === '-' ? 'standard output' : options.output}: ${plural(counters.records, 'flow record')}`,
    )
    note(describePackets(counters, reads))
    const seen = describeView(reads)
    if (seen !== null) note(seen)
  } finally {
    progress.stop()
  }
}

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

/** Captures as flows: what `readFlows` of Node and that of a browser have in common. */
import {
  type CaptureEnd,
  compileFilter,
  createPacketDecoder,
  describeDamage,
  type FrameBatch,
  type PacketBatch,
  PacketCheck,
  type PacketFilter,
  packetCheckWarnings,
  packetStatusCode,
} from '@oddflow/capture'
import { ArgumentError, ContractMismatchError, type FlowContract, packetView } from '@oddflow/core'
import {
  createFlowExtractor,
  DEFAULT_FLOW_MEMORY_BYTES,
  type FlowCounters,
  flowSummaryContract,
} from '@oddflow/flows'
import { type Model, TrainedModel } from './model.js'
import { CapturedFlow, checkOptionNames, describe, type Flow, isObject } from './rows.js'

/** A stream of the Web: a ReadableStream of Uint8Array. */
export interface WebStream {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>
    cancel(): Promise<void>
  }
}

/** A Blob, or a File, whose name stands in warnings. */
export interface BlobLike {
  readonly name?: string
  stream(): WebStream
  arrayBuffer(): Promise<ArrayBuffer>
}

/** The bytes of a capture: pcap or pcapng, plain or gzip (in Node from 22.15 on, zstd too). */
export type CaptureBytes = Uint8Array | ArrayBuffer | BlobLike | WebStream | AsyncIterable<Uint8Array>

/** A place that bytes can be read from: a path, or a URL object. */
export type Place = string | { readonly href: string }

/** Options of `readFlows`; each has a default. */
export interface ReadFlowsOptions {
  /** Reads the flows that this model scores. Default: flows in 20 numbers, as `fit` takes them. */
  readonly model?: Model
  /** Only packets that this filter accepts, in tcpdump's words: "host 192.168.1.20 and tcp". */
  readonly filter?: string
  /** Leave out copies of a packet, which mirror ports make. Default false. */
  readonly dropDuplicates?: boolean
  /** Memory for open flows, in bytes. Default 32 MiB, about 84,000 flows; beyond it the longest silent flow ends. */
  readonly memoryBytes?: number
  /** Is given a sentence for each thing that is wrong with a capture, for example that it is cut short. Default console.warn. */
  readonly onWarning?: (message: string) => void
}

/** Flows to iterate over, `for await (const flow of flows)`; each iteration reads the sources from the start. */
export interface Flows extends AsyncIterable<Flow> {
  /** All flows, in one list. */
  toArray(): Promise<Flow[]>
  /** What became of every packet: in a flow, or dropped for a named reason. Null until an iteration is done. */
  readonly counters: FlowCounters | null
}

/** One source, opened: frames, how they ended, and what to call it in warnings. */
export interface OpenedCapture {
  readonly name: string
  readonly frames: AsyncIterable<FrameBatch>
  readonly end: () => CaptureEnd | null
}

const BATCH_FRAMES = 2048
const FILTERED_OUT = packetStatusCode('filtered-out')
/** Flows that the end of a capture gives at a time, so that memory does not grow with the open flows. */
const FLOWS_AT_A_TIME = 1024

/** Checks the options at once; sources are opened when the flows are iterated over. */
export function flowsOf(opens: readonly (() => OpenedCapture)[], options: ReadFlowsOptions): Flows {
  const reading = checkedReading(options)
  let counters: FlowCounters | null = null
  return {
    get counters() {
      return counters
    },
    async toArray() {
      const flows: Flow[] = []
      for await (const flow of this) flows.push(flow)
      return flows
    },
    async *[Symbol.asyncIterator]() {
      let ended: Flow[] = []
      const take = (): Flow[] => {
        const taken = ended
        ended = []
        return taken
      }
      const extractor = createFlowExtractor({
        contract: reading.contract,
        memoryBytes: reading.memoryBytes,
        hashSeed: hashSeed(),
        onRecord(record) {
          // what is left of a long flow after its last window is part of a flow that was given: counted alone
          if (record.noRowReason !== 'remainder') ended.push(new CapturedFlow(record, reading.contract))
        },
      })
      const packets = extractor.createBatch(BATCH_FRAMES)
      for (const open of opens) {
        for await (const batch of packetsOf(open(), packets, reading)) {
          extractor.add(batch)
          yield* take()
        }
        while (extractor.endFlows(FLOWS_AT_A_TIME)) yield* take()
        extractor.endCapture()
        yield* take()
      }
      counters = extractor.finish()
    },
  }
}

interface Reading {
  readonly contract: FlowContract
  readonly filter: PacketFilter | null
  readonly dropDuplicates: boolean
  readonly memoryBytes: number
  readonly warn: (message: string) => void
}

function checkedReading(options: ReadFlowsOptions): Reading {
  checkOptionNames(options, ['model', 'filter', 'dropDuplicates', 'memoryBytes', 'onWarning'])
  const { model, filter, dropDuplicates = false, memoryBytes = DEFAULT_FLOW_MEMORY_BYTES } = options
  if (filter !== undefined && typeof filter !== 'string') {
    throw new ArgumentError(`filter: expected a text, found ${describe(filter)}`, 'filter')
  }
  if (typeof memoryBytes !== 'number') {
    throw new ArgumentError(`memoryBytes: expected a number, found ${describe(memoryBytes)}`, 'memoryBytes')
  }
  if (options.onWarning !== undefined && typeof options.onWarning !== 'function') {
    throw new ArgumentError(
      `onWarning: expected a function, found ${describe(options.onWarning)}`,
      'onWarning',
    )
  }
  return {
    contract: model === undefined ? SUMMARIES : contractOf(model),
    filter: filter === undefined ? null : compileFilter(filter),
    dropDuplicates,
    memoryBytes,
    warn: options.onWarning ?? ((message) => console.warn(`oddflow: ${message}`)),
  }
}

/** As `oddflow train` reads captures. */
const SUMMARIES = flowSummaryContract({ endOnClose: true })

function contractOf(model: Model): FlowContract {
  const { contract } = TrainedModel.savedOf(model)
  const reason =
    contract.featureSet === 'rows'
      ? 'expected a model that was trained on flows, found one that was trained on rows'
      : contract.flowKey === 'directional-5-tuple'
        ? 'its flows (recipe authors) can be judged only when the capture is whole; use the command oddflow score'
        : null
  if (reason !== null) throw new ContractMismatchError(`model: ${reason}`, 'model')
  return contract as FlowContract
}

/** Decoded packets of a capture, in batches that are valid until the next is asked for. Warns of what is wrong with it. */
async function* packetsOf(
  { name, frames, end }: OpenedCapture,
  packets: PacketBatch,
  { contract, filter, dropDuplicates, warn }: Reading,
): AsyncGenerator<PacketBatch> {
  const { decapsulation, joinFragments } = packetView(contract)
  const decoder = createPacketDecoder({ decapsulate: decapsulation, joinFragments, hashSeed: hashSeed() })
  const check = new PacketCheck({ dropDuplicates, hashSeed: hashSeed() })
  for await (const batch of frames) {
    decoder.decode(batch, packets)
    for (let i = 0; i < packets.count; i++) {
      if (filter !== null && !filter(packets, i)) packets.status[i] = FILTERED_OUT
      else check.look(batch, packets, i)
    }
    yield packets
  }
  const ending = end()
  const doubts = packetCheckWarnings(check.counts, 'dropDuplicates').map(({ text }) => text)
  for (const text of [...(ending?.warnings ?? []), ...doubts]) warn(`${name}: ${text}`)
  if (ending !== null && (ending.truncated || ending.error !== null)) warn(describeDamage(name, ending))
}

/** Random, so that a sender cannot choose flows that share one slot of the table. No result depends on it. */
function hashSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0]!
}

/** A list of sources, or one. Throws ArgumentError where there is none. */
export function sourcesIn<Source>(source: Source | readonly Source[]): readonly Source[] {
  const sources = Array.isArray(source) ? (source as readonly Source[]) : [source as Source]
  if (sources.length === 0)
    throw new ArgumentError('source: expected at least one, found an empty list', 'source')
  return sources
}

/** What warnings call a source that is no place: the name of a File, otherwise its number. */
export function nameOf(source: unknown, i: number): string {
  return isObject(source) && typeof source.name === 'string' ? source.name : `source ${i}`
}

/** The blocks of bytes that are given; null for anything else. */
export function blocksOf(source: unknown): AsyncIterable<Uint8Array> | null {
  if (source instanceof Uint8Array) return oneBlock(source)
  if (source instanceof ArrayBuffer) return oneBlock(new Uint8Array(source))
  if (!isObject(source)) return null
  if (typeof source.getReader === 'function') return webBlocks(source as unknown as WebStream)
  if (Symbol.asyncIterator in source) return source as unknown as AsyncIterable<Uint8Array>
  if (typeof source.stream === 'function') return webBlocks((source as unknown as BlobLike).stream())
  return null
}

/** The bytes that are given. Throws ArgumentError for anything else. */
export async function bytesOf(source: unknown, expected: string): Promise<Uint8Array> {
  if (source instanceof Uint8Array) return source
  if (source instanceof ArrayBuffer) return new Uint8Array(source)
  if (isObject(source) && typeof source.arrayBuffer === 'function') {
    return new Uint8Array(await (source as unknown as BlobLike).arrayBuffer())
  }
  throw new ArgumentError(`source: expected ${expected}, found ${describe(source)}`, 'source')
}

async function* oneBlock(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** Not every browser can iterate over a stream. */
async function* webBlocks(stream: WebStream): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done || value === undefined) return
      yield value
    }
  } finally {
    await reader.cancel()
  }
}

/** The library in a browser: what index.ts is for Node, on URLs, files that a user chose, and streams. */
import { type CaptureEnd, createCaptureReader, type FrameBatch } from '@oddflow/capture'
import { ArgumentError, FormatError, OddFlowError } from '@oddflow/core'
import { decodeModelFile } from '@oddflow/detectors'
import { type Model, TrainedModel } from './library/model.js'
import {
  type BlobLike,
  blocksOf,
  bytesOf,
  type CaptureBytes,
  type Flows,
  flowsOf,
  nameOf,
  type OpenedCapture,
  type Place,
  type ReadFlowsOptions,
  sourcesIn,
} from './library/read-flows.js'
import { describe, isObject } from './library/rows.js'

export * from './library/public.js'

/**
 * Reads the flows of one capture or of several, in the order in which flows end; no flow crosses captures. A source is a
 * URL, bytes, a Blob or File, or a stream; gzip is unpacked by DecompressionStream. Throws ArgumentError for anything
 * else, and while iterating FormatError for a source that is no capture.
 */
export function readFlows(
  source: Place | CaptureBytes | readonly (Place | CaptureBytes)[],
  options: ReadFlowsOptions = {},
): Flows {
  const opens = sourcesIn(source).map((each, i) => opener(each, i))
  return flowsOf(opens, options)
}

function opener(source: unknown, i: number): () => OpenedCapture {
  const url = urlOf(source)
  if (url === null && blocksOf(source) === null) {
    throw new ArgumentError(
      `source: expected a URL, bytes, a Blob or a stream, found ${describe(source)}`,
      'source',
    )
  }
  return () => {
    const ending: Ending = { end: null, damage: null }
    const blocks = url === null ? blocksOf(source)! : fetchedBlocks(url)
    return {
      name: url ?? nameOf(source, i),
      frames: framesOf(unpacked(blocks, ending), ending),
      end: () => ending.end,
    }
  }
}

interface Ending {
  end: CaptureEnd | null
  /** Why the gzip stream could not be unpacked to its end. */
  damage: FormatError | null
}

/** Throws FormatError where there is no packet and an error. */
async function* framesOf(blocks: AsyncIterable<Uint8Array>, ending: Ending): AsyncGenerator<FrameBatch> {
  const reader = createCaptureReader()
  for await (const block of blocks) {
    reader.push(block)
    for (let batch = reader.read(); batch !== null; batch = reader.read()) yield batch
    if (reader.finished) break
  }
  const end = reader.end()
  const error = ending.damage ?? end.error
  if (error !== null && end.packets === 0) throw error
  ending.end = error === end.error ? end : { ...end, error, detail: error!.message }
}

/** What is compressed by gzip, unpacked; anything else as it is. */
async function* unpacked(source: AsyncIterable<Uint8Array>, ending: Ending): AsyncGenerator<Uint8Array> {
  const blocks = checkedBlocks(source)
  try {
    let head = new Uint8Array(0)
    while (head.length < 2) {
      const next = await blocks.next()
      if (next.done === true) break
      head = joined(head, next.value)
    }
    if (head[0] === 0x1f && head[1] === 0x8b) yield* gunzipped(head, blocks, ending)
    else {
      yield head
      yield* blocks
    }
  } finally {
    await blocks.return()
  }
}

type Blocks = AsyncGenerator<Uint8Array<ArrayBuffer>, void>

async function* gunzipped(
  head: Uint8Array<ArrayBuffer>,
  blocks: Blocks,
  ending: Ending,
): AsyncGenerator<Uint8Array> {
  let sourceError: { readonly error: unknown } | null = null
  const packed = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.enqueue(head),
    async pull(controller) {
      try {
        const next = await blocks.next()
        if (next.done === true) controller.close()
        else controller.enqueue(next.value)
      } catch (error) {
        sourceError = { error }
        throw error
      }
    },
  })
  try {
    yield* blocksOf(packed.pipeThrough(new DecompressionStream('gzip')))!
  } catch (error) {
    if (sourceError !== null) throw (sourceError as { readonly error: unknown }).error
    const why = error instanceof Error ? error.message : String(error)
    ending.damage = new FormatError('gzip', `damaged or cut short: ${why}`)
  }
}

async function* checkedBlocks(source: AsyncIterable<unknown>): Blocks {
  for await (const block of source) {
    if (!(block instanceof Uint8Array)) {
      throw new ArgumentError(`source: expected a stream of Uint8Array, found ${describe(block)}`, 'source')
    }
    yield block as Uint8Array<ArrayBuffer>
  }
}

function joined(a: Uint8Array<ArrayBuffer>, b: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (a.length === 0) return b
  const both = new Uint8Array(a.length + b.length)
  both.set(a)
  both.set(b, a.length)
  return both
}

/** Reads a model that `oddflow train` or `toBytes` of a model made. Throws FormatError, and ArgumentError. */
export async function loadModel(source: Place | Uint8Array | ArrayBuffer | BlobLike): Promise<Model> {
  const url = urlOf(source)
  const given = url === null ? source : await (await fetched(url)).arrayBuffer()
  return new TrainedModel(decodeModelFile(await bytesOf(given, 'a URL, bytes or a Blob')))
}

/** Offers a model to the user as a download. Throws ArgumentError in a worker, which has no page; use `toBytes` there. */
export function saveModel(model: Model, name: string): void {
  TrainedModel.savedOf(model)
  if (typeof name !== 'string') {
    throw new ArgumentError(`name: expected the name of a file, found ${describe(name)}`, 'name')
  }
  if (typeof document === 'undefined') {
    throw new ArgumentError('saveModel: expected a page, found a worker; use model.toBytes()', 'name')
  }
  const url = URL.createObjectURL(new Blob([model.toBytes()], { type: 'application/octet-stream' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // the browser has begun to read it by the next turn
  setTimeout(() => URL.revokeObjectURL(url), 0)
}

function urlOf(source: unknown): string | null {
  if (typeof source === 'string') return source
  return isObject(source) && typeof source.href === 'string' ? source.href : null
}

async function* fetchedBlocks(url: string): AsyncGenerator<Uint8Array> {
  const { body } = await fetched(url)
  if (body !== null) yield* blocksOf(body)!
}

async function fetched(url: string): Promise<Response> {
  const response = await fetch(url)
  if (!response.ok)
    throw new OddFlowError('fetch', `${url}: HTTP status ${response.status}`, { field: 'source' })
  return response
}

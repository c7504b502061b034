/** The library in Node: from data to a verdict in three lines, with paths of files. browser.ts is the same for browsers. */
import { fileURLToPath } from 'node:url'
import { openCapture } from '@oddflow/capture/node'
import { ArgumentError } from '@oddflow/core'
import { decodeModelFile } from '@oddflow/detectors'
import { readModel, writeFileWhole } from '@oddflow/program'
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
 * path ("-" for standard input), a file URL, bytes, a Blob, or a stream. Throws ArgumentError for anything else, and while
 * iterating CaptureFileError for a source that is no capture.
 */
export function readFlows(
  source: Place | CaptureBytes | readonly (Place | CaptureBytes)[],
  options: ReadFlowsOptions = {},
): Flows {
  const opens = sourcesIn(source).map((each, i) => opener(each, i))
  return flowsOf(opens, options)
}

function opener(source: unknown, i: number): () => OpenedCapture {
  const path = pathOf(source, 'source')
  if (path === null && blocksOf(source) === null) {
    throw new ArgumentError(
      `source: expected a path, a file URL, bytes, a Blob or a stream, found ${describe(source)}`,
      'source',
    )
  }
  return () => {
    const frames = openCapture(path ?? blocksOf(source)!)
    return { name: path ?? nameOf(source, i), frames, end: () => frames.end }
  }
}

/** Reads a model that `saveModel` or `oddflow train` wrote. Throws FileError, FormatError, and ArgumentError. */
export async function loadModel(source: Place | Uint8Array | ArrayBuffer | BlobLike): Promise<Model> {
  const path = pathOf(source, 'source')
  if (path !== null) return new TrainedModel(readModel(path))
  const bytes = await bytesOf(source, 'a path, a file URL, bytes or a Blob')
  return new TrainedModel(decodeModelFile(bytes))
}

/** Writes a model file; it is whole when this returns, or not there. Throws FileError. */
export function saveModel(model: Model, path: Place): void {
  TrainedModel.savedOf(model)
  const file = pathOf(path, 'path')
  if (file === null) {
    throw new ArgumentError(`path: expected a path or a file URL, found ${describe(path)}`, 'path')
  }
  writeFileWhole(file, model.toBytes())
}

/** null for what names no place. Throws ArgumentError for a URL of another scheme, which is fetched, not opened. */
function pathOf(source: unknown, name: string): string | null {
  if (typeof source === 'string') return source
  if (!isObject(source) || typeof source.href !== 'string') return null
  if (!source.href.startsWith('file:')) {
    throw new ArgumentError(
      `${name}: expected a file URL, found ${source.href}; give the bytes that fetch returns`,
      name,
    )
  }
  return fileURLToPath(source.href)
}

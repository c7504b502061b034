/** A model file from disk. Throws FileError or FormatError; each message begins with the file's name. */
import { createHash, type KeyObject } from 'node:crypto'
import { FormatError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { inFile } from './in-file.js'
import { checkSignature, signModel } from './model-signature.js'
import { type ReadFileOptions, readFileBounded } from './read-file.js'

/** A model of the most landmarks and the widest rows is smaller; more is no model of ours. */
const MAXIMUM_MODEL_BYTES = 2 ** 31 - 1

/** How pcap (both byte orders, µs and ns) and pcapng files begin: arguments in the wrong order, most often. */
const CAPTURE_MAGICS = new Set(['d4c3b2a1', 'a1b2c3d4', '4d3cb2a1', 'a1b23c4d', '0a0d0d0a'])

export interface ModelFile {
  readonly saved: SavedModel
  /** Of the file's bytes, in 64 lower-case hexadecimal digits: which model it was. */
  readonly sha256: string
  readonly sizeBytes: number
}

export function readModel(path: string): SavedModel {
  return readModelFile(path).saved
}

export interface ReadModelOptions extends Pick<ReadFileOptions, 'onlyRegular'> {
  /** Whose signature the file must have beside it (model-signature.ts). */
  readonly publicKey?: KeyObject | null
  /** Signs the bytes that were read, once they are found to be a model. */
  readonly signWith?: KeyObject
}

export function readModelFile(path: string, options: ReadModelOptions = {}): ModelFile {
  const bytes = readFileBounded(path, {
    ...options,
    maximumBytes: MAXIMUM_MODEL_BYTES,
    checkHead: (head, size) => checkHead(path, head, size),
  })
  if (options.publicKey) checkSignature(path, bytes, options.publicKey)
  try {
    const saved = decodeModelFile(bytes)
    if (options.signWith) signModel(path, bytes, options.signWith)
    return { saved, sha256: createHash('sha256').update(bytes).digest('hex'), sizeBytes: bytes.length }
  } catch (error) {
    throw inFile(path, error, '; give a whole model file that oddflow train wrote')
  }
}

/** Refuses what cannot be a model by its first bytes: nothing of a large file is read for that. */
function checkHead(path: string, head: Uint8Array, sizeBytes: number): void {
  if (CAPTURE_MAGICS.has(Buffer.from(head.subarray(0, 4)).toString('hex'))) {
    throw inFile(
      path,
      new FormatError('model-file', 'this is a capture; the model comes first, then what it is to judge'),
    )
  }
  if (head.length < 9) return
  const headerBytes = Buffer.from(head).readBigUInt64LE(0)
  if (head[8] !== 0x7b || headerBytes > BigInt(sizeBytes)) {
    const message =
      'no model: expected 8 bytes of header length, then "{"; give a whole model file that oddflow train wrote'
    throw inFile(path, new FormatError('model-file', message, { offsetBytes: 8 }))
  }
}

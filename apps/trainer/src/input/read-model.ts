/** A model file from disk. Throws FileError or FormatError; each message begins with the file's name. */
import { readFileSync, statSync } from 'node:fs'
import { FormatError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { fileError } from '../output/file-error.js'
import { warn } from '../output/messages.js'
import type { InputKind } from './input-kind.js'
import { inFile } from './read-rows.js'

/** A model of the most landmarks and the widest rows is smaller; more is no model of ours. */
const MAXIMUM_MODEL_BYTES = 2 ** 31 - 1

/** How pcap (both byte orders, µs and ns) and pcapng files begin: arguments in the wrong order, most often. */
const CAPTURE_MAGICS = new Set(['d4c3b2a1', 'a1b2c3d4', '4d3cb2a1', 'a1b23c4d', '0a0d0d0a'])

export function readModel(path: string): SavedModel {
  let bytes: Uint8Array
  try {
    const stat = statSync(path)
    if (stat.isFile() && stat.size > MAXIMUM_MODEL_BYTES) {
      throw new FormatError('model-file', `expected at most ${MAXIMUM_MODEL_BYTES} bytes, found ${stat.size}`)
    }
    bytes = readFileSync(path)
  } catch (error) {
    if (error instanceof FormatError) throw inFile(path, error)
    throw fileError('read', path, error)
  }
  if (CAPTURE_MAGICS.has(Buffer.from(bytes.subarray(0, 4)).toString('hex'))) {
    throw new FormatError(
      'model-file',
      `${path} is a capture; the model comes first, then what it is to judge`,
    )
  }
  try {
    return decodeModelFile(bytes)
  } catch (error) {
    throw inFile(path, error, '; give a whole model file that oddflow train wrote')
  }
}

/** Says what cannot be checked when a model that knows how rows are made is given rows. */
export function warnOfBareRows(saved: SavedModel, kind: InputKind): void {
  if (kind === 'rows' && saved.contract.featureSet !== 'rows') {
    warn('rows carry no feature contract, so only their width is checked: use rows of extract --model')
  }
}

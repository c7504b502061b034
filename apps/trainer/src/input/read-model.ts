/** A model file from disk. Throws FileError or FormatError; each message begins with the file's name. */
import { readFileSync, statSync } from 'node:fs'
import { FormatError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { fileError } from '../output/file-error.js'
import { inFile } from './read-rows.js'

/** A model of 10,000 landmarks of the widest rows is smaller; more is no model of ours. */
const MAXIMUM_MODEL_BYTES = 2 ** 31 - 1

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
  try {
    return decodeModelFile(bytes)
  } catch (error) {
    throw inFile(path, error, '; give a whole model file that oddflow train wrote')
  }
}

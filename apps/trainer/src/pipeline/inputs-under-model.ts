/**
 * What a command begins with that puts inputs to a model: the inputs are of one kind, options of captures are refused
 * for feature rows, a filter is understood before the model is read, and captures are seen in the model's view.
 */
import type { PacketView } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { readModel } from '@oddflow/program'
import { CAPTURE_FLAGS, type CaptureFlags, viewOfModel } from '../capture-flags.js'
import { type InputKind, inputKindOfAll, refuseCaptureOptions } from '../input/input-kind.js'
import { type CaptureInput, captureInputs, filterFrom, type ReadOptions } from './read-packets.js'

export interface InputsUnderModel {
  readonly kind: InputKind
  readonly saved: SavedModel
  readonly inputs: CaptureInput[]
  /** How the inputs are read. */
  readonly reading: Omit<ReadOptions, 'progress' | 'stop'> & { readonly view: PacketView }
}

/** Throws UsageError, FileError, and what else makes a model unreadable. */
export function inputsUnderModel(
  modelPath: string,
  files: readonly string[],
  options: CaptureFlags,
): InputsUnderModel {
  const kind = inputKindOfAll(files)
  if (kind === 'rows') refuseCaptureOptions({ ...options }, CAPTURE_FLAGS)
  const filter = filterFrom(options.filter)
  const saved = readModel(modelPath)
  const view = viewOfModel(options, saved.contract)
  return {
    kind,
    saved,
    inputs: captureInputs(files, options.continuous),
    reading: {
      filter,
      reader: options.reader,
      dropDuplicates: options.dropDuplicates,
      flowMemoryBytes: options.flowMemory,
      view,
    },
  }
}

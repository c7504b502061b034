/** A capture being read: batches to iterate once, and the end state afterwards. */

import { OddFlowError, TOO_MANY_FILES } from '@oddflow/core'
import type { CaptureEnd } from '../capture-notes.js'
import type { FrameBatch } from '../packet-batch.js'

/**
 * Why an input that gives nothing could not be read, in one line that ends with what to do. Damage within a capture is
 * in its CaptureEnd.
 */

export type CaptureFileProblem = 'missing' | 'directory' | 'permission' | 'not-a-capture' | 'unreadable'

/** An input that gives no packet: missing, unreadable, or no capture. The message begins with its name. */
export class CaptureFileError extends OddFlowError {
  override readonly name = 'CaptureFileError'
  /** As the caller named it; `-` for standard input. */
  readonly file: string
  readonly problem: CaptureFileProblem
  /** With `not-a-capture`: the file stops within its file header. */
  readonly truncated: boolean

  constructor(
    file: string,
    problem: CaptureFileProblem,
    message: string,
    place: { readonly offsetBytes?: number | undefined; readonly truncated?: boolean } = {},
  ) {
    super(
      `capture-file.${problem}`,
      `${file === '-' ? 'standard input' : file}: ${message}`,
      place.offsetBytes === undefined ? {} : { offsetBytes: place.offsetBytes },
    )
    this.file = file
    this.problem = problem
    this.truncated = place.truncated ?? false
  }
}

const SYSTEM_ERRORS: readonly (readonly [codes: readonly string[], CaptureFileProblem, message: string])[] = [
  [['ENOENT', 'ENOTDIR'], 'missing', 'no such file; check the path'],
  [['EISDIR'], 'directory', 'is a directory; give the capture files within it'],
  [['EACCES', 'EPERM'], 'permission', 'permission denied; make it readable for this user'],
  [['EMFILE', 'ENFILE'], 'unreadable', `cannot be read: ${TOO_MANY_FILES}`],
]

/** Turns an error of node:fs into one line. */
export function describeSystemError(file: string, cause: unknown): CaptureFileError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const said = cause instanceof Error ? cause.message.split('\n')[0] : String(cause)
  const known = SYSTEM_ERRORS.find(([codes]) => codes.includes(code))
  const [, problem, message] = known ?? [[], 'unreadable', `cannot be read: ${said}`]
  return new CaptureFileError(file, problem, message)
}

/** A capture that is iterated over once, batch by batch, and its end state afterwards. */
export interface FrameSource<End extends CaptureEnd = CaptureEnd> extends AsyncIterable<FrameBatch> {
  /** null until the iteration has run to its end. */
  readonly end: End | null
}

/**
 * Wraps a generator whose return value is the end state. Not a generator itself, since each generator that a
 * batch passes through costs a few turns of the queue of promises.
 */
export function frameSource<End extends CaptureEnd>(
  batches: AsyncGenerator<FrameBatch, End>,
): FrameSource<End> {
  let end: End | null = null
  const taken = (step: IteratorResult<FrameBatch, End>): IteratorResult<FrameBatch, undefined> => {
    if (step.done !== true) return step
    // a generator that is asked again, or left early, has nothing to say
    end = step.value ?? end
    return { done: true, value: undefined }
  }
  return {
    get end() {
      return end
    },
    [Symbol.asyncIterator]: () => ({
      next: () => batches.next().then(taken),
      return: async () => {
        await batches.return(undefined as unknown as End)
        return { done: true, value: undefined }
      },
    }),
  }
}

import { OddFlowError } from '@oddflow/core'

/** A target that could not be reached, or did not do what it was asked to. The message begins with its name. */
export class TargetError extends OddFlowError {
  override readonly name = 'TargetError'
}

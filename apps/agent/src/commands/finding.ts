/** One line of doctor. */
import { OddFlowError } from '@oddflow/core'

export interface Finding {
  readonly what: string
  /** `missing`: the agent will not run. */
  readonly state: 'ok' | 'missing' | 'note'
  readonly detail: string
}

export function messageOf(error: unknown): string {
  if (error instanceof OddFlowError || error instanceof Error) return error.message.split('\n', 1)[0]
  return String(error)
}

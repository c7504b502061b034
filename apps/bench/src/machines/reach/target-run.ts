/** What a run on a target has come to: its machine, and every item. */
import type { ItemLine, MachineLine } from '../runner-line.js'
import type { ProgramRun } from './run-program.js'
import { TargetError } from './target-error.js'

export interface TargetRun {
  readonly machine: MachineLine
  /** `peakMemoryBytes` of the process that did it; null where nothing tells. */
  readonly items: readonly (ItemLine & { readonly peakMemoryBytes: number | null })[]
}

/** Throws TargetError when the program did not come to its end. */
export function completeRun(
  name: string,
  { machine, items, peakMemoryBytes, failure }: ProgramRun,
): TargetRun {
  if (failure !== null || machine === null) {
    throw new TargetError('target', `${name}: ${failure ?? 'said nothing'}`)
  }
  return { machine, items: items.map((item) => ({ ...item, peakMemoryBytes })) }
}

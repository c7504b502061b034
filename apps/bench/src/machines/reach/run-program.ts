/**
 * The program of a bundle, run by whatever command reaches it, and what it printed, held against the bundle: every
 * item that was asked for once, nothing else, from this very bundle.
 */
import { FormatError, OddFlowError } from '@oddflow/core'
import type { Bundle } from '../make-bundle.js'
import { decodeRunnerLine, type ItemLine, type MachineLine } from '../runner-line.js'
import { describeWork } from '../work.js'
import { type ProcessOutcome, runProcess, whyFailed } from './run-process.js'

export interface ProgramRun {
  readonly machine: MachineLine | null
  readonly items: readonly ItemLine[]
  readonly peakMemoryBytes: number | null
  /** null when the program came to its end. */
  readonly failure: string | null
  readonly process: ProcessOutcome
}

export interface ProgramOptions {
  readonly bundle: Bundle
  /** Numbers of the items; all when it is not given. */
  readonly items?: readonly number[]
  readonly timeoutMillis: number
  readonly onItem: (name: string) => void
}

/** What is to be said to the program, after the path of it. */
export function programArguments({ bundle, items }: ProgramOptions, name: string): string[] {
  const chosen = items === undefined ? [] : ['--items', items.join(',')]
  return ['--name', name, '--expect', bundle.sha256, '--end-with-stdin', ...chosen]
}

/** A line is at most 64 kB; a run of n items has n + 2 of them. */
const BYTES_PER_LINE = 70_000

/** Resolves however it goes; what was printed by then is kept. */
export async function runProgram(
  command: string,
  args: readonly string[],
  options: ProgramOptions,
): Promise<ProgramRun> {
  const { bundle, timeoutMillis, onItem } = options
  const asked = new Set(options.items ?? bundle.work.items.map((_, i) => i))
  let machine: MachineLine | null = null
  let peakMemoryBytes: number | null = null
  const items: ItemLine[] = []
  let fault: string | null = null
  const take = (text: string): void => {
    const line = decodeRunnerLine(text)
    if (line.kind === 'machine') {
      if (machine !== null) throw new FormatError('result', 'described its machine twice')
      if (line.bundleSha256 !== bundle.sha256) throw new FormatError('result', 'is of another bundle')
      machine = line
    } else if (machine === null) {
      throw new FormatError('result', 'did not begin with its machine')
    } else if (line.kind === 'item') {
      const item = bundle.work.items[line.index]
      if (item === undefined || !asked.delete(line.index)) {
        throw new FormatError('result', `item ${line.index} was not asked for, or came twice`)
      }
      if (!isEqual(line.work, item.work) || !isEqual(line.expected, item.expected) || !isComplete(line)) {
        throw new FormatError('result', `item ${line.index} is not that of the bundle`)
      }
      items.push(line)
      onItem(describeWork(line.work))
    } else peakMemoryBytes = line.peakMemoryBytes
  }
  const outcome = await runProcess(command, args, {
    timeoutMillis,
    maximumOutputBytes: (asked.size + 2) * BYTES_PER_LINE,
    onLine(text) {
      if (fault !== null) return
      try {
        take(text)
      } catch (error) {
        if (!(error instanceof OddFlowError)) throw error
        fault = error.message
      }
    },
  })
  const unfinished = peakMemoryBytes === null ? whyFailed(outcome) : null
  const left = asked.size === 0 ? null : `${asked.size} items were not done`
  return { machine, items, peakMemoryBytes, failure: fault ?? unfinished ?? left, process: outcome }
}

/** A score has what a score has, and a fit what a fit has. */
export function isComplete({ work, outcome }: Pick<ItemLine, 'work' | 'outcome'>): boolean {
  if ('failure' in outcome) return true
  const { scoresSha256, result, testRows, testMillis, fitMillis } = outcome
  const ofScores = [scoresSha256, result, testRows, testMillis]
  return work.kind === 'fit'
    ? ofScores.every((value) => value === null) && fitMillis !== null
    : ofScores.every((value) => value !== null) && fitMillis === null && result?.sample === work.sample
}

/** Of plain data whose fields may stand in any order. */
function isEqual(a: object, b: object): boolean {
  const text = (value: object): string => JSON.stringify(Object.entries(value).sort())
  return text(a) === text(b)
}

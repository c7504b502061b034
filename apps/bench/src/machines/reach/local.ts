/** This very machine, by its own Node; with a ceiling, in a control group of its own, an item a process. */
import { join } from 'node:path'
import { openScratchFolder } from '@oddflow/program'
import type { ItemLine, MachineLine } from '../runner-line.js'
import type { LocalTarget } from '../target.js'
import { PROGRAM_FILE } from '../work.js'
import { createCeiling } from './memory-ceiling.js'
import { runProcess, whyFailed } from './run-process.js'
import { type ProgramOptions, programArguments, runProgram } from './run-program.js'
import { TargetError } from './target-error.js'
import { completeRun, type TargetRun } from './target-run.js'

const COPY_MILLIS = 120_000

export async function runLocal(target: LocalTarget, options: ProgramOptions): Promise<TargetRun> {
  const program = join(options.bundle.folder, PROGRAM_FILE)
  const megabytes = target.memoryCeilingMegabytes
  if (megabytes !== undefined) return runUnderCeiling(target.name, program, megabytes * 2 ** 20, options)
  const args = [program, ...programArguments(options, target.name)]
  return completeRun(target.name, await runProgram(process.execPath, args, options))
}

/**
 * An item a process, so that what is too large for the ceiling costs itself alone. One that is killed there is a
 * result: it does not fit; so is one that takes too long, since code that does not fit is read again and again. Throws TargetError when nothing at all could be run.
 *
 * Node is a copy made under the ceiling: the pages of a program count for whoever reads them first, and those of the
 * Node that runs this have been read already. On a small machine they do count.
 */
async function runUnderCeiling(
  name: string,
  program: string,
  bytes: number,
  options: ProgramOptions,
): Promise<TargetRun> {
  const items: (ItemLine & { peakMemoryBytes: number | null })[] = []
  let machine: MachineLine | null = null
  let last: string | null = null
  const folder = openScratchFolder('oddflow-bench-node')
  const ceiling = createCeiling(bytes)
  try {
    const node = join(folder.path, 'node')
    const [copy, copyArgs] = ceiling.wrap('cp', ['--', process.execPath, node])
    const copied = await runProcess(copy, copyArgs, { timeoutMillis: COPY_MILLIS, maximumOutputBytes: 1000 })
    if (copied.code !== 0) throw new TargetError('target', `${name}: copying Node: ${whyFailed(copied)}`)
    for (const index of options.items ?? options.bundle.work.items.keys()) {
      const killed = ceiling.kills()
      const single = { ...options, items: [index] }
      const [command, args] = ceiling.wrap(node, [program, ...programArguments(single, name)])
      const run = await runProgram(command, args, single)
      machine ??= run.machine
      last = run.failure
      const { work, expected } = options.bundle.work.items[index]!
      const { peakMemoryBytes } = run
      if (run.failure === null) items.push(...run.items.map((item) => ({ ...item, peakMemoryBytes })))
      else if (ceiling.kills() > killed || run.process.timedOut) {
        const how = run.process.timedOut ? run.failure : 'killed'
        const failure = `${how} at the ceiling of ${bytes / 2 ** 20} MB`
        items.push({ kind: 'item', index, work, expected, outcome: { failure }, peakMemoryBytes })
      } else throw new TargetError('target', `${name}: ${run.failure}`)
    }
  } finally {
    ceiling.remove()
    folder.remove()
  }
  if (machine === null) {
    throw new TargetError('target', `${name}: no item could be started: ${last ?? 'there is none'}`)
  }
  return { machine, items }
}

/**
 * Another processor under qemu's user-mode emulation: for equal bytes and scores, never for times. (An emulated
 * program is told so by its machine description as well.)
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { EmulatedTarget } from '../target.js'
import { PROGRAM_FILE } from '../work.js'
import { type ProgramOptions, programArguments, runProgram } from './run-program.js'
import { TargetError } from './target-error.js'
import { completeRun, type TargetRun } from './target-run.js'

/** Throws TargetError when a file is missing or the program did not come to its end. */
export async function runEmulated(target: EmulatedTarget, options: ProgramOptions): Promise<TargetRun> {
  for (const path of [target.node, target.libraries]) {
    if (!existsSync(path)) throw new TargetError('target', `${target.name}: ${path} is not there`)
  }
  const args = [
    '-L',
    target.libraries,
    ...(target.cpu === undefined ? [] : ['-cpu', target.cpu]),
    target.node,
    join(options.bundle.folder, PROGRAM_FILE),
    ...programArguments(options, target.name),
  ]
  return completeRun(target.name, await runProgram(target.emulator, args, options))
}

/**
 * A ceiling on the memory of a process and all that it starts, by Linux's control groups, version 2 or 1: stacks,
 * typed arrays, the engine itself and the file cache count, as they would on a small machine. (Limits on address space
 * are no use, since an engine reserves far more than it uses; neither is a limit on the engine's heap, where typed
 * arrays do not count.)
 */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { atEnd } from '@oddflow/program'
import { TargetError } from './target-error.js'

export interface Ceiling {
  /** The command that runs `command` under the ceiling. */
  wrap(command: string, args: readonly string[]): [command: string, args: string[]]
  /** How many processes were killed because of it so far. */
  kills(): number
  /** The processes must have ended. */
  remove(): void
}

const ROOT = '/sys/fs/cgroup'

/** Throws TargetError where there are no control groups for memory, or they may not be written. */
export function createCeiling(bytes: number): Ceiling {
  const second = existsSync(join(ROOT, 'cgroup.controllers'))
  const parent = second ? ROOT : join(ROOT, 'memory')
  const folder = join(parent, `oddflow-bench-${randomBytes(6).toString('hex')}`)
  const limits = second ? [['memory.max', `${bytes}`]] : [['memory.limit_in_bytes', `${bytes}`]]
  // swap would let it grow beyond; a system without swap accounting has no such file
  const swap = second ? ['memory.swap.max', '0'] : ['memory.memsw.limit_in_bytes', `${bytes}`]
  try {
    mkdirSync(folder)
    if (!existsSync(join(folder, limits[0]![0]!))) throw new Error('no control of memory there')
    for (const [file, value] of [...limits, ...(existsSync(join(folder, swap[0]!)) ? [swap] : [])]) {
      writeFileSync(join(folder, file!), value!)
    }
  } catch (error) {
    removeFolder(folder)
    const reason = error instanceof Error ? error.message : String(error)
    throw new TargetError(
      'target.ceiling',
      `a memory ceiling needs Linux control groups that this user may write: ${reason}`,
    )
  }
  return {
    // the shell puts itself into the group and then becomes the command
    wrap: (command, args) => [
      'sh',
      ['-c', 'echo $$ > "$0" && exec "$@"', join(folder, 'cgroup.procs'), command, ...args],
    ],
    kills() {
      const events = readText(join(folder, second ? 'memory.events' : 'memory.oom_control'))
      return Number(/^oom_kill (\d+)$/m.exec(events)?.[1] ?? 0)
    },
    remove: atEnd(() => removeFolder(folder)),
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** A group is a folder without files of its own: it goes by rmdir, as soon as the kernel has let go of it. */
function removeFolder(folder: string): void {
  for (let attempt = 0; attempt < 50; attempt++) {
    try {
      rmdirSync(folder)
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY') return
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
    }
  }
}

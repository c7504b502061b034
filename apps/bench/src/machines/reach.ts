import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createReadStream, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { FormatError, OddFlowError } from '@oddflow/core'
import { atEnd, openScratchFolder } from '@oddflow/program'
import type { Bundle } from './make-bundle.js'
import { decodeRunnerLine, type ItemLine, type MachineLine } from './runner-line.js'
import type { EmulatedTarget, LocalTarget } from './target.js'
import { describeWork, PROGRAM_FILE } from './work.js'

interface ProcessOptions {
  readonly timeoutMillis: number
  readonly maximumOutputBytes: number
  /** Each whole line of standard output, as it comes. */
  readonly onLine?: (line: string) => void
  /** A file for its standard input, which then stays open. */
  readonly input?: string
  /** How long it may take to end once its standard input has ended; it is killed at once where this is not given. */
  readonly graceMillis?: number
}

export interface ProcessOutcome {
  readonly stdout: string
  /** The last of standard error. */
  readonly stderrTail: string
  readonly code: number | null
  readonly signal: string | null
  /** Why it was ended from here; null when it ended of itself. */
  readonly ended: string | null
  readonly timedOut: boolean
}

const STDERR_TAIL = 2000

/**
 * A child process with untrusted output: killed when it exceeds its bytes or its time, or when this program ends.
 * Resolves however the process ends, and when it cannot be started (code null, `ended` says why).
 */
export function runProcess(
  command: string,
  args: readonly string[],
  { timeoutMillis, maximumOutputBytes, onLine, input, graceMillis = 0 }: ProcessOptions,
): Promise<ProcessOutcome> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    const forget = atEnd(() => child.kill('SIGKILL'))
    const chunks: Buffer[] = []
    let bytes = 0
    let stderrTail = ''
    let ended: string | null = null
    let timedOut = false
    const source = input === undefined ? null : createReadStream(input)
    let kill: NodeJS.Timeout | undefined
    const end = (reason: string): void => {
      if (ended !== null) return
      ended = reason
      source?.destroy()
      child.stdin.end()
      kill = setTimeout(() => child.kill('SIGKILL'), graceMillis)
    }
    const timer = setTimeout(() => {
      timedOut = true
      end(`took longer than ${timeoutMillis / 1000} s`)
    }, timeoutMillis)
    const lines = lineSplitter((line) => {
      if (ended === null) onLine?.(line)
    })
    child.stdin.on('error', () => {})
    source?.on('error', (error) => end(error.message)).pipe(child.stdin, { end: false })
    child.stdout.on('data', (chunk: Buffer) => {
      if (ended !== null) return
      bytes += chunk.length
      if (bytes > maximumOutputBytes) {
        end(`printed more than ${maximumOutputBytes} bytes`)
        return
      }
      chunks.push(chunk)
      if (onLine !== undefined) lines(chunk)
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderrTail = (stderrTail + text).slice(-STDERR_TAIL)
    })
    child.on('error', (error) => {
      ended ??= `cannot start ${command}: ${error.message}`
    })
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      clearTimeout(kill)
      source?.destroy()
      forget()
      child.stdin.destroy()
      resolve({ stdout: Buffer.concat(chunks).toString('utf8'), stderrTail, code, signal, ended, timedOut })
    })
  })
}

/** Splits bytes at line ends; what is left at the end without one is no line. */
function lineSplitter(onLine: (line: string) => void): (chunk: Buffer) => void {
  let rest: Buffer[] = []
  return (chunk) => {
    let from = 0
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      onLine(Buffer.concat([...rest, chunk.subarray(from, at)]).toString('utf8'))
      rest = []
      from = at + 1
    }
    if (from < chunk.length) rest.push(chunk.subarray(from))
  }
}

/** The last line of what a process had to complain of, or how it ended. */
export function whyFailed({ ended, stderrTail, code, signal }: ProcessOutcome): string {
  if (ended !== null) return ended
  const last = stderrTail.trim().split('\n').pop()?.trim()
  return last || (signal === null ? `exit code ${code}` : `ended by ${signal}`)
}

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

/**
 * Runs the program of a bundle and checks its output: this bundle, every item once, nothing else. Resolves however it
 * goes; what was printed by then is kept.
 */
export async function runProgram(
  command: string,
  args: readonly string[],
  options: ProgramOptions,
  sending: Pick<ProcessOptions, 'input' | 'graceMillis'> = {},
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
      if (machine !== null) throw new FormatError('result', 'describes its machine twice')
      if (line.bundleSha256 !== bundle.sha256) throw new FormatError('result', 'belongs to another bundle')
      machine = line
    } else if (machine === null) {
      throw new FormatError('result', 'does not begin with its machine')
    } else if (line.kind === 'item') {
      const item = bundle.work.items[line.index]
      if (item === undefined || !asked.delete(line.index)) {
        throw new FormatError('result', `item ${line.index} was not requested, or came twice`)
      }
      if (!isEqual(line.work, item.work) || !isEqual(line.expected, item.expected) || !isComplete(line)) {
        throw new FormatError('result', `item ${line.index} differs from the bundle's`)
      }
      items.push(line)
      onItem(describeWork(line.work))
    } else peakMemoryBytes = line.peakMemoryBytes
  }
  const outcome = await runProcess(command, args, {
    ...sending,
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

/** Of plain data, whatever the order of fields. */
function isEqual(a: object, b: object): boolean {
  const text = (value: object): string => JSON.stringify(Object.entries(value).sort())
  return text(a) === text(b)
}

/** A target that could not be reached, or did not do what it was asked to. The message begins with its name. */
export class TargetError extends OddFlowError {
  override readonly name = 'TargetError'
}

/** Throws TargetError when a file is missing or the program did not finish. */
export async function runEmulated(target: EmulatedTarget, options: ProgramOptions): Promise<TargetRun> {
  for (const path of [target.node, target.libraries]) {
    if (!existsSync(path)) throw new TargetError('target', `${target.name}: ${path} not found`)
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

const COPY_MILLIS = 120_000

export async function runLocal(target: LocalTarget, options: ProgramOptions): Promise<TargetRun> {
  const program = join(options.bundle.folder, PROGRAM_FILE)
  const megabytes = target.memoryCeilingMegabytes
  if (megabytes !== undefined) return runUnderCeiling(target.name, program, megabytes * 2 ** 20, options)
  const args = [program, ...programArguments(options, target.name)]
  return completeRun(target.name, await runProgram(process.execPath, args, options))
}

/**
 * One process for each item, so that an item that is killed or takes too long at the ceiling fails alone. Throws
 * TargetError if nothing could be run. Node is copied under the ceiling: pages count for the group that reads them
 * first.
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

const ROOT = '/sys/fs/cgroup'

/**
 * A memory ceiling by Linux control groups, version 2 or 1. They count stacks, typed arrays, engine and file cache; a
 * limit on address space or on the engine's heap does not. Throws TargetError where there are none for memory, or they
 * may not be written.
 */
export function createCeiling(bytes: number) {
  const second = existsSync(join(ROOT, 'cgroup.controllers'))
  const parent = second ? ROOT : join(ROOT, 'memory')
  const folder = join(parent, `oddflow-bench-${randomBytes(6).toString('hex')}`)
  const limits = second ? [['memory.max', `${bytes}`]] : [['memory.limit_in_bytes', `${bytes}`]]
  // swap would let it grow beyond; a system without swap accounting has no such file
  const swap = second ? ['memory.swap.max', '0'] : ['memory.memsw.limit_in_bytes', `${bytes}`]
  try {
    mkdirSync(folder)
    if (!existsSync(join(folder, limits[0]![0]!))) throw new Error('no memory control in it')
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
    /** The command under the ceiling: the shell puts itself into the group and then becomes the command. */
    wrap: (command: string, args: readonly string[]): [command: string, args: string[]] => [
      'sh',
      ['-c', 'echo $$ > "$0" && exec "$@"', join(folder, 'cgroup.procs'), command, ...args],
    ],
    /** How many processes were killed because of it so far. */
    kills(): number {
      const events = readText(join(folder, second ? 'memory.events' : 'memory.oom_control'))
      return Number(/^oom_kill (\d+)$/m.exec(events)?.[1] ?? 0)
    },
    /** The processes must have ended. */
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

export interface TargetRun {
  readonly machine: MachineLine
  /** `peakMemoryBytes` of the process that did it; null where nothing tells. */
  readonly items: readonly (ItemLine & { readonly peakMemoryBytes: number | null })[]
}

/** Throws TargetError when the program did not finish. */
export function completeRun(
  name: string,
  { machine, items, peakMemoryBytes, failure }: ProgramRun,
): TargetRun {
  if (failure !== null || machine === null) {
    throw new TargetError('target', `${name}: ${failure ?? 'no output'}`)
  }
  return { machine, items: items.map((item) => ({ ...item, peakMemoryBytes })) }
}

/**
 * The real program, run as a user runs it: a process of its own, with arguments, standard input and a folder,
 * of which all that is seen is exit code, standard output, standard error and files.
 */
import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect } from 'vitest'
import { root } from '../../../tools/workspace/layout.mjs'
import { oddflowAmongMany } from './many-commands.js'

export const main = join(root, 'apps/trainer/dist/main.js')

export interface Run {
  /** null where a signal ended the program. */
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export interface RunOptions {
  /** Bytes for standard input, which is empty otherwise. */
  stdin?: Uint8Array
  cwd?: string
  /** Runs as the user nobody; only root can. */
  asNobody?: boolean
  /** Options of Node itself. */
  node?: string[]
  /** Beside those that this process has. */
  environment?: Record<string, string>
}

/** `oddflow ARGS`. */
export function oddflow(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  return runToEnd(process.execPath, [...(options.node ?? []), main, ...args], options)
}

/** Any program, to its end. */
export function runToEnd(command: string, args: string[], options: RunOptions = {}): Promise<Run> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd ?? root,
      env: { ...process.env, ...options.environment },
      stdio: [options.stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      ...(options.asNobody ? { uid: 65_534, gid: 65_534 } : {}),
    })
    const parts: [Buffer[], Buffer[]] = [[], []]
    child.stdout?.on('data', (chunk: Buffer) => parts[0].push(chunk))
    child.stderr?.on('data', (chunk: Buffer) => parts[1].push(chunk))
    // a program that refuses its options does not read its input
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(options.stdin)
    child.on('error', reject)
    child.on('close', (code, signal) => {
      const [stdout, stderr] = parts.map((chunks) => Buffer.concat(chunks).toString())
      resolve({ code, signal, stdout: stdout!, stderr: stderr! })
    })
  })
}

/** Runs and expects exit code 0; what the program said is in the failure otherwise. */
export async function succeeds(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const run = await oddflow(args, options)
  expect(run, `oddflow ${args.join(' ')}\n${run.stderr}`).toMatchObject({ code: 0, signal: null })
  return run
}

/** The objects of `--format json`. */
export function jsonLines<T>(run: Run): T[] {
  const lines = run.stdout.split('\n')
  expect(lines.pop()).toBe('')
  return lines.map((line) => JSON.parse(line) as T)
}

/** Whether a program is there; said aloud where it is not. */
export function can(command: string): boolean {
  try {
    execFileSync(command, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    console.warn(`SKIPPED: ${command} is not installed.`)
    return false
  }
}

/** A folder that goes when the test file is done. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-e2e-'))
  chmodSync(folder, 0o755)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Every path below a folder, so that anything left behind is seen. */
export function filesOf(folder: string): string[] {
  return (readdirSync(folder, { recursive: true }) as string[]).sort()
}

/**
 * Expects a refusal: the exit code, nothing on standard output, one line on standard error that begins with
 * the program's name and matches `says`, and the folder as it was.
 */
export async function refuses(
  args: readonly string[],
  expected: { code: 1 | 2; says: RegExp; folder: string },
  options: RunOptions = {},
): Promise<void> {
  const before = filesOf(expected.folder)
  // a run with no wishes of its own goes through a process that is already there
  const run =
    Object.keys(options).length === 0
      ? await oddflowAmongMany(args, expected.folder)
      : await oddflow(args, { cwd: expected.folder, ...options })
  const context = `oddflow ${args.join(' ')}`
  expect(run, context).toMatchObject({ code: expected.code, stdout: '' })
  expect(run.stderr, context).toMatch(/^oddflow: [^\n]*\n$/)
  expect(run.stderr, context).not.toContain('\u001b')
  expect(run.stderr, context).toMatch(expected.says)
  expect(filesOf(expected.folder), context).toEqual(before)
}

export interface LabCapture {
  file: string
  path: string
  label: 'normal' | 'novel'
  novelWhen?: string
  packets: number
  wireBytes: number
  flows: number
  flowsOfTwoOrMorePackets: number
  novelFlows?: number
  novelFlowsOfTwoOrMorePackets?: number
}

const labFolder = join(root, 'test/fixtures/lab')

/** The captures that the repository carries, with what capinfos, tcpdump and tshark say of them. */
export const labCaptures = (
  JSON.parse(readFileSync(join(labFolder, 'labels.json'), 'utf8')) as { captures: LabCapture[] }
).captures.map((capture) => ({ ...capture, path: join(labFolder, capture.file) }))

export function lab(file: string): LabCapture {
  return labCaptures.find((capture) => capture.file === file)!
}

/** What the shared model is trained on; normal-4 and the novel captures are left to judge. */
export const trainingCaptures = ['normal-1.pcap', 'normal-2.pcapng', 'normal-3.pcap.gz'].map(
  (file) => lab(file).path,
)

/** The model of the lab's captures, trained once in a run for the same options (lab-models.ts). */
export async function trainLabModel(model: string, options: readonly string[] = []): Promise<string> {
  const trained = join(process.env.ODDFLOW_LAB_MODELS!, `lab ${options.join(' ')}.oddflow`)
  if (!existsSync(trained)) {
    const own = `${trained}.${process.pid}`
    await succeeds(['train', ...trainingCaptures, '-o', own, ...options])
    renameSync(own, trained)
  }
  copyFileSync(trained, model)
  return model
}

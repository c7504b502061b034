/** The program as a user has it: the built main.js in a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const benchMain = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

export interface Outcome {
  readonly code: number | null
  readonly signal: string | null
  readonly stdout: string
  readonly stderr: string
}

/** `onStart` gets the process, to kill it. */
export function runBench(args: readonly string[], onStart?: (child: ChildProcess) => void): Promise<Outcome> {
  return runProcess(process.execPath, [benchMain, ...args], onStart)
}

export function runProcess(
  command: string,
  args: readonly string[],
  onStart?: (child: ChildProcess) => void,
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
    onStart?.(child)
  })
}

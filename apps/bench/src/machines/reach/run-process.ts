/**
 * A child process whose output is not trusted: bounded in bytes and in time, and ended when it exceeds either.
 * It does not outlive this program. Nothing is written to its standard input, whose end tells it that nobody waits for it any longer.
 */
import { spawn } from 'node:child_process'
import { atEnd } from '@oddflow/program'

export interface ProcessOptions {
  readonly timeoutMillis: number
  readonly maximumOutputBytes: number
  /** Each whole line of standard output, as it comes. */
  readonly onLine?: (line: string) => void
  /** Its standard input ends when this is settled; otherwise when this process does. */
  readonly until?: Promise<void>
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

/** Resolves however the process ends, and when it cannot be started (code null, `ended` says why). */
export function runProcess(
  command: string,
  args: readonly string[],
  { timeoutMillis, maximumOutputBytes, onLine, until }: ProcessOptions,
): Promise<ProcessOutcome> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    const forget = atEnd(() => child.kill('SIGKILL'))
    const chunks: Buffer[] = []
    let bytes = 0
    let stderrTail = ''
    let ended: string | null = null
    let timedOut = false
    const end = (reason: string): void => {
      ended ??= reason
      child.kill('SIGKILL')
    }
    const timer = setTimeout(() => {
      timedOut = true
      end(`took longer than ${timeoutMillis / 1000} s`)
    }, timeoutMillis)
    const lines = lineSplitter((line) => {
      if (ended === null) onLine?.(line)
    })
    child.stdin.on('error', () => {})
    void until?.then(() => child.stdin.end())
    child.stdout.on('data', (chunk: Buffer) => {
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

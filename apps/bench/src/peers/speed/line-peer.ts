/**
 * A program that answers one JSON line to each line it is given: it stays up while sides take turns. It is ended when
 * this program ends, and what it says is bounded in length.
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { DataError, parseStrictJson } from '@oddflow/core'
import { atEnd } from '@oddflow/program'

const MAXIMUM_LINE = 10_000

export interface LinePeer {
  /** What it says unasked. */
  greeting(): Promise<unknown>
  ask(question: string): Promise<unknown>
  /** Resolves when it has ended. */
  end(): Promise<void>
}

/** `name`: for messages. A program that cannot be started, or ends early, fails the next answer with DataError. */
export function startLinePeer(
  name: string,
  command: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): LinePeer {
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  })
  const forget = atEnd(() => child.kill('SIGKILL'))
  let trouble = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    trouble = (trouble + text).slice(-1000)
  })
  // a peer that is gone is told by its answers, not by the pipe to it
  child.stdin.on('error', () => {})
  const ended = new Promise<void>((resolve) => {
    child.on('error', (error) => {
      trouble = error.message
      resolve()
    })
    child.on('close', () => resolve())
  }).finally(forget)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async (): Promise<unknown> => {
    const { value, done } = await lines.next()
    if (done === true) {
      await ended
      throw new DataError(`${name}: ended without an answer: ${trouble.trim().split('\n').pop() ?? ''}`)
    }
    const refuse = (message: string): never => {
      throw new DataError(`${name}: its answer is no JSON: ${message}`)
    }
    if (value.length > MAXIMUM_LINE) refuse('too long')
    return parseStrictJson(value, refuse).value
  }
  return {
    greeting: answer,
    ask(question) {
      child.stdin.write(`${question}\n`)
      return answer()
    },
    end() {
      child.stdin.end()
      return ended
    },
  }
}

/**
 * Running a tool: quietly, with its output kept and shown only if it fails, or aloud.
 *
 * Everything that is shown goes to standard error, unless the caller asks for `stdout: 'inherit'`:
 * standard output belongs to the program that is being built. A signal to us is passed on to the tool
 * and ends us only after it, so that nothing goes on writing behind our back.
 */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { root } from './layout.mjs'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
const BEAT_MILLIS = 10_000
const KEPT_OUTPUT_BYTES = 4 * 1024 * 1024

export class ToolFailure extends Error {
  constructor(what, code, output) {
    super(`${what} failed with exit code ${code}`)
    this.name = 'ToolFailure'
    this.exitCode = code
    this.output = output
  }
}

const isOnTerminal = process.stderr.isTTY && process.env.CI === undefined
let isTold = false

/** From here on progress is told where there is no terminal too: by a task that is asked for its own sake. */
export function tellProgress() {
  isTold = true
}

/** A line that stays, of a task that tells its progress. */
export function tell(text) {
  process.stderr.write(`${text}\n`)
}

/** What is done now, in a line on the terminal that the next one replaces. */
export function note(text) {
  if (isOnTerminal) process.stderr.write(text === '' ? '\r\x1b[K' : `\r\x1b[Koddflow: ${text}`)
}

/** Notes `what` while `work` goes on; without a terminal as a line now and every ten seconds, if progress is told. */
async function noted(what, work) {
  note(`${what} …`)
  const start = performance.now()
  let beat
  if (isTold && !isOnTerminal) {
    tell(`${what} …`)
    beat = setInterval(
      () => tell(`${what} … ${Math.round((performance.now() - start) / 1000)} s`),
      BEAT_MILLIS,
    )
  }
  try {
    return await work()
  } finally {
    clearInterval(beat)
    note('')
  }
}

/**
 * Runs `command` in the root and resolves to `{ code, output }`. Options: `quiet` keeps the output
 * (last 4 MiB), `env`, `cwd`, `stdout` ('inherit' lets the tool's own standard output through).
 */
export function run(command, args, { quiet = false, env, cwd = root, stdout = 2, stdin = 'ignore' } = {}) {
  return new Promise((resolve, reject) => {
    const stdio = quiet ? [stdin, 'pipe', 'pipe'] : [stdin, stdout, 2]
    const child = spawn(command, args, { cwd, env, stdio })
    const kept = []
    let keptBytes = 0
    const keep = (chunk) => {
      kept.push(chunk)
      keptBytes += chunk.length
      while (keptBytes > KEPT_OUTPUT_BYTES) keptBytes -= kept.shift().length
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)

    let received
    const forward = (signal) => {
      received = signal
      child.kill(signal)
    }
    for (const signal of SIGNALS) process.on(signal, forward)
    const settle = () => {
      for (const signal of SIGNALS) process.off(signal, forward)
    }
    child.on('error', (error) => {
      settle()
      reject(error)
    })
    child.on('close', (code, signal) => {
      settle()
      if (received !== undefined) process.exit(128 + constants.signals[received])
      resolve({
        code: code ?? 128 + constants.signals[signal],
        output: Buffer.concat(kept).toString('utf8'),
      })
    })
  })
}

/** Runs a tool without a word; throws a ToolFailure that holds its output if it fails. */
export async function runQuietly(what, command, args, options = {}) {
  const { code, output } = await noted(what, () => run(command, args, { ...options, quiet: true }))
  if (code !== 0) throw new ToolFailure(what, code, output)
  return output
}

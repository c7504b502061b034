/** Many command lines through one process (many-commands.mjs), for tables of refusals. */
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Run } from './oddflow.js'

const mark = '\u0000end of run\u0000'
let child: ChildProcess | null = null
let queue: Promise<unknown> = Promise.resolve()

/** Runs `oddflow ARGS` in `cwd` after all that were asked for before. */
export function oddflowAmongMany(args: readonly string[], cwd: string): Promise<Run> {
  const run = queue.then(() => runOne(args, cwd))
  queue = run.catch(() => undefined)
  return run
}

function runOne(args: readonly string[], cwd: string): Promise<Run> {
  const process_ = child ?? start()
  return new Promise((resolve, reject) => {
    const seen = { stdout: '', stderr: '', code: null as number | null }
    const finish = (): void => {
      if (seen.code === null || !seen.stdout.endsWith(mark) || !seen.stderr.endsWith(mark)) return
      stop()
      const [stdout, stderr] = [seen.stdout, seen.stderr].map((text) => text.slice(0, -mark.length))
      resolve({ code: seen.code, signal: null, stdout: stdout!, stderr: stderr! })
    }
    const onOut = (chunk: string): void => {
      seen.stdout += chunk
      finish()
    }
    const onError = (chunk: string): void => {
      seen.stderr += chunk
      finish()
    }
    const onCode = (code: number): void => {
      seen.code = code
      finish()
    }
    const onEnd = (code: number | null): void => {
      stop()
      child = null
      reject(new Error(`oddflow ${args.join(' ')} ended the process (${code}): ${seen.stderr}`))
    }
    const stop = (): void => {
      process_.stdout?.off('data', onOut)
      process_.stderr?.off('data', onError)
      process_.off('message', onCode)
      process_.off('close', onEnd)
    }
    process_.stdout?.on('data', onOut)
    process_.stderr?.on('data', onError)
    process_.on('message', onCode)
    process_.on('close', onEnd)
    process_.send({ args, cwd, mark })
  })
}

function start(): ChildProcess {
  const script = fileURLToPath(new URL('many-commands.mjs', import.meta.url))
  const started = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
  started.stdout?.setEncoding('utf8')
  started.stderr?.setEncoding('utf8')
  // it ends with its parent: the channel closes, and nothing else keeps it
  child = started
  return started
}

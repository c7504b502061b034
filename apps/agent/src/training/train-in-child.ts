/**
 * Runs a training, an update, or a search for detection limits in a separate process, with limits on time and heap. Its memory is freed
 * with the process. The caller starts one at a time. A thread would not do: Node 20 can abort the whole process when a thread ends.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { endWithThisProcess } from '@oddflow/capture/node'
import { OddFlowError } from '@oddflow/core'
import type { AcceptedRows, AcceptJob } from '../models/accept-rows.js'
import type { Noticed, NoticeJob } from '../models/noticed.js'
import type { TrainedRows, TrainingJob } from '../models/train.js'
import type { LearningJob, LearntRows } from '../models/update.js'

/** Old space of the heap. Numbers lie outside it and are limited by the rows (memory-plan.ts). */
const HEAP_MEBIBYTES = 32
/** Size of the kept end of the process's standard error. */
const LAST_WORDS = 4096

/** The message from the process. */
export type TrainingAnswer<Result> = { readonly result: Result } | { readonly error: string }

/** Rejects with an OddFlowError that says why there is no result. */
type InChild<Job, Result> = (job: Job, withinSeconds: number, stop: AbortSignal) => Promise<Result>

export const trainInChild: InChild<TrainingJob, TrainedRows> = inChild
export const learnInChild: InChild<LearningJob, LearntRows> = inChild
export const acceptInChild: InChild<AcceptJob, AcceptedRows> = inChild
export const noticeInChild: InChild<NoticeJob, Noticed[]> = inChild

async function inChild<Result>(
  job: TrainingJob | LearningJob | AcceptJob | NoticeJob,
  withinSeconds: number,
  stop: AbortSignal,
): Promise<Result> {
  const limit = AbortSignal.timeout(1000 * withinSeconds)
  const child = startChild()
  const guard = child.pid === undefined ? null : endWithThisProcess(child.pid)
  const signal = AbortSignal.any([limit, stop])
  const kill = (): void => void child.kill('SIGKILL')
  if (signal.aborted) kill()
  signal.addEventListener('abort', kill)
  let answer: TrainingAnswer<Result> | null = null
  let lastWords = ''
  child.on('message', (message) => {
    answer = message as TrainingAnswer<Result>
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    lastWords = (lastWords + text).slice(-LAST_WORDS)
  })
  try {
    const ending = await new Promise<string>((resolve, reject) => {
      child.once('error', (error) => {
        // a failed signal or message is an error too; the exit says why
        if (child.pid === undefined) reject(notStarted(error))
      })
      child.once('exit', () => guard?.kill('SIGKILL'))
      child.once('close', (code, name) => resolve(name === null ? `exit code ${code}` : `signal ${name}`))
      // a failure ends the process
      child.send(job, () => undefined)
    })
    const said = answer as TrainingAnswer<Result> | null
    if (said !== null && 'result' in said) return said.result
    throw new OddFlowError('training.failed', said?.error ?? describeEnd(ending, lastWords))
  } finally {
    signal.removeEventListener('abort', kill)
  }

  function describeEnd(ending: string, words: string): string {
    if (stop.aborted) return 'the agent was stopped'
    if (limit.aborted) return `the training took longer than ${withinSeconds} s`
    if (words.includes('heap out of memory')) {
      return `the training process ran out of memory (a heap of ${HEAP_MEBIBYTES} MiB)`
    }
    const reason = /^\w*Error: .*$/m.exec(words)?.[0]
    return `the training process ended (${ending})${reason === undefined ? '' : `: ${reason}`}`
  }
}

function startChild(): ChildProcess {
  try {
    return fork(fileURLToPath(new URL('./training-child.js', import.meta.url)), {
      // keeps typed arrays
      serialization: 'advanced',
      execArgv: [`--max-old-space-size=${HEAP_MEBIBYTES}`, '--max-semi-space-size=2', '--optimize-for-size'],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
  } catch (error) {
    throw notStarted(error as Error)
  }
}

function notStarted({ message }: Error): OddFlowError {
  return new OddFlowError('training.start', `the training process could not be started: ${message}`)
}

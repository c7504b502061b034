/** Trainings in a process of their own, as they are built: what comes back, and every way in which the process can end. Linux. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { createRng, type FlowContract } from '@oddflow/core'
import { flowSummaryContract } from '@oddflow/flows'
import { expect, it } from 'vitest'
import { learnInChild, trainInChild } from '../../build/training/train-in-child.js'
import { type TrainingJob, trainRows } from '../../src/models/train.js'
import { learnOn } from '../../src/models/update.js'
import { wanderingRows } from '../support/rows.js'

const built = new URL('../../build/training/train-in-child.js', import.meta.url)
const contract = flowSummaryContract()
const firstPackets: FlowContract = {
  ...contract,
  featureSet: 'iat-size',
  featureSetVersion: 1,
  dimension: 5,
  packetsPerFlow: 3,
  activeTimeoutMicros: null,
  truncation: { mode: 'split', durationMicros: 60_000_000 },
  minimumPackets: 2,
  iatUnit: 'seconds',
}

function jobOf(count: number, more: Partial<TrainingJob> = {}): TrainingJob {
  const { dimension } = more.contract ?? contract
  return {
    rows: wanderingRows(count, dimension, createRng(1)),
    contract,
    onePacketRule: null,
    falsePositiveRate: 0.05,
    seed: 1,
    oddflowVersion: '0.0.0',
    ...more,
  }
}

const job = jobOf(300)
const never = new AbortController().signal

/** Processes of this name that `parent` has started. */
function childrenOf(parent: number, name: string): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/stat`, 'utf8')
        const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
        return Number(fields[1]) === parent && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(name)
      } catch {
        return false
      }
    })
}

/** The training's process, stopped before it has begun: it stays until it is killed. */
function stopped(): number {
  const [pid] = childrenOf(process.pid, 'training-child')
  process.kill(pid!, 'SIGSTOP')
  return pid!
}

function isRunning(pid: number): boolean {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return line[line.lastIndexOf(')') + 2] !== 'Z'
  } catch {
    return false
  }
}

/** Also none that guards; one that was killed just now may take a moment. */
async function noneLeft(): Promise<void> {
  while (childrenOf(process.pid, '').length > 0) await pause(5)
}

it('gives the bytes that a training in this process gives', async () => {
  expect(await trainInChild(job, 60, never)).toEqual(trainRows(job))
  const { file } = trainRows(jobOf(300, { contract: firstPackets }))
  const rows = wanderingRows(100, 5, createRng(2))
  const learning = { file, rows, shadowAgrees: false, seed: 1 }
  expect(await learnInChild(learning, 60, never)).toEqual(learnOn(learning))
  await noneLeft()
})

it('says why a job is refused', async () => {
  const rows = new Float64Array(3 * contract.dimension)
  const refusal = (): unknown => trainRows(jobOf(0, { rows }))
  expect(refusal).toThrow()
  let told = ''
  try {
    refusal()
  } catch (error) {
    told = (error as Error).message
  }
  await expect(trainInChild(jobOf(0, { rows }), 60, never)).rejects.toMatchObject({
    name: 'OddFlowError',
    message: told,
  })
})

it.each(['SIGKILL', 'SIGTERM', 'SIGSEGV'] as const)(
  'says that the process was ended by %s',
  async (signal) => {
    const training = expect(trainInChild(job, 60, never)).rejects.toThrow(
      `the training process ended (signal ${signal})`,
    )
    const pid = stopped()
    process.kill(pid, signal)
    process.kill(pid, 'SIGCONT')
    await training
    await noneLeft()
  },
)

it('kills a process that is not done in time, also one that hangs', async () => {
  const training = expect(trainInChild(job, 1, never)).rejects.toThrow('the training took longer than 1 s')
  const pid = stopped()
  await training
  expect(isRunning(pid)).toBe(false)
})

it('kills the process when the agent is to stop, also where it was before', async () => {
  const stop = new AbortController()
  const training = expect(trainInChild(job, 60, stop.signal)).rejects.toThrow('the agent was stopped')
  const pid = stopped()
  stop.abort()
  await training
  expect(isRunning(pid)).toBe(false)
  await expect(trainInChild(job, 60, stop.signal)).rejects.toThrow('the agent was stopped')
  await noneLeft()
})

it('ends a process that runs out of its heap, and says so', async () => {
  // a string lies in the heap, numbers do not
  const greedy = jobOf(300, { oddflowVersion: 'x'.repeat(100 << 20) })
  await expect(trainInChild(greedy, 60, never)).rejects.toThrow(
    'the training process ran out of memory (a heap of 32 MiB)',
  )
})

it('leaves no process behind when the agent is killed', async () => {
  const script = `
    import { readFileSync } from 'node:fs'
    import { trainInChild } from ${JSON.stringify(built.href)}
    const job = ${JSON.stringify({ ...job, rows: null })}
    void trainInChild({ ...job, rows: new Float64Array(0) }, 3600, new AbortController().signal)
    const [child] = readFileSync('/proc/self/task/' + process.pid + '/children', 'utf8').split(' ')
    // it can see nothing itself, as in the midst of a fit
    process.kill(Number(child), 'SIGSTOP')
    console.log(child)`
  const agent = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(agent.stdout, 'data')) as [Buffer]
  const pid = Number(line.toString())
  expect(isRunning(pid)).toBe(true)
  agent.kill('SIGKILL')
  while (isRunning(pid)) await pause(10)
})

/** The pool with real threads: what they say, what they throw, and how they die. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { DataError, OddFlowError } from '@oddflow/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runInWorkers } from '../src/index.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-pool-'))
const script = join(folder, 'worker.mjs')
afterAll(() => rmSync(folder, { recursive: true }))
beforeAll(() => {
  const module = (path: string) => JSON.stringify(new URL(path, import.meta.url).href)
  writeFileSync(
    script,
    `import { serveJobs } from ${module('../dist/index.js')}
import { DataError } from ${module('../../core/dist/index.js')}
serveJobs(({ start }) => {
  let count = start
  return (job, say) => {
    if (job === 'throw') throw new TypeError('a fault')
    if (job === 'refuse') throw new DataError('rows: too few', 'rows')
    if (job === 'exit') process.exit(7)
    say({ job, count })
    say({ job, count: ++count })
  }
})`,
  )
})

interface Said {
  job: number
  count: number
}

const run = async (jobs: unknown[], workers: number) => {
  const heard: [Said, unknown][] = []
  await runInWorkers<unknown, Said>(jobs, {
    script: pathToFileURL(script),
    workers,
    data: { start: 10 },
    onSaid: (said, job) => heard.push([said, job]),
  })
  return heard
}

describe('runInWorkers', () => {
  it('does every job once, and hears everything before it ends', async () => {
    for (const workers of [1, 9]) {
      const heard = await run([0, 1, 2, 3, 4], workers)
      expect(heard.map(([{ job }]) => job).sort()).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
      for (const [said, job] of heard) expect(said.job).toBe(job)
    }
  })

  it('starts a thread once for all its jobs', async () => {
    expect((await run([0, 1, 2], 1)).map(([{ count }]) => count)).toEqual([10, 11, 11, 12, 12, 13])
  })

  it('does nothing without jobs', async () => {
    expect(await run([], 2)).toEqual([])
  })

  it('throws a refusal as what it was', async () => {
    const failure = await run([1, 'refuse', 2], 2).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(DataError)
    expect(failure).toMatchObject({ message: 'rows: too few', field: 'rows' })
  })

  it('throws a fault as it is', async () => {
    await expect(run(['throw'], 1)).rejects.toThrow(/a fault/)
    await expect(run(['throw'], 1)).rejects.not.toBeInstanceOf(OddFlowError)
  })

  it('says so when a thread dies', async () => {
    await expect(run([1, 2, 'exit', 3], 2)).rejects.toThrow(/ended before its work was done \(exit code 7\)/)
  })

  it('ends with what the listener throws', async () => {
    const listening = runInWorkers<number, Said>([1, 2, 3], {
      script: pathToFileURL(script),
      workers: 2,
      data: { start: 0 },
      onSaid: () => {
        throw new RangeError('enough')
      },
    })
    await expect(listening).rejects.toThrow('enough')
  })
})

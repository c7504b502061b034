/** Nothing of a program's own outlives it: neither its scratch folder nor a child, whichever way it ends. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { openScratchFolder } from '../src/index.js'

const PROGRAM = pathToFileURL(join(import.meta.dirname, '../dist/index.js')).href

/** Says where its folder is and which child it has, and then waits, or ends as asked. */
const script = (last: string): string => `
  import { spawn } from 'node:child_process'
  import { writeFileSync } from 'node:fs'
  import { atEnd, openScratchFolder } from ${JSON.stringify(PROGRAM)}
  const folder = openScratchFolder('oddflow-test')
  writeFileSync(folder.path + '/rows', 'some')
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  atEnd(() => child.kill('SIGKILL'))
  console.log(JSON.stringify({ path: folder.path, child: child.pid }))
  ${last}`

async function run(
  last: string,
  signal?: NodeJS.Signals,
): Promise<{ path: string; child: number; code: number | null }> {
  const program = spawn(process.execPath, ['--input-type=module', '-e', script(last)], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const closed = new Promise<number | null>((resolve) => program.on('close', resolve))
  const line = await new Promise<string>((resolve) =>
    program.stdout.once('data', (data) => resolve(String(data))),
  )
  if (signal !== undefined) program.kill(signal)
  return { ...(JSON.parse(line) as { path: string; child: number }), code: await closed }
}

/** One that has ended and that no parent has asked after yet still has its number. */
const isRunning = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

describe('what a program made for itself goes with it', () => {
  for (const [how, last, signal, code] of [
    ['Ctrl-C', '', 'SIGINT', 130],
    ['SIGTERM', '', 'SIGTERM', 143],
    ['a closed terminal', '', 'SIGHUP', 129],
    ['an uncaught error', 'throw new Error("no")', undefined, 1],
    ['its own exit', 'process.exit(7)', undefined, 7],
  ] as const) {
    it(`at ${how}`, async () => {
      const ended = await run(last, signal)
      expect(ended.code).toBe(code)
      expect(existsSync(ended.path)).toBe(false)
      await expect.poll(() => isRunning(ended.child)).toBe(false)
    })
  }

  it('at SIGKILL, with the next program that needs a folder; a folder in use stays', async () => {
    const killed = await run('', 'SIGKILL')
    process.kill(killed.child, 'SIGKILL')
    expect(existsSync(killed.path)).toBe(true)
    const own = openScratchFolder('oddflow-test')
    const other = await run('process.exit(0)')
    expect(existsSync(killed.path)).toBe(false)
    expect(existsSync(own.path)).toBe(true)
    expect(other.code).toBe(0)
    own.remove()
  })

  it('when its work is done, once', () => {
    const folder = openScratchFolder('oddflow-test')
    writeFileSync(join(folder.path, 'rows'), 'some')
    folder.remove()
    expect(existsSync(folder.path)).toBe(false)
    folder.remove()
  })
})

/** The agent's doors as a user finds them: a pipe as alert file, the link to the dashboard, the journal, too few files. */
import { execFileSync, spawn } from 'node:child_process'
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { agent, agentMain } from './support/agent.js'
import { can, lab, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const inFolder = (name: string): string => join(folder, name)
const scan = lab('novel-scan.pcap').path

beforeAll(async () => {
  await trainLabModel(inFolder('home.oddflow'))
})

interface Running {
  /** Standard error so far. */
  told(): string
  until(says: RegExp): Promise<void>
  /** Resolves to the exit code and how long that took. */
  stop(): Promise<{ code: number | null; millis: number }>
}

function start(name: string, yaml: string): Running & { readonly config: string } {
  const config = inFolder(`${name}.yaml`)
  writeFileSync(config, `model: home.oddflow\n${yaml}`)
  const child = spawn(process.execPath, [agentMain, 'run', '--allow-root', '-c', config], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let told = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    told += text
  })
  return {
    config,
    told: () => told,
    async until(says) {
      for (let i = 0; i < 400 && !says.test(told) && child.exitCode === null; i++)
        await new Promise((resolve) => setTimeout(resolve, 50))
      expect(told).toMatch(says)
    },
    stop: () =>
      new Promise((resolve) => {
        const begun = performance.now()
        child.once('close', (code) => resolve({ code, millis: performance.now() - begun }))
        child.kill('SIGTERM')
      }),
  }
}

describe('a pipe as alert file', () => {
  it('that nobody reads is named, keeps the agent neither from its start nor from its end, and loses nothing', async () => {
    const pipe = inFolder('pipe')
    execFileSync('mkfifo', [pipe])
    const yaml = `read: ${scan}\neve: pipe\nstate: pipe-state\n`
    const waiting = start('pipe', yaml)
    await waiting.until(/pipe: is a pipe without a reader; start its reader; alerts wait until then/)
    await waiting.until(/the input has ended/)
    const { code, millis } = await waiting.stop()
    // what waits in the state folder is told as such
    expect(code).toBe(1)
    expect(waiting.told()).toMatch(/pipe: \d+ alerts could not be written and wait in/)
    expect(millis).toBeLessThan(6000)

    const checked = await agent(['run', '-c', waiting.config, '--check-config'])
    expect(checked).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/pipe: is a pipe; alerts wait until/),
    })

    const again = start('pipe', yaml)
    await again.until(/the input has ended/)
    let text = ''
    const reader = spawn('cat', [pipe], { stdio: ['ignore', 'pipe', 'inherit'] })
    const isRead = new Promise((resolve) => reader.once('close', resolve))
    reader.stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    const told = Number(/pipe: (\d+) alerts could not/.exec(waiting.told())?.[1])
    const ids = (): Set<string> =>
      new Set(
        text
          .split('\n')
          .slice(0, -1)
          .map((line) => (JSON.parse(line) as { oddflow: { id: string } }).oddflow.id),
      )
    for (let i = 0; i < 400 && ids().size < told; i++) await new Promise((resolve) => setTimeout(resolve, 50))
    expect(ids().size).toBeGreaterThanOrEqual(told)
    expect((await again.stop()).code).toBe(0)
    await isRead
  }, 60_000)
})

describe('the link to the dashboard', () => {
  it('is shown whenever it is asked for, signs in once, and stands in no log', async () => {
    const yaml = `read: ${scan}\neve: link.json\nstate: link-state\nlisten: 127.0.0.1:0\ndashboard: {}\n`
    const running = start('link', yaml)
    await running.until(/dashboard at http:\/\/127\.0\.0\.1:\d+\/; "oddflow-agent dashboard-link"/)
    const links: string[] = []
    for (const args of [
      ['-c', running.config],
      ['--state', inFolder('link-state')],
    ]) {
      const { code, stdout } = await agent(['dashboard-link', ...args])
      expect(code).toBe(0)
      links.push(stdout)
    }
    expect(links[0]).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]{22}\n$/)
    const codes = links.map((link) => new URL(link.trim()).hash.slice('#token='.length))
    const { origin } = new URL(links[0]!.trim())
    const ask = async (path: string, method: string, code = ''): Promise<number> =>
      (await fetch(`${origin}${path}`, { method, headers: { authorization: `Bearer ${code}` } })).status
    // a code signs in, once; it is no token
    expect(await ask('/api/state', 'GET', codes[0])).toBe(401)
    expect(await ask('/api/session', 'POST', codes[0])).toBe(200)
    expect(await ask('/api/session', 'POST', codes[0])).toBe(401)
    expect(await ask('/api/session', 'POST', codes[1])).toBe(200)
    await running.stop()
    for (const code of codes) expect(running.told()).not.toContain(code)
    const kept = JSON.parse(readFileSync(inFolder('link-state/dashboard-token.json'), 'utf8')) as {
      token: string
    }
    expect(running.told()).not.toContain(kept.token)
    const gone = await agent(['dashboard-link', '-c', running.config])
    expect(gone).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/no agent with a dashboard is running/),
    })
  }, 60_000)
})

describe('lines for the journal', () => {
  it('carry their priority where standard error is the journal, and nowhere else', async () => {
    const config = inFolder('journal.yaml')
    writeFileSync(
      config,
      `read: ${scan}\nmodel: home.oddflow\neve: journal.json\nlisten: 127.0.0.1:0\noutputs: [{kind: webhook, url: 'http://192.0.2.1:9/', tokenFile: token}]\n`,
    )
    writeFileSync(inFolder('token'), 'secret\n')
    const file = openSync(inFolder('journal'), 'w+')
    const { dev, ino } = fstatSync(file, { bigint: true })
    const run = (stream: string | undefined): Promise<unknown> =>
      new Promise((resolve) => {
        const child = spawn(
          process.execPath,
          [agentMain, 'run', '--allow-root', '--once', '-c', config, '--memory-limit', '1M'],
          {
            stdio: ['ignore', 'ignore', file],
            env: { ...process.env, ...(stream === undefined ? {} : { JOURNAL_STREAM: stream }) },
          },
        )
        child.once('close', resolve)
      })
    await run(`${dev}:${ino}`)
    const journal = readFileSync(inFolder('journal'), 'utf8')
    expect(journal).toMatch(
      /^<4>oddflow-agent: warning: webhook: the token goes to 192\.0\.2\.1 unencrypted/m,
    )
    expect(journal).toMatch(/^<3>oddflow-agent: --memory-limit 1M: too little/m)
    for (const other of [undefined, `${dev}:${ino + 1n}`, 'nonsense']) {
      await run(other)
      expect(readFileSync(inFolder('journal'), 'utf8').slice(journal.length)).not.toMatch(/^</m)
    }
    closeSync(file)
  }, 60_000)
})

describe('too few open files', () => {
  it('are told as such, however few there are', async (context) => {
    if (!can('prlimit')) context.skip('prlimit is not installed')
    const config = inFolder('files.yaml')
    writeFileSync(
      config,
      `read: ${scan}\nmodel: home.oddflow\neve: files.json\nstate: files-state\nlisten: 127.0.0.1:0\ndashboard: {}\n`,
    )
    let told = 0
    // below 20, Node cannot load the program
    for (let limit = 20; limit < 42; limit++) {
      const args = [
        `--nofile=${limit}`,
        process.execPath,
        agentMain,
        'run',
        '--allow-root',
        '--once',
        '-c',
        config,
      ]
      const { code, stderr } = await new Promise<{ code: number | null; stderr: string }>((resolve) => {
        const child = spawn('prlimit', args, { stdio: ['ignore', 'ignore', 'pipe'] })
        let stderr = ''
        child.stderr.setEncoding('utf8').on('data', (text: string) => {
          stderr += text
        })
        child.once('close', (code) => resolve({ code, stderr }))
      })
      if (code === 0) break
      told++
      expect(stderr, String(limit)).toMatch(/too many open files; (raise|close some or raise) the limit/)
      expect(stderr).not.toMatch(/bug in OddFlow/)
    }
    expect(told).toBeGreaterThan(0)
  }, 60_000)
})

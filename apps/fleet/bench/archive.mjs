/**
 * Captures a second with 1, 2 and 4 workers, and how long a killed worker or server holds an archive up.
 *
 *     node apps/fleet/bench/archive.mjs [captures, 200]
 *
 * Needs nats-server. Copies of the lab's captures, a fresh server on loopback for each line.
 */
import { execFileSync, spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
// @boundaries-ignore tests alone use it, and no package has it
import { natsEnvironment as env, freePort, startNatsServer } from '../../../tools/workspace/nats-server.mjs'

const captures = Number(process.argv[2] ?? 200)
const repository = fileURLToPath(new URL('../../..', import.meta.url))
const program = join(repository, 'apps/fleet/dist/main.js')
const lab = join(repository, 'test/fixtures/lab')
const port = await freePort()
const url = `nats://127.0.0.1:${port}`
const folder = mkdtempSync(join(tmpdir(), 'oddflow-fleet-bench-'))
const children = new Set()

const start = (name, args) => {
  const child = spawn(name, args, { stdio: 'ignore', env })
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}
const fleet = (...args) => start(process.execPath, [program, ...args, '--server', url])
const ended = (child) => new Promise((resolve) => child.once('exit', resolve))
const status = () => {
  try {
    return JSON.parse(
      execFileSync(process.execPath, [program, 'status', '--json', '--server', url], {
        env,
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
    )
  } catch (error) {
    return error.stdout?.length > 0 ? JSON.parse(error.stdout) : null
  }
}

async function measure(label, workers, disturb) {
  const store = join(folder, 'store')
  const results = join(folder, 'results')
  for (const path of [store, results]) rmSync(path, { recursive: true, force: true })
  const serve = async () => {
    const started = await startNatsServer(port, [
      ...['--jetstream', '--store_dir', store, '--addr', '127.0.0.1', '--port', String(port)],
    ])
    children.add(started)
    return started
  }
  let server = await serve()
  await ended(fleet('submit', '--captures', join(folder, 'captures'), '--model', join(folder, 'm.oddflow')))
  const work = () =>
    fleet('work', '--captures', join(folder, 'captures'), '--results', results, '--until-empty')
  const begun = performance.now()
  const running = Array.from({ length: workers }, work)
  const restart = async () => {
    server.kill('SIGKILL')
    await ended(server)
    server = await serve()
  }
  await disturb?.(running, restart)
  await Promise.all(
    running.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null).map(ended),
  )
  const seconds = (performance.now() - begun) / 1000
  const { done, failed, capturesPerSecond } = status()
  const files = readdirSync(results, { recursive: true }).filter((name) => name.endsWith('.parquet'))
  const names = new Set(files.map((name) => name.slice(name.lastIndexOf('/') + 1)))
  console.log(
    `| ${label} | ${done} | ${failed} | ${names.size} | ${seconds.toFixed(1)} | ${capturesPerSecond.toFixed(1)} |`,
  )
  server.kill('SIGKILL')
  await ended(server)
}

try {
  mkdirSync(join(folder, 'captures'))
  const found = readdirSync(lab).filter((name) => name.includes('pcap'))
  for (let i = 0; i < captures; i++) {
    const name = found[i % found.length]
    copyFileSync(join(lab, name), join(folder, 'captures', `${i}-${name}`))
  }
  const normal = found.filter((name) => /^normal-[123]\./.test(name)).map((name) => join(lab, name))
  execFileSync(
    process.execPath,
    [join(repository, 'apps/trainer/dist/main.js'), 'train', ...normal, '-o', join(folder, 'm.oddflow')],
    { stdio: 'ignore' },
  )
  console.log(
    `${captures} captures of ${found.length} kinds; ${cpus()[0].model}, ${cpus().length} logical CPUs, Node ${process.version}\n`,
  )
  console.log(
    '| | scored | set aside | captures in the results | s | captures/s |\n| --- | --: | --: | --: | --: | --: |',
  )
  for (const workers of [1, 2, 4]) await measure(workers === 1 ? '1 worker' : `${workers} workers`, workers)
  await measure('2 workers, one killed (kill -9) after 5 s', 2, async ([first]) => {
    await pause(5000)
    first.kill('SIGKILL')
  })
  await measure('2 workers, the server killed after 5 s', 2, async (_, restart) => {
    await pause(5000)
    await restart()
  })
} finally {
  for (const child of children) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
}

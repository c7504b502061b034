/**
 * The workspace's own machinery: the direction rule fails a build that breaks it, a build is repeated when
 * and only when something changed, two at once wait for each other, and the environment of tools is clean.
 */
import { spawn } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { pruneOutputs } from '../tools/workspace/build.mjs'
import { toolEnvironment } from '../tools/workspace/environment.mjs'
import { root, withDependencies } from '../tools/workspace/layout.mjs'
import { withLock } from '../tools/workspace/lock.mjs'
import { auditOf, pinnedDockerfile } from '../tools/workspace/pnpm.mjs'
import { runProgram } from './support/packed-packages.js'
import { findReadmeSample } from './support/readme-sample.js'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'oddflow-workspace-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('the audit of a release', () => {
  const answer = (high: number, low: number): string =>
    JSON.stringify({ metadata: { vulnerabilities: { info: 0, low, moderate: 0, high, critical: 0 } } })

  it('fails for a grave fault, and tells of the others', () => {
    expect(auditOf(answer(0, 0))).toEqual({ isSound: true, text: 'audited: no known fault in a dependency' })
    expect(auditOf(answer(0, 2))).toEqual({ isSound: true, text: 'audited: 2 low' })
    expect(auditOf(answer(1, 2))).toMatchObject({
      isSound: false,
      text: expect.stringContaining('2 low, 1 high'),
    })
  })

  it.each([
    ['', /the registry said nothing/],
    [' ERR_PNPM  no such command\nmore', /\(ERR_PNPM {2}no such command\)/],
    ['{"error":{"message":"responded with 405"}}', /\(responded with 405\)/],
  ])('that did not run (%j) is said not to have run, and why', (output, says) => {
    const { isSound, text } = auditOf(output)
    expect(isSound).toBe(true)
    expect(text).toMatch(/^NOT AUDITED: /)
    expect(text).toMatch(says)
  })
})

describe('the direction rule', () => {
  /** A copy of all manifests and of one source file a package, as boundaries reads them. */
  function copyWorkspace(): void {
    const files = ['package.json', 'pnpm-workspace.yaml', 'pnpm-lock.yaml', 'turbo.json', '.gitignore']
    for (const file of files) cpSync(join(root, file), join(folder, file))
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    for (const { directory } of withDependencies('apps/trainer')) {
      mkdirSync(join(folder, directory, 'src'), { recursive: true })
      for (const file of ['package.json', 'turbo.json']) {
        cpSync(join(root, directory, file), join(folder, directory, file))
      }
      writeFileSync(join(folder, directory, 'src', 'index.ts'), 'export {}\n')
    }
  }
  const boundaries = () => runProgram(join(root, 'node_modules', '.bin', 'turbo'), ['boundaries'], folder)
  function addDependency(directory: string, name: string): void {
    const path = join(folder, directory, 'package.json')
    const manifest = JSON.parse(readFileSync(path, 'utf8'))
    manifest.dependencies = { ...manifest.dependencies, [name]: 'workspace:^' }
    writeFileSync(path, JSON.stringify(manifest))
  }

  it('holds as the packages are', async () => {
    copyWorkspace()
    expect((await boundaries()).code).toBe(0)
  })

  it.each([
    ['packages/core', '@oddflow/linalg'],
    ['packages/linalg', '@oddflow/detectors'],
    ['packages/flows', '@oddflow/detectors'],
    ['packages/detectors', '@oddflow/flows'],
    ['packages/detectors', '@oddflow/online'],
    ['packages/capture', '@oddflow/flows'],
    ['packages/evaluation', '@oddflow/capture'],
    ['packages/evaluation', 'oddflow'],
  ])('fails when %s depends on %s', async (directory, name) => {
    copyWorkspace()
    addDependency(directory, name)
    const { code, stdout, stderr } = await boundaries()
    expect(code).toBe(1)
    expect(stdout + stderr).toContain(name)
  })

  it('fails when a package imports what it does not declare', async () => {
    copyWorkspace()
    writeFileSync(join(folder, 'packages/flows/src/index.ts'), "export * from '@oddflow/detectors'\n")
    expect((await boundaries()).code).toBe(1)
  })
})

it('every task of run.mjs starts in a fresh clone: no module of it needs a package before it installs', () => {
  const tools = join(root, 'tools/workspace')
  const read = (name: string) => readFileSync(join(tools, name), 'utf8')
  const waiting = [...read('run.mjs').matchAll(/import\('\.\/([\w-]+\.mjs)'\)/g)].map(([, name]) => name!)
  expect(waiting.length).toBeGreaterThan(8)
  const seen = new Set<string>()
  for (const name of waiting) {
    if (seen.has(name)) continue
    seen.add(name)
    for (const [, from] of read(name).matchAll(/^(?:import|export) [^'"]*?from '([^']+)'/gm)) {
      if (from!.startsWith('./')) waiting.push(from!.slice(2))
      else expect(from, `${name} imports ${from}`).toMatch(/^node:/)
    }
  }
})

describe('the lock', () => {
  it('lets one at a time through', async () => {
    const path = join(folder, 'lock')
    const events: string[] = []
    const work = (name: string) => async () => {
      events.push(`${name} in`)
      await new Promise((resolve) => setTimeout(resolve, 120))
      events.push(`${name} out`)
    }
    await Promise.all([withLock(work('a'), path), withLock(work('b'), path)])
    expect(events).toEqual(['a in', 'a out', 'b in', 'b out'])
    expect(existsSync(path)).toBe(false)
  })

  it('is released when the work fails', async () => {
    const path = join(folder, 'lock')
    await expect(withLock(() => Promise.reject(new Error('broken')), path)).rejects.toThrow('broken')
    expect(await withLock(() => Promise.resolve(1), path)).toBe(1)
  })

  it('is taken from a holder that was killed', async () => {
    const path = join(folder, 'lock')
    const hold = `import { withLock } from ${JSON.stringify(join(root, 'tools/workspace/lock.mjs'))}
      await withLock(async () => { console.log('held'); await new Promise((r) => setTimeout(r, 60_000)) }, ${JSON.stringify(path)})`
    const child = spawn(process.execPath, ['--input-type=module', '--eval', hold], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await new Promise((resolve) => child.stdout.once('data', resolve))
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await gone
    expect(existsSync(path)).toBe(true)
    expect(await withLock(() => Promise.resolve('taken'), path)).toBe('taken')
  })
})

describe('the environment of tools', () => {
  const base = { PATH: '/bin', HOME: tmpdir() }

  it('keeps how to reach a registry, and drops what belongs to the outer call', () => {
    const outer = {
      ...base,
      npm_config_registry: 'http://mirror.example/',
      npm_config_https_proxy: 'http://proxy.example/',
      npm_config_loglevel: 'silent',
      npm_config_prefix: '/elsewhere',
      npm_lifecycle_event: 'test',
      INIT_CWD: '/elsewhere',
      NODE_ENV: 'production',
    }
    const environment: Record<string, string> = toolEnvironment(['/pnpm'], outer)
    expect(environment).toMatchObject({
      npm_config_registry: 'http://mirror.example/',
      npm_config_https_proxy: 'http://proxy.example/',
      TURBO_TELEMETRY_DISABLED: '1',
      HOME: tmpdir(),
    })
    expect(environment.PATH.startsWith('/pnpm:')).toBe(true)
    for (const name of [
      'npm_config_loglevel',
      'npm_config_prefix',
      'npm_lifecycle_event',
      'INIT_CWD',
      'NODE_ENV',
    ]) {
      expect(environment[name]).toBeUndefined()
    }
  })

  it.each(['', undefined, '/proc/nowhere', 'relative'])('gives tools a HOME where it is %j', (home) => {
    const environment: Record<string, string> = toolEnvironment([], { PATH: '/bin', HOME: home })
    expect(environment.HOME).toBe(join(root, '.turbo', 'home'))
  })
})

describe('small helpers', () => {
  it('removes outputs whose source is gone, and only those', () => {
    for (const path of [
      'src/a.ts',
      'src/sub/b.ts',
      'src/page.tsx',
      'dist/page.js',
      'dist/a.js',
      'dist/a.d.ts',
      'dist/sub/b.js',
      'dist/old.js',
    ]) {
      mkdirSync(join(folder, path, '..'), { recursive: true })
      writeFileSync(join(folder, path), '')
    }
    mkdirSync(join(folder, 'dist/gone'))
    writeFileSync(join(folder, 'dist/gone/c.js'), '')
    pruneOutputs(folder)
    const there = ['a.js', 'a.d.ts', 'sub/b.js', 'page.js', 'old.js', 'gone'].filter((p) =>
      existsSync(join(folder, 'dist', p)),
    )
    expect(there).toEqual(['a.js', 'a.d.ts', 'sub/b.js', 'page.js'])
  })

  it('looks for them in build/ where a program is bundled, whose dist/ has other files', () => {
    const bundled = join(folder, 'bundled')
    for (const path of ['src/a.ts', 'build/a.js', 'build/old.js', 'dist/chunk.js']) {
      mkdirSync(join(bundled, path, '..'), { recursive: true })
      writeFileSync(join(bundled, path), '')
    }
    pruneOutputs(bundled)
    expect(readdirSync(join(bundled, 'build'))).toEqual(['a.js'])
    expect(readdirSync(join(bundled, 'dist'))).toEqual(['chunk.js'])
  })

  it('finds the sample of a README and what it prints', () => {
    const readme = '```sh\nnpm i\n```\n```ts\nlog(1)\n```\nprints\n```text\n1\n```\n```ts\nlog(2)\n```\n'
    expect(findReadmeSample(readme)).toEqual({ code: 'log(1)\n', output: '1\n' })
    expect(findReadmeSample('```ts\na\n```\n```ts\nb\n```\n```text\nc\n```\n')?.output).toBeUndefined()
    expect(findReadmeSample('no code')).toBeUndefined()
  })

  it('knows what an app needs, dependencies first', () => {
    const order = withDependencies('apps/trainer').map(({ directory }) => directory)
    expect(order.at(-1)).toBe('apps/trainer')
    expect(order.indexOf('packages/core')).toBeLessThan(order.indexOf('packages/linalg'))
    expect(() => withDependencies('apps/nothing')).toThrow('there is no workspace apps/nothing')
  })
})

describe('the base image of the Dockerfile', () => {
  const text = readFileSync(join(root, 'Dockerfile'), 'utf8')

  it('is a tag of a Node that is maintained, and both stages are of it', () => {
    expect(text).toMatch(/^ARG NODE=node:24-slim(@sha256:[0-9a-f]{64})?$/m)
    expect(text.match(/^FROM (--platform=\$BUILDPLATFORM )?\$\{NODE\}( AS build)?$/gm)).toHaveLength(2)
  })

  it('is pinned by its digest, once and again, and by nothing that is none', () => {
    const digests = ['a', 'b'].map((digit) => `sha256:${digit.repeat(64)}`) as [string, string]
    const pinned = pinnedDockerfile(text, digests[0])
    expect(pinned).toContain(`ARG NODE=node:24-slim@${digests[0]}\n`)
    expect(pinnedDockerfile(pinned!, digests[1])).toContain(`ARG NODE=node:24-slim@${digests[1]}\n`)
    for (const none of ['', 'sha256:', 'sha256:zz', `${digests[0]}\nRUN x`, '<no value>'])
      expect(pinnedDockerfile(text, none)).toBe(null)
  })
})

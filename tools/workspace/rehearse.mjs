/**
 * A release, rehearsed to its end: the committed state is cloned, the changesets make its versions and changelogs, every
 * package is published to a registry on this machine, and an empty project installs them by name and runs what their
 * READMEs show. What this checkout holds stays as it is, but for the digest of the base image.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run, runQuietly, ToolFailure, tell } from './command.mjs'
import { toolEnvironment } from './environment.mjs'
import { ensureInstalled, pnpmDirectory } from './install.mjs'
import { readWorkspaces, root } from './layout.mjs'
import { auditDependencies, pinBaseImage } from './pnpm.mjs'

/**
 * The newest verdaccio that runs on Node 20. It asks for node-fetch by a tag, which moves and which not every registry has.
 */
const REGISTRY_PROGRAM = {
  private: true,
  dependencies: { verdaccio: '6.8.0' },
  overrides: { 'node-fetch': '2.7.0' },
}

/** The empty project; npm makes a bill of materials of none without a version. */
const USER = { name: 'user-of-oddflow', version: '1.0.0', private: true, type: 'module' }

export async function rehearseRelease() {
  await ensureInstalled()
  const isSound = await auditDependencies()
  await pinBaseImage()
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-release-'))
  const registry = await startRegistry(join(folder, 'registry'))
  try {
    const released = await publishAll(join(folder, 'checkout'), registry.url)
    await useAll(join(folder, 'user'), registry.url, released)
  } finally {
    registry.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  if (!isSound) process.exitCode = 1
}

/** Packages of ours are its own; every other comes from the registry that npm uses here. */
async function startRegistry(folder) {
  mkdirSync(folder, { recursive: true })
  const port = await freePort()
  const url = `http://127.0.0.1:${port}/`
  const { output } = await run('npm', ['config', 'get', 'registry'], { quiet: true })
  const ours = { access: '$all', publish: '$all' }
  const config = {
    storage: join(folder, 'storage'),
    uplinks: { upstream: { url: output.trim(), timeout: '60s' } },
    packages: { '@oddflow/*': ours, 'oddflow*': ours, '**': { access: '$all', proxy: 'upstream' } },
    log: { type: 'file', path: join(folder, 'log'), level: 'warn' },
    web: { enable: false },
    max_body_size: '100mb',
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(REGISTRY_PROGRAM))
  const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund']
  await runQuietly('fetching verdaccio', 'npm', install, { cwd: folder, env: toolEnvironment() })
  // JSON is YAML
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify(config))
  const program = join(folder, 'node_modules', 'verdaccio', 'bin', 'verdaccio')
  const args = [program, '--config', join(folder, 'config.yaml'), '--listen', `127.0.0.1:${port}`]
  const child = spawn(process.execPath, args, { stdio: 'ignore', env: toolEnvironment() })
  let hasEnded = false
  child.once('exit', () => {
    hasEnded = true
  })
  const stop = () => {
    child.kill()
  }
  process.once('exit', stop)
  for (let tries = 0; tries < 120; tries++) {
    if (hasEnded) throw new ToolFailure('the local registry', 1, 'verdaccio did not start\n')
    const answer = await fetch(`${url}-/ping`).catch(() => null)
    if (answer?.ok) return { url, stop }
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  stop()
  throw new ToolFailure('the local registry', 1, 'verdaccio gave no answer in a minute\n')
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

/** Versions, changelogs and publishing, in a clone; resolves to the manifests as published. */
async function publishAll(checkout, registry) {
  await runQuietly('cloning', 'git', ['clone', '--quiet', root, checkout], { env: toolEnvironment() })
  const env = toolEnvironment([await pnpmDirectory()])
  const inClone = { cwd: checkout, env: { ...env, npm_config_registry: registry } }
  const tool = (task) => ['tools/workspace/run.mjs', ...task]
  await runQuietly('installing', process.execPath, tool(['install']), { cwd: checkout, env })
  await runQuietly('versions', process.execPath, tool(['pnpm', 'exec', 'changeset', 'version']), {
    cwd: checkout,
    env,
  })
  await runQuietly('building', process.execPath, tool(['build']), { cwd: checkout, env })
  // what npm asks for before it publishes; the registry takes any
  writeFileSync(join(checkout, '.npmrc'), `//${new URL(registry).host}/:_authToken=rehearsal\n`, {
    flag: 'a',
  })
  const args = ['--recursive', 'publish', '--no-git-checks', '--registry', registry]
  await runQuietly('publishing', join(await pnpmDirectory(), 'pnpm'), args, inClone)
  return readWorkspaces(checkout).map(({ directory, manifest }) => {
    const changelog = join(checkout, directory, 'CHANGELOG.md')
    if (!existsSync(changelog)) throw new ToolFailure('the release', 1, `${manifest.name} has no changelog\n`)
    return manifest
  })
}

/** Installs every package by name in an empty project; runs their READMEs' samples and their programs. */
async function useAll(folder, registry, released) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify(USER))
  const env = { ...toolEnvironment(), npm_config_registry: registry }
  const inProject = { cwd: folder, env }
  const names = released.map(({ name }) => name)
  await runQuietly('installing by name', 'npm', ['install', '--no-audit', '--no-fund', ...names], inProject)
  for (const { name, version, bin, exports } of released) {
    const home = join(folder, 'node_modules', name)
    const found = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')).version
    if (found !== version) throw new ToolFailure(name, 1, `expected version ${version}, installed ${found}\n`)
    if (!existsSync(join(home, 'CHANGELOG.md')))
      throw new ToolFailure(name, 1, 'its changelog is not packed\n')
    const done = []
    if (exports !== undefined) {
      const { code, output } = sampleIn(readFileSync(join(home, 'README.md'), 'utf8'))
      writeFileSync(join(folder, 'sample.mjs'), await withoutTypes(code))
      const printed = await runQuietly(`the README of ${name}`, process.execPath, ['sample.mjs'], inProject)
      if (output !== undefined && printed.trimEnd() !== output.trimEnd()) {
        throw new ToolFailure(`the README of ${name}`, 1, `expected\n${output}\nand it printed\n${printed}\n`)
      }
      done.push('README sample')
    }
    for (const program of Object.keys(bin ?? {})) {
      const printed = await runQuietly(program, 'npx', ['--no-install', program, '--version'], inProject)
      if (printed.trim() !== version) throw new ToolFailure(program, 1, `says it is version ${printed}\n`)
      done.push(`${program} --version`)
    }
    tell(`published and used: ${name}@${version}  (${done.join(', ')})`)
  }
  await runQuietly('oddflow demo', 'npx', ['--no-install', 'oddflow', 'demo', '-o', 'demo.html'], inProject)
  tell('published and used: oddflow demo')
  const told = await runQuietly('npm sbom', 'npm', ['sbom', '--sbom-format=cyclonedx'], inProject)
  const bom = JSON.parse(told.slice(told.indexOf('{')))
  tell(
    `bill of materials: ${bom.bomFormat} ${bom.specVersion} of ${bom.components.length} installed packages`,
  )
}

/** The first ts block of a README, and the text block below it. */
function sampleIn(markdown) {
  const [, code, output] = /^```ts\n([\s\S]*?)^```\n(?:\s*^```text\n([\s\S]*?)^```)?/m.exec(markdown)
  return { code, output }
}

async function withoutTypes(code) {
  const { default: ts } = await import('typescript') // a fresh clone has it by now
  const compilerOptions = {
    module: ts.ModuleKind.ESNext,
    target: ts.ScriptTarget.ES2022,
    verbatimModuleSyntax: true,
  }
  return ts.transpileModule(code, { compilerOptions }).outputText
}

/**
 * Dependencies at the versions of the lock file, with nothing but Node and npm to begin with.
 *
 * `npx` fetches the pinned pnpm once (npm caches it), and pnpm installs with --frozen-lockfile. What was
 * installed is recorded in node_modules/.oddflow/install.json as a hash of the lock file and of all that
 * may change what pnpm makes of it; while the hash is the same nothing is started at all. Where npx keeps
 * pnpm is recorded as well, since turbo wants it on its PATH and asking npx takes most of a second.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { runQuietly, ToolFailure } from './command.mjs'
import { toolEnvironment } from './environment.mjs'
import { pinnedPnpmVersion, readJson, readWorkspaces, root, stateDirectory } from './layout.mjs'
import { withLock } from './lock.mjs'

const recordPath = join(stateDirectory, 'install.json')

const NO_NETWORK =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENOTCACHED|META_FETCH_FAIL|NO_OFFLINE/

function fingerprint(workspaces) {
  const hash = createHash('sha256').update(`${process.platform} ${process.arch}\0`)
  const manifests = workspaces.map(({ directory }) => `${directory}/package.json`)
  for (const name of ['pnpm-lock.yaml', 'pnpm-workspace.yaml', 'package.json', ...manifests]) {
    hash.update(`${name}\0`).update(readFileSync(join(root, name)))
  }
  return hash.digest('hex')
}

function readRecord() {
  try {
    return readJson(recordPath)
  } catch {
    return {}
  }
}

function isInstalled(workspaces) {
  const { fingerprint: installed } = readRecord()
  if (installed === undefined || installed !== fingerprint(workspaces)) return false
  return ['.', ...workspaces.map(({ directory }) => directory)].every((directory) =>
    existsSync(join(root, directory, 'node_modules')),
  )
}

function explain(error) {
  if (!(error instanceof ToolFailure) || !NO_NETWORK.test(error.output)) return error
  return new ToolFailure(
    'reaching the npm registry',
    error.exitCode,
    `${error.output.trimEnd()}\n\nThe npm registry could not be reached, and not everything is in the local cache.\n` +
      'Connect to the network (or set the registry or proxy that npm is to use) and run the same command again.\n',
  )
}

/** The folder that holds the pinned pnpm, fetched by npx if it is not there yet. */
export async function pnpmDirectory() {
  const version = pinnedPnpmVersion()
  const { pnpm } = readRecord()
  if (pnpm?.version === version && existsSync(join(pnpm.directory, 'pnpm'))) return pnpm.directory
  try {
    const args = ['--yes', '--prefer-offline', `--package=pnpm@${version}`, '-c', 'command -v pnpm']
    const output = await runQuietly('fetching pnpm', 'npx', args, { env: toolEnvironment() })
    return dirname(output.trim().split('\n').at(-1))
  } catch (error) {
    throw explain(error)
  }
}

/** The environment for tools, with pnpm on its PATH. */
export async function pnpmEnvironment() {
  return toolEnvironment([await pnpmDirectory()])
}

async function install() {
  const directory = await pnpmDirectory()
  const env = { ...toolEnvironment([directory]), CI: 'true' }
  const args = ['install', '--frozen-lockfile', '--prefer-offline', '--prod=false']
  try {
    await runQuietly('installing dependencies', join(directory, 'pnpm'), args, { env })
  } catch (error) {
    throw explain(error)
  }
  mkdirSync(stateDirectory, { recursive: true })
  const record = {
    fingerprint: fingerprint(readWorkspaces()),
    pnpm: { version: pinnedPnpmVersion(), directory },
  }
  writeFileSync(recordPath, JSON.stringify(record))
}

/** Installs what the lock file names, unless that is what is there. */
export async function ensureInstalled(workspaces = readWorkspaces()) {
  if (isInstalled(workspaces)) return
  await withLock(async () => {
    if (!isInstalled(workspaces)) await install()
  })
}

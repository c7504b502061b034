/**
 * The pinned pnpm for those who have none: `npm run -s pnpm -- --filter @oddflow/linalg test`.
 *
 * It installs first, except before pnpm's own install, add, remove and update, which do that themselves.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run, tell } from './command.mjs'
import { toolEnvironment } from './environment.mjs'
import { ensureInstalled, pnpmDirectory } from './install.mjs'
import { root } from './layout.mjs'

const INSTALLS_ITSELF = new Set(['install', 'i', 'add', 'remove', 'rm', 'update', 'up', 'dedupe', 'import'])

export async function runPnpm(args) {
  if (!args.some((argument) => INSTALLS_ITSELF.has(argument))) await ensureInstalled()
  const directory = await pnpmDirectory()
  const { code } = await run(join(directory, 'pnpm'), args, {
    env: toolEnvironment([directory]),
    stdin: 'inherit',
    stdout: 'inherit',
  })
  process.exitCode = code
}

/**
 * What the registry knows of faults in the packages of the lock file. False where one is high or critical. Where the
 * registry answers no audits that is told, and is no fault.
 */
export async function auditDependencies() {
  const directory = await pnpmDirectory()
  const { output } = await run(join(directory, 'pnpm'), ['audit', '--json'], {
    env: toolEnvironment([directory]),
    quiet: true,
  })
  const found = auditOf(output)
  tell(found.text)
  return found.isSound
}

/** @param output - of `pnpm audit --json`. */
export function auditOf(output) {
  const answer = jsonIn(output)
  const counts = answer?.metadata?.vulnerabilities
  if (counts === undefined) {
    const reason = answer?.error?.message ?? output.trim().split('\n')[0]
    const why = reason === '' ? 'the registry said nothing' : reason.slice(0, 200)
    return {
      isSound: true,
      text: `NOT AUDITED: the dependencies could not be checked for known faults (${why}); do so where the registry answers "pnpm audit"`,
    }
  }
  const told = Object.entries(counts).filter(([, count]) => count > 0)
  const isSound = !(counts.high > 0 || counts.critical > 0)
  const list = told.map(([severity, count]) => `${count} ${severity}`).join(', ')
  const advice = isSound ? '' : '; see npm run -s pnpm -- audit'
  return { isSound, text: `audited: ${list === '' ? 'no known fault in a dependency' : `${list}${advice}`}` }
}

/** Writes the digest that the base image's tag has now into the Dockerfile. Where no registry answers, that is told and nothing changes. */
export async function pinBaseImage() {
  const path = join(root, 'Dockerfile')
  const text = readFileSync(path, 'utf8')
  const args = ['buildx', 'imagetools', 'inspect', taggedBaseOf(text), '--format', '{{.Manifest.Digest}}']
  const { code, output } = await run('docker', args, { quiet: true }).catch(({ message }) => ({
    code: 1,
    output: message,
  }))
  const pinned = code === 0 ? pinnedDockerfile(text, output.trim()) : null
  if (pinned === null) {
    const reason = output.trim().split('\n')[0].slice(0, 200)
    tell(`NOT PINNED: the base image keeps what the Dockerfile has (${reason})`)
    return
  }
  writeFileSync(path, pinned)
  tell(`pinned: the base image is ${/^ARG NODE=(.*)$/m.exec(pinned)[1]}`)
}

function taggedBaseOf(dockerfile) {
  return /^ARG NODE=([^@\n]+)/m.exec(dockerfile)[1]
}

/** The Dockerfile with the digest of its base image; null where that is no digest. */
export function pinnedDockerfile(text, digest) {
  if (!/^sha256:[0-9a-f]{64}$/.test(digest)) return null
  return text.replace(/^ARG NODE=.*$/m, `ARG NODE=${taggedBaseOf(text)}@${digest}`)
}

function jsonIn(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

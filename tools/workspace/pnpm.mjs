/**
 * The pinned pnpm for those who have none: `npm run -s pnpm -- --filter @oddflow/linalg test`.
 *
 * It installs first, except before pnpm's own install, add, remove and update, which do that themselves.
 */
import { join } from 'node:path'
import { ensureBuilt } from './build.mjs'
import { run, tell } from './command.mjs'
import { toolEnvironment } from './environment.mjs'
import { ensureInstalled, pnpmDirectory } from './install.mjs'

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

/** Everything that publishing does, except that nothing is published. */
export async function rehearseRelease() {
  await ensureBuilt()
  const isSound = await auditDependencies()
  await runPnpm(['--recursive', 'publish', '--dry-run', '--no-git-checks'])
  if (!isSound) process.exitCode = 1
}

/**
 * What the registry knows of faults in the packages of the lock file. False where one is high or critical. Where the
 * registry answers no audits that is told, and is no fault.
 */
async function auditDependencies() {
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

function jsonIn(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

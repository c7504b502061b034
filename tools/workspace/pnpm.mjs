/**
 * The pinned pnpm for those who have none: `npm run -s pnpm -- --filter @oddflow/linalg test`.
 *
 * It installs first, except before pnpm's own install, add, remove and update, which do that themselves.
 */
import { join } from 'node:path'
import { ensureBuilt } from './build.mjs'
import { run } from './command.mjs'
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
  await runPnpm(['--recursive', 'publish', '--dry-run', '--no-git-checks'])
}

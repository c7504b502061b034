#!/usr/bin/env node
/**
 * The one entry of every root script: `node tools/workspace/run.mjs TASK [ARGUMENT…]`.
 *
 * It needs Node 20 and npm, nothing else: what a task needs is installed and built first, if it is not
 * there. Each task is a function in a file of its own, loaded when asked for, since `app` must start in
 * no time. Exit code 0, or 1 with the reason on standard error.
 */
import { ToolFailure, tellProgress } from './command.mjs'

const tasks = {
  install: async () => (await import('./install.mjs')).ensureInstalled(),
  build: async ([directory]) =>
    (await import('./stages.mjs')).runStages(
      directory === undefined ? ['build', 'boundaries'] : ['build'],
      directory,
    ),
  boundaries: async () => (await import('./stages.mjs')).runStages(['boundaries']),
  lint: async () => (await import('./stages.mjs')).runStages(['lint', 'checks', 'unused']),
  typecheck: async () => (await import('./stages.mjs')).runStages(['build', 'types']),
  test: async (args) => (await import('./test.mjs')).runEverything(args),
  'slow-tests': async (args) => {
    process.env.ODDFLOW_TESTS = 'all'
    await (await import('./test.mjs')).runEverything(args)
  },
  app: async ([name, ...args]) => (await import('./app.mjs')).runApp(name, args),
  demo: async (args) => (await import('./app.mjs')).runDemo(args),
  format: async () => (await import('./pnpm.mjs')).runPnpm(['exec', 'biome', 'check', '--write', '.']),
  pnpm: async (args) => (await import('./pnpm.mjs')).runPnpm(args),
  site: async () => (await import('./site.mjs')).buildSite(),
  slow: async ([job, ...args]) => (await import('./slow.mjs')).runSlowJob(job, args),
  page: async ([folder]) => (await import('./page.mjs')).buildPage(folder),
  'rehearse-release': async () => (await import('./rehearse.mjs')).rehearseRelease(),
}

const [name, ...args] = process.argv.slice(2)
if (!Object.hasOwn(tasks, name ?? '')) {
  process.stderr.write(`usage: node tools/workspace/run.mjs ${Object.keys(tasks).join('|')} [ARGUMENT…]\n`)
  process.exit(2)
}
/** They are silent: what they run has the word. */
const SILENT = ['app', 'pnpm']
if (!SILENT.includes(name)) tellProgress()
try {
  await tasks[name](args)
} catch (error) {
  if (!(error instanceof ToolFailure)) throw error
  process.stderr.write(`${error.output.trimEnd()}\n\noddflow: ${error.message}\n`)
  process.exitCode = 1
}

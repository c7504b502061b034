/**
 * The page to try OddFlow on: `npm run -s page [FOLDER]` writes it into a folder (default site/dist/try) that any web
 * server can serve: page, style, icon, one script with the library and the worker, and the terms of what is in it.
 */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ensureBuilt } from './build.mjs'
import { tell } from './command.mjs'
import { root } from './layout.mjs'
import { licences, packagesOf } from './licences.mjs'

const app = join(root, 'apps/trainer')

export async function buildPage(folder = join(root, 'site/dist/try')) {
  await ensureBuilt('apps/trainer')
  await writePage(folder)
  tell(
    `page ok: ${resolve(folder)} (${Math.round(statSync(join(folder, 'main.js')).size / 1000)} kB of script)`,
  )
}

/** Of a trainer that is built. */
export async function writePage(folder) {
  const { bundlePage, bundleWorker } = await import('./bundle-page.mjs')
  const { version } = JSON.parse(readFileSync(join(app, 'package.json'), 'utf8'))
  const worker = await bundleWorker(app, { ODDFLOW_VERSION: JSON.stringify(version) })
  const inputs = await bundlePage(app, folder, { WORKER_CODE: JSON.stringify(worker.text) })
  writeFileSync(join(folder, 'LICENSES.txt'), licences(packagesOf({ ...worker.inputs, ...inputs }, app)))
}

/**
 * The page to try OddFlow on: `npm run -s page [FOLDER]` writes it into a folder (default site/dist/try) that any web
 * server can serve: page, style, icon, one script with the library and the worker, and the terms of what is in it.
 */
import { cpSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
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
  const { build } = await import('esbuild')
  const { version } = JSON.parse(readFileSync(join(app, 'package.json'), 'utf8'))
  const inputs = {}
  const bundle = async (entry, define) => {
    const { outputFiles, metafile } = await build({
      entryPoints: [join(app, 'build/page', entry)],
      bundle: true,
      minify: true,
      format: 'iife',
      platform: 'browser',
      target: 'es2022',
      define,
      external: ['node:*'],
      legalComments: 'none',
      metafile: true,
      write: false,
    })
    Object.assign(inputs, metafile.inputs)
    return outputFiles[0].text
  }
  const worker = await bundle('worker.js', { ODDFLOW_VERSION: JSON.stringify(version) })
  const script = await bundle('main.js', { WORKER_CODE: JSON.stringify(worker) })
  mkdirSync(folder, { recursive: true })
  cpSync(join(app, 'page'), folder, { recursive: true })
  writeFileSync(join(folder, 'main.js'), script)
  writeFileSync(join(folder, 'LICENSES.txt'), licences(packagesOf(inputs, app)))
}
